/**
 * What a client sees of a started service under the loads of reinforcement learning, and of llama.cpp's server beside it.
 *
 *     npm run bench -- serve --against auto      (or the path of a llama-server; `none` measures ours alone;
 *     `--rounds 5`, `--only decode`)
 *
 * Both run all the time and are asked in turns, round by round, so that a slow minute of the machine hits both; figures are
 * medians of the rounds. Prompts of a round are new, so that neither side's prefix cache knows them.
 */
import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import { Worker } from 'node:worker_threads'
import { startService } from '../../support/service/service-process.js'
import { findLlamaServer, startLlamaServer } from '../peers/llama-server.js'
import { hasModel, MODEL } from '../peers/ours.js'
import { decodeRate, slowestStart, stream, textOf } from '../peers/streams.js'
import { median } from '../support/median.js'

const SEQUENCES = 32
const ANSWER = 32
/** llama.cpp's own default, so that its sampler does what it is made for. */
const SAMPLED = { temperature: 1, top_k: 40 }
const TICKS_PER_SECOND = 100

export async function runThroughHttp({ against, rounds = '3', only = '' }, print) {
  if (!hasModel) return 'no model: npm run model:smollm2'
  const program = against === 'none' ? null : findLlamaServer(against)
  if (against !== 'none' && program === null) return 'no llama-server on the search path or in .cache/bench'
  const args = ['--base-model', `bench=${MODEL}`, '--precision', 'int8', '--max-sequences', String(SEQUENCES)]
  const service = await startService({ args })
  const ours = { ...service, model: 'bench' }
  const peer = program === null ? null : await startLlamaServer(program, { sequences: SEQUENCES, contextTokens: 32768 })
  const sides = peer === null ? { ours } : { ours, peer }
  try {
    // both as they are after their first minute: compiled, with threads and memory they have already used
    for (const side of Object.values(sides)) await many(8, (i) => ask(side, 32, 90 + i, { count: 128 }))
    for (const load of LOADS.filter(({ name }) => name.includes(only))) {
      for (const row of await turns(load, sides, rounds)) print(row)
    }
    return []
  } finally {
    await service.stop()
    await peer?.stop()
  }
}

let nextSeed = 1

/** One load on every side in turns: medians, and the median ratio, larger than 1 where ours is better. */
async function turns(load, sides, rounds) {
  const found = {}
  for (let round = 0; round < Number(rounds); round++) {
    nextSeed += 100
    const seed = nextSeed
    for (const [name, side] of Object.entries(sides)) {
      const figures = await load.measure(side, seed).catch((error) => {
        if (name === 'peer') return {}
        throw error
      })
      for (const [key, value] of Object.entries(figures)) {
        found[key] ??= {}
        found[key][name] ??= []
        found[key][name].push(value)
      }
    }
  }
  return Object.entries(found).flatMap(([key, { ours, peer }]) => {
    const { unit, isLess = false, target } = load.figures[key]
    const name = key === '' ? load.name : `${load.name}: ${key}`
    const rows = [{ name, value: median(ours), unit, ...(peer === undefined ? {} : { target }) }]
    if (peer === undefined) return rows
    const ratio = median(ours.map((value, i) => (isLess ? peer[i] / value : value / peer[i])))
    return [
      { ...rows[0], ratio },
      { name: '  llama-server', value: median(peer), unit },
    ]
  })
}

const seconds = { unit: 's', isLess: true }
const perSecond = { unit: 'tok/s' }

