/**
 * The built-in model as a user meets it: time to the first token, tokens a second through HTTP, training of adapters, and
 * training of all its weights against the matrix roof of the same run.
 *
 * Useful work of pretraining is 6 floating-point operations per parameter and token; the embedding counts as the head, for
 * trained tokens only. Attention's own products, norms, the loss and the optimizer are not counted, but their time is.
 */
import { execFile } from 'node:child_process'
import { mkdtempSync, rmSync } from 'node:fs'
import os from 'node:os'
import path from 'node:path'
import { promisify } from 'node:util'
import { mapConcurrently, startService } from '../support/service/service-process.js'
import { measureRoof } from './support/matrix-roof.js'

export const title = 'The built-in model, trainyard/spark'

const MODEL = 'trainyard/spark'
/** Other weights of the same shape, for measuring before they are committed. */
const source = process.env.TRAINYARD_BENCH_SPARK
const baseModelArgs = source === undefined ? [] : ['--base-model', `${MODEL}=${source}`]
const TOKENS = 192
/** Turns of the roof and the trainings. */
const ROUNDS = 6

export async function run() {
  const rows = []
  const startedAt = performance.now()
  const service = await startService({ args: baseModelArgs })
  try {
    rows.push({ name: 'server ready, first start', value: performance.now() - startedAt, unit: 'ms' })
    const first = await stream(service, 8)
    const firstMs = performance.now() - startedAt - (first.endedMs - first.firstMs)
    rows.push({ name: 'first token after the start of the process', value: firstMs, unit: 'ms', target: '<= 3000 ms' })
    const alone = []
    for (let round = 0; round < 3; round++) alone.push(await stream(service, TOKENS))
    rows.push({
      name: 'one stream, between first and last token',
      value: Math.max(...alone.map(({ count, firstMs, endedMs }) => (count - 1) / ((endedMs - firstMs) / 1000))),
      unit: 'tokens/s',
      target: '>= 400',
    })
    const totals = []
    for (let round = 0; round < 3; round++) {
      const begun = performance.now()
      const answers = await mapConcurrently(Array.from({ length: 16 }), 16, () => stream(service, TOKENS))
      const count = answers.reduce((sum, answer) => sum + answer.count, 0)
      totals.push(count / ((performance.now() - begun) / 1000))
    }
    rows.push({ name: '16 streams, total', value: Math.max(...totals), unit: 'tokens/s', target: '>= 2000' })
  } finally {
    await service.stop()
  }
  const { stdout } = await promisify(execFile)(process.execPath, [import.meta.filename, '--measure'])
  const m = JSON.parse(stdout.trim().split('\n').at(-1))
  return [
    ...rows,
    { name: 'adapters, rank 8, B = 32 x 64', value: m.adapter, unit: 'tokens/s', target: '>= 5000' },
    { name: 'matrix roof, float32', value: m.roof / 1e9, unit: 'GFLOP/s' },
    ...fullRows('all weights, AdamW, 2 x (32 x 128), every token trained', m.plain, m.roof),
    ...fullRows('all weights, Muon, 4 x (16 x 128), a third trained', m.recipe, m.roof),
  ]
}

function fullRows(name, { tokensPerSecond, useful }, roof) {
  return [
    { name, value: tokensPerSecond, unit: 'tokens/s' },
    { name: '  its useful work', value: useful / 1e9, unit: 'GFLOP/s', ratio: useful / roof, target: '>= 0.6' },
  ]
}

/** One streamed answer: tokens, and when the first and the last came. */
async function stream({ url, key }, maxTokens) {
  const response = await fetch(`${url}/v1/chat/completions`, {
    method: 'POST',
    headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
    body: JSON.stringify({
      model: MODEL,
      messages: [{ role: 'user', content: 'Tell me a story about a fox.' }],
      max_tokens: maxTokens,
      ignore_eos: true,
      stream: true,
      stream_options: { include_usage: true },
    }),
  })
  if (!response.ok) throw new Error(`${response.status} ${await response.text()}`)
  let firstMs = 0
  let text = ''
  for await (const chunk of response.body.pipeThrough(new TextDecoderStream())) {
    text += chunk
    if (firstMs === 0 && text.includes('"content":"') && /"content":"[^"]/.test(text)) firstMs = performance.now()
  }
  const endedMs = performance.now()
  const count = Number(/"completion_tokens":(\d+)/.exec(text)?.[1] ?? 0)
  return { firstMs, endedMs, count }
}

const load = (name) => import(new URL(`../../dist/src/${name}.js`, import.meta.url))

async function measure() {
  const { createOrtRuntime } = await load('numerics/runtime/ort-runtime')
  const { fromHfConfig } = await load('model/architectures/hf-config')
  const { sparkConfig } = await import('../spark/text-model/model-config.js')
  const runtime = createOrtRuntime()
  const directory = mkdtempSync(path.join(os.tmpdir(), 'trainyard-bench-spark-'))
  try {
    const config = fromHfConfig(sparkConfig(4096))
    const place = { runtime, directory }
    const plain = await fullTask(config, place, { optimizer: 'adamw', share: 1, microBatches: 2, rows: 32 })
    const recipe = await fullTask(config, place, { optimizer: 'muon', share: 0.35, microBatches: 4, rows: 16 })
    const adapter = await adapterTask(config, place)
    let roof = 0
    // In turns: a machine that others use is fast at one time and slow at another, and ratios need the same of both.
    for (let round = 0; round < ROUNDS; round++) {
      roof = Math.max(roof, await measureRoof(load, place))
      for (const task of [plain, recipe, adapter]) await task.run()
    }
    console.log(JSON.stringify({ roof, adapter: adapter.figures(), plain: plain.figures(), recipe: recipe.figures() }))
    for (const task of [plain, recipe, adapter]) await task.release()
  } finally {
    rmSync(directory, { recursive: true, force: true, maxRetries: 20 })
  }
}

