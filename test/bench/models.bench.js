/**
 * Models that people train on laptops: their real configurations with random weights, through the whole service.
 *
 * For each: the first start (weights are prepared), a later start, decoding at int8 with 1 and 8 streams, a fine-tuning job with
 * LoRA rank 8 in batches of 2 x 256 tokens, the memory of engine host and training worker (peak of the process; mapped weights
 * count) and on the disk, and a reinforcement learning job on sampled answers: how far the sampler's log-probabilities lie from
 * the trainer's. Speed does not depend on what the weights are; how far rounding moves a probability does.
 *
 *     npm run bench -- models [--names Qwen3-0.6B,gemma-3-270m] [--precision int8] [--kept-dir DIR [--parts prepare]]
 *
 * `--kept-dir` keeps weights and prepared weights, `--parts` runs some of prepare, serve, train, mismatch: so the long preparation
 * may be done before the machine is quiet.
 */
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { mkdir, open, readdir, stat, writeFile } from 'node:fs/promises'
import os from 'node:os'
import path from 'node:path'
import { createClient } from './support/http-load.js'
import { childrenOf, peakBytes } from './support/processes.js'

export const title = 'Models people train: LoRA rank 8 in batches of 2 x 256 tokens'

const shared = { max_position_embeddings: 8192, tie_word_embeddings: true, eos_token_id: 256 }
/** `config.json` of the released models, with a context of 8,192. */
const MODELS = {
  'SmolLM2-360M': {
    ...shared,
    ...{
      model_type: 'llama',
      hidden_size: 960,
      num_hidden_layers: 32,
      num_attention_heads: 15,
      num_key_value_heads: 5,
    },
    ...{ intermediate_size: 2560, vocab_size: 49152, rope_theta: 100000, rms_norm_eps: 1e-5 },
  },
  'gemma-3-270m': {
    ...shared,
    ...{
      model_type: 'gemma3_text',
      hidden_size: 640,
      num_hidden_layers: 18,
      num_attention_heads: 4,
      num_key_value_heads: 1,
    },
    ...{ head_dim: 256, intermediate_size: 2048, vocab_size: 262144, sliding_window: 512, query_pre_attn_scalar: 256 },
    ...{ rope_theta: 1e6, rope_local_base_freq: 1e4, rms_norm_eps: 1e-6, hidden_activation: 'gelu_pytorch_tanh' },
  },
  'Qwen2.5-0.5B': {
    ...shared,
    ...{
      model_type: 'qwen2',
      hidden_size: 896,
      num_hidden_layers: 24,
      num_attention_heads: 14,
      num_key_value_heads: 2,
    },
    ...{ intermediate_size: 4864, vocab_size: 151936, rope_theta: 1e6, rms_norm_eps: 1e-6 },
  },
  'Qwen3-0.6B': {
    ...shared,
    ...{
      model_type: 'qwen3',
      hidden_size: 1024,
      num_hidden_layers: 28,
      num_attention_heads: 16,
      num_key_value_heads: 8,
    },
    ...{ head_dim: 128, intermediate_size: 3072, vocab_size: 151936, rope_theta: 1e6, rms_norm_eps: 1e-6 },
  },
  'Llama-3.2-1B': {
    ...shared,
    ...{
      model_type: 'llama',
      hidden_size: 2048,
      num_hidden_layers: 16,
      num_attention_heads: 32,
      num_key_value_heads: 8,
    },
    ...{ head_dim: 64, intermediate_size: 8192, vocab_size: 128256, rope_theta: 500000, rms_norm_eps: 1e-5 },
    rope_scaling: {
      ...{ rope_type: 'llama3', factor: 32, low_freq_factor: 1, high_freq_factor: 4 },
      original_max_position_embeddings: 8192,
    },
  },
}

const PARTS = ['prepare', 'serve', 'train', 'mismatch']