const LOADS = [
  {
    name: '16 requests of one equal 512-token prompt',
    figures: { '': { ...seconds, target: 'ratio >= 3' } },
    measure: (side, seed) => wall(() => many(16, () => ask(side, 500, seed, SAMPLED))),
  },
  {
    name: 'one request with n = 16',
    figures: { '': { ...seconds, target: 'ratio >= 1.2' } },
    measure: async (side, seed) => {
      let answer = null
      const figures = await wall(async () => {
        answer = await ask(side, 500, seed, { ...SAMPLED, n: 16 })
      })
      return answer.completion < 16 * ANSWER ? {} : figures
    },
  },
  {
    name: '16 different 512-token prompts',
    figures: { '': seconds },
    measure: (side, seed) => wall(() => many(16, (i) => ask(side, 500, seed + i))),
  },
  ...[1, 8, 16, 32].map((streams) => ({
    name: `decode, ${streams} streams`,
    figures: {
      '': { ...perSecond, target: streams === 1 ? 'ratio >= 1' : 'ratio >= 1.2' },
      "server process's CPU per token": { unit: 'ms', target: '<= 0.2' },
    },
    measure: async (side, seed) => {
      const before = cpuMs(side)
      const answers = await many(streams, (i) => ask(side, 8, seed + i, { count: 64 }))
      const tokens = answers.reduce((sum, { completion }) => sum + completion, 0)
      const own = before === null ? {} : { "server process's CPU per token": (cpuMs(side) - before) / tokens }
      return { '': decodeRate(answers), ...own }
    },
  })),
  ...[500, 1970].map((length) => ({
    name: `prefill of ${length === 500 ? '512' : '2,000'} tokens`,
    figures: { '': { ...perSecond, target: 'ratio >= 1.1' } },
    measure: async (side, seed) => {
      const answer = await ask(side, length, seed, { count: 2 })
      return { '': answer.prompt / slowestStart([answer]) }
    },
  })),
  {
    name: '32 streams, 128-token prompts',
    figures: { 'total, prompts included': perSecond, 'slowest first token': { ...seconds, target: 'ratio >= 1' } },
    measure: async (side, seed) => {
      const startedMs = performance.now()
      const answers = await many(32, (i) => ask(side, 118, seed + i))
      const total = answers.reduce((sum, { completion }) => sum + completion, 0)
      const spent = (performance.now() - startedMs) / 1000
      return { 'total, prompts included': total / spent, 'slowest first token': slowestStart(answers) }
    },
  },
  {
    name: 'worst gap of 4 streams',
    figures: { '': { unit: 'ms', isLess: true }, 'while a 2,000-token prompt arrives': { unit: 'ms', isLess: true } },
    measure: worstGaps,
  },
  {
    name: 'worst gap of 4 streams beside other work',
    figures: Object.fromEntries(
      ['undisturbed', '5,000 messages', '4 MB of text', 'a first adapter', 'a first grammar'].map((key) => [
        key,
        { unit: 'ms', isLess: true, ...(key === 'undisturbed' ? {} : { target: '<= 50 ms more than undisturbed' }) },
      ]),
    ),
    measure: gapsBesideWork,
  },
  {
    name: 'text that repeats itself, one stream',
    figures: { '': perSecond },
    measure: async (side, seed) => {
      const text = `Repeat exactly, again and again: ${textOf(24, seed)}`
      return { '': decodeRate([await stream(side, { text, count: 128 })]) }
    },
  },
]

function ask(side, words, seed, { count = ANSWER, ...more } = {}) {
  return stream(side, { text: textOf(words, seed), count, ...more })
}

function many(count, work) {
  return Promise.all(Array.from({ length: count }, (_, i) => work(i)))
}

async function wall(work) {
  const startedMs = performance.now()
  await work()
  return { '': (performance.now() - startedMs) / 1000 }
}

/** Longest time between two parts of a stream, undisturbed and beside a long prompt. */
async function worstGaps(side, seed) {
  return await gapsWhile(side, seed, {
    '': pause,
    'while a 2,000-token prompt arrives': () => ask(side, 1970, seed + 99, { count: 1 }),
  })
}