/** Random rows; `share` of the tokens are trained. */
async function microBatch(config, { rows, length, share, chunk }) {
  const { toRowBatch, sequenceRow, perToken } = await load('training/trainer/row-batch')
  const { createRng } = await load('base/util/rng')
  const { float32Tensor } = await load('numerics/tensor/host-tensor')
  const rng = createRng('bench')
  const batch = toRowBatch(
    Array.from({ length: rows }, () =>
      sequenceRow(
        Int32Array.from({ length }, () => rng.integer(config.vocabularySize)),
        Uint8Array.from({ length }, () => (rng.uniform() < share ? 1 : 0)),
      ),
    ),
    { chunk },
  )
  return {
    batch,
    lossInputs: {
      denominator: float32Tensor(Float32Array.of(batch.trained.length), []),
      weight: perToken(batch, () => 1),
    },
  }
}

/** Steps of all weights. */
async function fullTask(config, { runtime, directory }, { optimizer, share, microBatches, rows }) {
  const { createFullTrainer, initialState } = await import('../../dist/test/spark/training/full-trainer.js')
  const { HEAD_CHUNK } = await import('../spark/data/data-order.js')
  const { rotaryFrequencies } = await load('numerics/nn/rotary-embedding')
  const { parameterCount } = await load('model/architectures/decoder-config')
  const session = { runtime, directory, frequencies: rotaryFrequencies(config.rotary, config.headSize) }
  const trainer = await createFullTrainer({ config, session, state: initialState(config, 'bench', optimizer) })
  const one = await microBatch(config, { rows, length: 128, share, chunk: HEAD_CHUNK })
  const options = { learningRate: 1e-3, weightDecay: 0.1, maxGradientNorm: 1 }
  const embedding = config.vocabularySize * config.hiddenSize
  const trained = microBatches * one.batch.trained.length
  const tokens = microBatches * rows * 128
  const flops = 6 * ((parameterCount(config) - embedding) * tokens + embedding * trained)
  return timed(
    () => trainer.step(Array(microBatches).fill(one), options),
    (seconds) => ({ tokensPerSecond: tokens / seconds, useful: flops / seconds }),
    () => trainer.release(),
  )
}

/** Steps of an adapter. */
async function adapterTask(config, { runtime, directory }) {
  const { createTrainer } = await load('training/trainer/trainer')
  const { openLearner, startingPoint } = await load('training/trainer/job')
  const { SFT_OPTIMIZER } = await load('training/trainer/optimizer-settings')
  const { prepareBaseModel } = await load('model/architectures/prepare')
  const { initialState } = await import('../../dist/test/spark/training/full-trainer.js')
  const { toHfTensors } = await load('plugins/torch/parameters')
  const { writeSafetensors } = await load('model/weights/safetensors')
  const { sparkConfig } = await import('../spark/text-model/model-config.js')
  const { mkdirSync, writeFileSync } = await import('node:fs')
  const modelDirectory = path.join(directory, 'model')
  mkdirSync(modelDirectory)
  writeFileSync(path.join(modelDirectory, 'config.json'), JSON.stringify(sparkConfig(config.vocabularySize)))
  const { weights } = initialState(config, 'bench', 'muon')
  await writeSafetensors(path.join(modelDirectory, 'model.safetensors'), toHfTensors(config, weights))
  const prepared = await prepareBaseModel(modelDirectory, path.join(directory, 'prepared'), ['f32'])
  const starting = startingPoint(prepared, null, { kind: 'sft', lora: null, seed: 1 })
  const context = { runtime, prepared, jobId: 'bench', ...starting }
  const rows = { longestRow: 64, isRecomputed: false }
  const learner = await openLearner(context, { precision: 'f32', rows })
  const trainer = await createTrainer({ learner, loss: { kind: 'cross_entropy' }, settings: SFT_OPTIMIZER })
  const batch = await microBatch(config, { rows: 32, length: 64, share: 0.5 })
  return timed(
    () => trainer.step([batch], { learningRate: 1e-4 }),
    (seconds) => (32 * 64) / seconds,
    () => learner.release(),
  )
}

/** A task timed in turns with others: after one run to warm up the best counts, what another program took says nothing. */
async function timed(task, toFigures, release) {
  await task()
  let best = Infinity
  return {
    async run() {
      for (let round = 0; round < 2; round++) {
        const begun = performance.now()
        await task()
        best = Math.min(best, performance.now() - begun)
      }
    },
    figures: () => toFigures(best / 1000),
    release,
  }
}

if (process.argv[2] === '--measure') await measure()
