/**
 * Our engine as benches drive it: token ids in, token ids out, on SmolLM2 prepared under `.cache/bench`.
 */
import { existsSync } from 'node:fs'
import path from 'node:path'
import { createEngine } from '../../../dist/src/inference/engine/engine.js'
import {
  hasFastIntegerProducts,
  withIntegerProducts,
} from '../../../dist/src/inference/engine/runner/integer-weights.js'
import { CALIBRATION_TEXT } from '../../../dist/src/inference/host/local-engine.js'
import { PROJECTIONS, projectionPath, projectionShape } from '../../../dist/src/model/architectures/decoder-config.js'
import { prepareBaseModel } from '../../../dist/src/model/architectures/prepare.js'
import { loadTextModel } from '../../../dist/src/model/text/text-model.js'
import { createAdapter } from '../../../dist/src/model/weights/adapter.js'
import { createOrtRuntime } from '../../../dist/src/numerics/runtime/ort-runtime.js'

const ROOT = path.resolve(import.meta.dirname, '../../..')
export const MODEL = path.join(ROOT, '.cache/models/SmolLM2-135M-Instruct.Q4_1.gguf')
export const Q8_MODEL = path.join(ROOT, '.cache/bench/SmolLM2-135M-Instruct.Q8_0.gguf')
export const SPARK = path.join(ROOT, 'src/assets/spark')
export const hasModel = existsSync(MODEL)

export const RULES = {
  temperature: 0,
  topP: 1,
  topK: 0,
  minP: 0,
  repetitionPenalty: 1,
  frequencyPenalty: 0,
  presencePenalty: 0,
  logitBias: null,
  allowedTokenIds: null,
  seed: null,
  n: 1,
  minTokens: 0,
  stopTokenIds: [],
  ignoreEos: true,
  topLogprobs: 0,
}

/** Loads the model in a precision. */
export async function loadOurs(
  modelPath,
  precision,
  { sequences, contextLength = 1024, speculation = 'auto', threads = 2, runtime = createOrtRuntime() },
) {
  const prepared = await prepareAsServed(modelPath, precision, runtime)
  const engine = await createEngine({
    runtime,
    prepared,
    precision,
    threads,
    maxContextLength: contextLength,
    maxConcurrentSequences: sequences,
    eosTokenIds: [],
    prefixCacheBytes: 0,
    speculation,
  })
  let counter = 0

  function generate(promptTokenIds, count, { adapter = null, rules = {}, onToken = () => {} } = {}) {
    return new Promise((resolve, reject) => {
      const ids = []
      engine.submit(
        {
          id: `bench-${counter++}`,
          promptTokenIds,
          rules: { ...RULES, ...rules, maxTokens: count },
          adapter,
          cacheSalt: null,
        },
        {
          onStarted: () => {},
          onToken: ({ tokenId }) => {
            onToken()
            return ids.push(tokenId) > 0
          },
          onAborted: () => {},
          onFinished: () => resolve(ids),
          onFailed: reject,
        },
      )
    })
  }

  return {
    config: prepared.config,
    generate,
    generateMany: (prompts, count, options) => Promise.all(prompts.map((ids) => generate(ids, count, options))),
    dispose: () => engine.close(),
  }
}

/** int8 in the kind that a host would choose on this machine. */
async function prepareAsServed(modelPath, precision, runtime) {
  const prepared = await prepareBaseModel(modelPath, path.join(ROOT, '.cache/bench/prepared'), [precision])
  if (precision !== 'int8' || !(await hasFastIntegerProducts(runtime, 2))) return prepared
  const { tokenizer } = await loadTextModel(modelPath)
  return withIntegerProducts(prepared, { runtime, threads: 2, calibrationIds: tokenizer.encode(CALIBRATION_TEXT) })
}

/** A rank-8 adapter on all seven projections; its numbers do not matter, its work does. */
export function benchAdapter(config, seed = 1) {
  const modules = Array.from({ length: config.layerCount }, (_, layer) =>
    PROJECTIONS.map((projection) => {
      const [outputSize, inputSize] = projectionShape(config, projection)
      return { path: projectionPath(layer, projection), outputSize, inputSize }
    }),
  ).flat()
  const adapter = createAdapter(modules, { rank: 8, alpha: 16, seed })
  return { digest: `bench-${seed}`, load: async () => adapter }
}

/** A prompt of ordinary token ids. */
export function promptOf(length, seed = 0) {
  return Array.from({ length }, (_, i) => 100 + ((i * 7919 + seed * 104729) % 40000))
}
