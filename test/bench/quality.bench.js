/**
 * What quantized serving costs in quality: perplexity on the project's own documentation, against float32 in the same run.
 *
 * int8 is measured twice: block-quantized, and through integer products as it is served where the machine is made for them.
 */
import { readdirSync, readFileSync } from 'node:fs'
import path from 'node:path'
import { createEngine } from '../../dist/src/inference/engine/engine.js'
import { withIntegerProducts } from '../../dist/src/inference/engine/integer-weights.js'
import { CALIBRATION_TEXT } from '../../dist/src/inference/host/calibration-text.js'
import { prepareBaseModel } from '../../dist/src/model/architectures/prepare.js'
import { loadTextModel } from '../../dist/src/model/text/text-model.js'
import { createOrtRuntime } from '../../dist/src/numerics/runtime/ort-runtime.js'
import { hasModel, MODEL, RULES } from './peers/ours.js'

export const title = 'Quality of precisions on SmolLM2-135M, 2,048 tokens of documentation'

const ROOT = path.resolve(import.meta.dirname, '../..')
const TOKENS = 2048
const CHUNK = 512

export async function run() {
  if (!hasModel) return 'no model: npm run model:smollm2'
  const { tokenizer } = await loadTextModel(MODEL)
  const pages = path.join(ROOT, 'src/docs')
  const names = readdirSync(pages).filter((name) => path.extname(name).slice(1) === 'md')
  const text = names.map((name) => readFileSync(path.join(pages, name), 'utf8')).join('\n')
  const ids = tokenizer.encode(text).slice(0, TOKENS)
  const runtime = createOrtRuntime()
  const prepare = (precision) => prepareBaseModel(MODEL, path.join(ROOT, '.cache/bench/prepared'), [precision])
  const calibrationIds = tokenizer.encode(CALIBRATION_TEXT)
  const kinds = {
    f32: { precision: 'f32', prepared: () => prepare('f32') },
    'int8, integer products': {
      precision: 'int8',
      prepared: async () => withIntegerProducts(await prepare('f32'), { runtime, threads: 2, calibrationIds }),
    },
    'int8, blocks': { precision: 'int8', prepared: () => prepare('int8') },
    int4: { precision: 'int4', prepared: () => prepare('int4') },
  }
  const rows = []
  let exact = null
  for (const [name, { precision, prepared }] of Object.entries(kinds)) {
    const logprobs = await logprobsOf(ids, { runtime, precision, prepared: await prepared() })
    exact ??= logprobs
    const perplexity = Math.exp(-mean(logprobs))
    const ratio = perplexity / Math.exp(-mean(exact))
    const target = name.startsWith('int8') ? '<= 1.01' : undefined
    rows.push({ name: `${name}: perplexity`, value: perplexity, unit: '', ratio, target })
    const changes = logprobs.map((logprob, i) => Math.abs(logprob - exact[i])).sort((a, b) => a - b)
    const p99 = changes[Math.floor(changes.length * 0.99)]
    if (name !== 'f32') rows.push({ name: `${name}: change of a log-probability, p99`, value: p99, unit: '' })
  }
  return rows
}

/** Log-probability of every token but the first of each chunk. */
async function logprobsOf(ids, { runtime, precision, prepared }) {
  const engine = await createEngine({
    runtime,
    prepared,
    precision,
    threads: 2,
    maxContextLength: CHUNK + 1,
    maxConcurrentSequences: 1,
    eosTokenIds: [],
    prefixCacheBytes: 0,
  })
  const logprobs = []
  for (let start = 0; start < ids.length; start += CHUNK) {
    await new Promise((resolve, reject) =>
      engine.submit(
        {
          id: `chunk-${start}`,
          promptTokenIds: ids.slice(start, start + CHUNK),
          rules: { ...RULES, maxTokens: 1, promptLogprobs: 0 },
          adapter: null,
          cacheSalt: null,
        },
        {
          onStarted: () => {},
          onPromptToken: ({ logprob }) => logprobs.push(logprob),
          onToken: () => true,
          onAborted: () => {},
          onFinished: resolve,
          onFailed: reject,
        },
      ),
    )
  }
  await engine.close()
  return logprobs
}

function mean(values) {
  return values.reduce((sum, value) => sum + value, 0) / values.length
}