export async function run({ names, precision = 'int8', parts: asked = PARTS.join(), 'kept-dir': keptDir }, print) {
  const wanted = names?.split(',') ?? Object.keys(MODELS)
  const unknown = wanted.find((name) => MODELS[name] === undefined)
  if (unknown !== undefined) return `no model "${unknown}"; known: ${Object.keys(MODELS).join(', ')}`
  const parts = asked.split(',')
  if (!parts.every((part) => PARTS.includes(part))) return `--parts takes ${PARTS.join(', ')}`
  if (!parts.includes('prepare') && keptDir === undefined) return 'without "prepare" --kept-dir is needed'
  for (const name of wanted) await measure(name, { config: MODELS[name], precision, parts, keptDir, print })
  return []
}

async function measure(name, { config, precision, parts, keptDir, print }) {
  const load = (file) => import(new URL(`../../dist/src/${file}.js`, import.meta.url))
  const { createTestedService } = await load('service/test-door')
  const { INSTALLED } = await load('plugins/index')
  const { createLogger } = await load('base/logging/logger')
  const directory =
    keptDir === undefined ? mkdtempSync(path.join(os.tmpdir(), 'trainyard-bench-models-')) : path.join(keptDir, name)
  const options = {
    dataDir: path.join(directory, 'data'),
    baseModels: [{ name, sourcePath: path.join(directory, 'model') }],
    precision,
    port: 0,
    logger: createLogger({ level: 'silent' }),
  }
  const keyFile = path.join(directory, 'key')
  let service = null
  let key = null
  const start = async () => {
    const begun = performance.now()
    service = await createTestedService(options, INSTALLED)
    if (service.createdApiKey) await writeFile(keyFile, service.createdApiKey)
    key = readFileSync(keyFile, 'utf8')
    await complete(service, key, { name, count: 1, streams: 1 })
    return (performance.now() - begun) / 1000
  }
  const has = (part) => parts.includes(part)
  try {
    const prepared = path.join(options.dataDir, 'prepared')
    const size = path.join(directory, 'parameters')
    if (has('prepare')) {
      await writeFile(size, String(await writeModel(load, path.join(directory, 'model'), config)))
    }
    const label = `${name} (${(Number(readFileSync(size, 'utf8')) / 1e6).toFixed(0)} M)`
    const row = (what, value, unit) => print({ name: `${label}: ${what}`, value, unit })
    if (has('prepare')) {
      row('first start, weights prepared', await start(), 's')
      row(`prepared weights for serving at ${precision}`, (await folderBytes(prepared)) / 1e9, 'GB')
      await service.close(1000)
    }
    if (parts.every((part) => part === 'prepare')) return
    row('later start to first token', await start(), 's')
    if (has('serve')) {
      for (const streams of [1, 8]) {
        const runs = []
        for (let i = 0; i < 2; i++) runs.push(await complete(service, key, { name, count: 24, streams }))
        row(`decode at ${precision}, streams: ${streams}`, Math.max(...runs), 'tok/s')
      }
      const [enginePid] = service.enginePids()
      row('peak memory of the engine host', peakBytes(enginePid) / 1e9, 'GB')
    }
    if (has('train')) {
      const training = await train(service, key, name)
      row('training in f32', training.tokensPerSecond, 'tok/s')
      row('peak memory of the training worker', training.peakBytes / 1e9, 'GB')
      row('prepared weights with those for training', (await folderBytes(prepared)) / 1e9, 'GB')
    }
    if (has('mismatch')) {
      const { kl, ...mismatch } = await mismatchOf(load, service, key, name)
      row(`sampler at ${precision} against trainer, KL`, kl, 'nats a token')
      row('ratio, 1st percentile', mismatch.ratio_p01, '')
      row('ratio, 99th percentile', mismatch.ratio_p99, '')
      row('share of tokens outside the clip range', mismatch.clipped_share, '')
      row('old log-probabilities computed again (1: yes)', mismatch.recomputed, '')
    }
  } finally {
    await service?.close(1000)
    if (keptDir === undefined) rmSync(directory, { recursive: true, force: true, maxRetries: 20 })
  }
}

