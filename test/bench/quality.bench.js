/**
 * What quantized serving costs in quality: perplexity on the project's own documentation, against float32 in the same run.
 *
 * int8 is measured twice: block-quantized, and through integer products as it is served where the machine is made for them.
 */
import { readdirSync, readFileSync } from 'node:fs'
import path from 'node:path'
import { createEngine } from '../../dist/src/inference/engine/engine.js'
import { withIntegerProducts } from '../../dist/src/inference/engine/runner/integer-weights.js'
import { CALIBRATION_TEXT } from '../../dist/src/inference/host/local-engine.js'
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
  return [...rows, ...(await mismatch(ids, { runtime, kinds }))]
}

const STREAMS = 16
const ANSWER = 64

/** Answers sampled by int8 as served and scored by float32, which training computes in: what importance ratios are made of. */
async function mismatch(ids, { runtime, kinds }) {
  const sampler = kinds['int8, integer products']
  const options = { runtime, precision: 'int8', prepared: await sampler.prepared() }
  const answers = await withEngine(options, (generate) =>
    Promise.all(
      Array.from({ length: STREAMS }, async (_, i) => {
        const prompt = ids.slice(i * ANSWER, (i + 1) * ANSWER)
        const answer = []
        const rules = { temperature: 1, seed: BigInt(i), maxTokens: ANSWER }
        await generate(prompt, rules, { onToken: (event) => answer.push(event) > 0 })
        return { prompt, answer }
      }),
    ),
  )
  const exact = { runtime, precision: 'f32', prepared: await kinds.f32.prepared() }
  const changes = await withEngine(exact, async (generate) => {
    const all = []
    for (const { prompt, answer } of answers) {
      const scored = []
      const tokens = [...prompt, ...answer.map(({ tokenId }) => tokenId)]
      await generate(
        tokens,
        { maxTokens: 1, promptLogprobs: 0 },
        { onPromptToken: ({ logprob }) => scored.push(logprob) },
      )
      const own = scored.slice(-answer.length)
      all.push(...own.map((logprob, i) => logprob - answer[i].logprob))
    }
    return all.sort((a, b) => a - b)
  })
  const ratioAt = (share) => Math.exp(changes[Math.floor(changes.length * share)])
  return [
    { name: 'sampled by int8, scored by f32: KL, estimated', value: -mean(changes), unit: 'nats a token' },
    ...[0.01, 0.5, 0.99].map((share) => ({
      name: `  importance ratio, p${share * 100}`,
      value: ratioAt(share),
      unit: '',
    })),
  ]
}

/** Log-probability of every token but the first of each chunk. */
async function logprobsOf(ids, options) {
  return withEngine(options, async (generate) => {
    const logprobs = []
    for (let start = 0; start < ids.length; start += CHUNK) {
      const onPromptToken = ({ logprob }) => logprobs.push(logprob)
      await generate(ids.slice(start, start + CHUNK), { maxTokens: 1, promptLogprobs: 0 }, { onPromptToken })
    }
    return logprobs
  })
}

/** Hands an engine's requests to `work`. */
async function withEngine({ runtime, precision, prepared }, work) {
  const engine = await createEngine({
    runtime,
    prepared,
    precision,
    threads: 2,
    maxContextLength: CHUNK + 1,
    maxConcurrentSequences: STREAMS,
    eosTokenIds: [],
    prefixCacheBytes: 0,
  })
  let count = 0
  const generate = (promptTokenIds, rules, listener) =>
    new Promise((resolve, reject) =>
      engine.submit(
        { id: `bench-${count++}`, promptTokenIds, rules: { ...RULES, ...rules }, adapter: null, cacheSalt: null },
        {
          onStarted: () => {},
          onToken: () => true,
          onAborted: () => {},
          onFinished: resolve,
          onFailed: reject,
          ...listener,
        },
      ),
    )
  try {
    return await work(generate)
  } finally {
    await engine.close()
  }
}

function mean(values) {
  return values.reduce((sum, value) => sum + value, 0) / values.length
}