/** The same beside work that is not steps: only ours can be given all of it. */
async function gapsBesideWork(side, seed) {
  if (side.model === 'peer') return {}
  const { url, key } = side
  const poster = new Worker(new URL('../support/poster.js', import.meta.url), { workerData: { url, key } })
  /** Everything is written before the streams begin: what is timed is the server's part. */
  const prepared = (body, accepted) => {
    const question = { model: side.model, max_tokens: 1, messages: [{ role: 'user', content: 'Hello.' }] }
    const bytes = new TextEncoder().encode(JSON.stringify({ ...question, ...body }))
    return async () => {
      poster.postMessage({ path: '/v1/chat/completions', body: bytes })
      const [{ status, text }] = await once(poster, 'message')
      if (!accepted.includes(status)) throw new Error(`${status} ${text}`)
    }
  }
  const adapter = await trainedModel(side, seed)
  const messages = Array.from({ length: 5000 }, (_, i) => ({
    role: i % 2 === 0 ? 'user' : 'assistant',
    content: `${i}`,
  }))
  const schema = {
    type: 'object',
    properties: Object.fromEntries(
      Array.from({ length: 30 }, (_, i) => [`p${seed}_${i}`, { type: i % 2 === 0 ? 'string' : 'integer' }]),
    ),
  }
  // the first two are longer than the context: they are rendered, counted and refused
  const works = {
    undisturbed: pause,
    '5,000 messages': prepared({ messages }, [200, 400]),
    '4 MB of text': prepared({ messages: [{ role: 'user', content: textOf(700_000, seed) }] }, [200, 400, 413]),
    'a first adapter': prepared({ model: adapter }, [200]),
    'a first grammar': prepared(
      { response_format: { type: 'json_schema', json_schema: { name: 'answer', schema } } },
      [200],
    ),
  }
  try {
    return await gapsWhile(side, seed, works)
  } finally {
    await poster.terminate()
  }
}

/** A model with an adapter nobody has asked for yet. */
async function trainedModel({ api, model: baseModel }, seed) {
  const model = await api.createModel(`gaps-${seed}`, baseModel)
  const messages = [
    { role: 'user', content: 'Write.' },
    { role: 'assistant', content: textOf(8, seed) },
  ]
  const body = {
    model_id: model.id,
    training_data_url: await api.uploadRows([{ messages }]),
    config: { batch_size: 1 },
  }
  const job = await api.call('POST', '/v1/preview/sft-training-jobs', body)
  await api.waitForJob(job.id)
  return `demo/gaps-${seed}`
}

/** As long as most of the works take. */
function pause() {
  return new Promise((resolve) => setTimeout(resolve, 1500))
}

/** Longest time between two parts of any of four streams during each of some works, one after the other. */
async function gapsWhile(side, seed, works) {
  let isOver = false
  const gaps = []
  const streams = many(4, async (i) => {
    for (let round = 0; !isOver; round++) {
      // long, because every new stream is work for the others too
      const { times } = await ask(side, 8, seed + 10 * round + i, { count: 384 })
      for (let k = 1; k < times.length; k++) gaps.push({ from: times[k - 1], until: times[k] })
    }
  })
  const spans = {}
  for (const [name, work] of Object.entries(works)) {
    await pause()
    const from = performance.now()
    await work()
    spans[name] = [from, performance.now()]
  }
  isOver = true
  await streams
  const worst = ([from, until]) =>
    Math.max(0, ...gaps.filter((gap) => gap.until > from && gap.from < until).map((gap) => gap.until - gap.from))
  return Object.fromEntries(Object.entries(spans).map(([name, span]) => [name, worst(span)]))
}

/** Processor time of our server process alone (not of the engine's), or null. */
function cpuMs(side) {
  if (side.model === 'peer' || process.platform !== 'linux') return null
  const fields = readFileSync(`/proc/${side.child.pid}/stat`, 'utf8').split(') ')[1].split(' ')
  return ((Number(fields[11]) + Number(fields[12])) * 1000) / TICKS_PER_SECOND
}