/** Tokens per second of decoding: the time of one token, prompt included, is taken off. */
async function complete(service, key, { name, count, streams }) {
  const ask = async (maxTokens) => {
    const begun = performance.now()
    const answers = Array.from({ length: streams }, async (_, i) => {
      const body = await call(service, key, '/v1/chat/completions', {
        ...{
          model: name,
          messages: [{ role: 'user', content: `${i} Some words.` }],
          max_tokens: maxTokens,
          min_tokens: maxTokens,
        },
        ...{ temperature: 1, seed: i, ignore_eos: true },
      })
      return body.usage.completion_tokens
    })
    const tokens = (await Promise.all(answers)).reduce((sum, value) => sum + value, 0)
    return { tokens, seconds: (performance.now() - begun) / 1000 }
  }
  const first = await ask(1)
  if (count === 1) return 0
  const all = await ask(count)
  return (all.tokens - first.tokens) / (all.seconds - first.seconds)
}

async function train(service, key, name) {
  const text = 'abcdefghijklmnopqrstuvwxyz '.repeat(9)
  const row = {
    messages: [
      { role: 'user', content: '?' },
      { role: 'assistant', content: text },
    ],
  }
  const form = new FormData()
  form.set('file', new Blob([`${JSON.stringify(row)}\n`.repeat(6)]), 'rows.jsonl')
  const headers = { authorization: `Bearer ${key}` }
  const file = await (await fetch(`${service.url}/v1/files`, { method: 'POST', body: form, headers })).json()
  const model = await call(service, key, '/v1/preview/models', {
    ...{ project: 'bench', name: 'm', base_model: name },
    // a directory that was kept has it
    return_existing: true,
  })
  const job = await call(service, key, '/v1/preview/sft-training-jobs', {
    ...{ model_id: model.id, training_data_url: file.id },
    config: { learning_rate: 1e-4, batch_size: 2 },
  })
  let largest = 0
  for (;;) {
    // while it runs: on a machine short of memory a worker is not kept behind its job
    for (const pid of childrenOf(process.pid)) {
      if (!service.enginePids().includes(pid)) largest = Math.max(largest, peakBytes(pid))
    }
    const { status, error } = await call(service, key, `/v1/preview/training-jobs/${job.id}`)
    if (status === 'failed' || status === 'cancelled') throw new Error(`training of ${name}: ${JSON.stringify(error)}`)
    if (status === 'completed') break
    await new Promise((resolve) => setTimeout(resolve, 200))
  }
  const { data } = await call(service, key, `/v1/preview/training-jobs/${job.id}/events?limit=100`)
  const rates = data.flatMap((event) => event.data?.tokens_per_second ?? [])
  return { tokensPerSecond: Math.max(...rates), peakBytes: largest }
}

/** What a job of reinforcement learning, on answers of the model it trains, says about their log-probabilities. */
async function mismatchOf(load, service, key, baseModel) {
  const { createClient: createRlClient, gather, group, TrainableModel } = await load('rl')
  const client = createRlClient({ baseUrl: service.url, apiKey: key })
  const model = await new TrainableModel(client, { name: 'sampled', baseModel }).register()
  const groups = await gather(
    ['Some words.', 'Other words.', 'One, two, three.'].map((content, prompt) =>
      group(4, async (index) => {
        const trajectory = model.trajectory([{ role: 'user', content }])
        await trajectory.ask({ maxTokens: 32, seed: 10 * prompt + index })
        trajectory.reward = index % 2
        return trajectory
      }),
    ),
  )
  const { jobId } = await model.train(groups, { learningRate: 1e-5 })
  const { report } = await client.trainingJobs.get(jobId)
  return report.facts.sampler_mismatch
}

async function folderBytes(directory) {
  const entries = await readdir(directory, { recursive: true, withFileTypes: true })
  const files = entries.filter((entry) => entry.isFile())
  const sizes = await Promise.all(
    files.map(async ({ parentPath, name }) => (await stat(path.join(parentPath, name))).size),
  )
  return sizes.reduce((sum, size) => sum + size, 0)
}

/** By the service's address. */
const clients = new Map()

/** Node's own client: `fetch` gives up after five minutes, and a first start may take longer on a busy machine. */
async function call({ url }, key, route, json) {
  const send = clients.get(url) ?? createClient({ url, key })
  clients.set(url, send)
  const { status, text } = await send(json === undefined ? 'GET' : 'POST', route, json)
  if (status >= 300) throw new Error(`${route}: ${status} ${text}`)
  return JSON.parse(text)
}

/** Largest absolute random weight. */
const NOISE = 0.03
/** Standard deviation of the logits: with some hundred thousand tokens, answers of about the entropy of trained models, 2 to 3 nats. */
const LOGIT_DEVIATION = 4.4

/** A Hugging Face directory in bfloat16 with the byte tokenizer. @returns its parameters */
async function writeModel(load, directory, config) {
  const { fromHfConfig } = await load('model/architectures/hf-config')
  const { parameterCount } = await load('model/architectures/decoder-config')
  const { decoderTensorShapes } = await load('model/architectures/registry')
  const { buildHeader } = await load('model/weights/safetensors-header')
  const { byteTokenizerConfig, byteTokenizerJson } = await load('model/built-in/byte-tokenizer')
  await mkdir(directory, { recursive: true })
  const decoder = fromHfConfig(config)
  const tensors = [...decoderTensorShapes(decoder)].map(([name, shape]) => ({ name, dtype: 'bfloat16', shape }))
  const file = await open(path.join(directory, 'model.safetensors'), 'w')
  await file.write(buildHeader(tensors, { format: 'pt' }))
  // A length without factors in common with a row's, so that no two rows of a table are equal.
  const noise = noiseBits((1 << 20) - 3, NOISE)
  const zero = config.model_type === 'gemma3_text' ? 1 : 0
  const finalNorm = LOGIT_DEVIATION / ((NOISE / Math.sqrt(3)) * Math.sqrt(config.hidden_size))
  let at = 0
  for (const { name, shape } of tensors) {
    if (shape.length === 1) {
      const value =
        name.endsWith('_norm.weight') || name.includes('layernorm')
          ? 1
          : name === 'model.norm.weight'
            ? finalNorm
            : zero
      await file.write(new Uint8Array(bfloat16(new Float32Array(shape[0]).fill(value - zero)).buffer))
      continue
    }
    for (let left = shape.reduce((a, b) => a * b, 1); left > 0; ) {
      const count = Math.min(left, noise.length - at)
      await file.write(new Uint8Array(noise.buffer, 2 * at, 2 * count))
      left -= count
      at = (at + count) % noise.length
    }
  }
  await file.close()
  await writeFile(path.join(directory, 'config.json'), JSON.stringify(config))
  await writeFile(path.join(directory, 'tokenizer.json'), JSON.stringify(byteTokenizerJson()))
  await writeFile(
    path.join(directory, 'tokenizer_config.json'),
    JSON.stringify(byteTokenizerConfig(config.max_position_embeddings)),
  )
  return parameterCount(decoder)
}

/** bfloat16 bits of uniform numbers in ±scale. */
function noiseBits(count, scale) {
  const values = new Float32Array(count)
  let state = 1
  for (let i = 0; i < count; i++) {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0
    values[i] = (state / 2 ** 31 - 1) * scale
  }
  return bfloat16(values)
}

const bfloat16 = (values) => Uint16Array.from(new Uint32Array(values.buffer), (bits) => bits >>> 16)
