/**
 * What the engine does under the loads of reinforcement learning: groups of equal prompts, many choices, mixed company.
 *
 *     npm run bench -- serve                      everything, some minutes
 *     npm run bench -- serve --only adapters      one part: groups, decode, fairness, gaps, adapters, speculation, schemas, tools, profile
 *     npm run bench -- serve --against auto       through HTTP, beside llama.cpp's server (`loads/serve-http.js`)
 *
 * One process, no HTTP, int8 as served here. Every figure is a ratio or stands beside the one it belongs to, because the machine
 * may be busy; what is compared is measured by turns.
 */

import { systemClock } from '../../dist/src/base/util/clock.js'
import { compileGrammar } from '../../dist/src/inference/grammar/grammar.js'
import { createTokenTable } from '../../dist/src/inference/grammar/token-table.js'
import { loadTextModel } from '../../dist/src/model/text/text-model.js'
import { AnswerText } from '../../dist/src/service/operations/generation/chat/answer-text.js'
import { runThroughHttp } from './loads/serve-http.js'
import { benchAdapter, hasModel, loadOurs, MODEL, promptOf, SPARK } from './peers/ours.js'
import { profileDecode } from './peers/step-profile.js'
import { textOf } from './peers/streams.js'
import { median } from './support/median.js'

export const title = 'Serving SmolLM2-135M int8: groups, company, gaps, schemas'

const GROUP = 16
const PROMPT = 512
const ANSWER = 32
/** Turns of what is compared. */
const TURNS = 3

export async function run(options = {}, print = () => {}) {
  if (options.against !== undefined) return runThroughHttp(options, print)
  if (!hasModel) return 'no model: npm run model:smollm2'
  const parts = { groups, decode, fairness, gaps, adapters, speculation, schemas, tools, profile }
  const wanted = Object.entries(parts).filter(([name]) => name.includes(options.only ?? ''))
  if (wanted.length === 0) return `no part "${options.only}": ${Object.keys(parts).join(', ')}`
  const engine = await loadOurs(MODEL, 'int8', { sequences: GROUP, contextLength: 2304 })
  const ask = askOf(engine)
  await ask(99, 32, 4)
  for (const [, part] of wanted) for (const row of await part(ask, engine)) print(row)
  await engine.dispose()
  return []
}

function askOf(engine) {
  return (seed, length, count, more = {}) =>
    engine.generate(promptOf(length, seed), count, { ...more, rules: { temperature: 1, ...more.rules } })
}

async function seconds(work) {
  const startedMs = performance.now()
  await work()
  return (performance.now() - startedMs) / 1000
}

/** How many times as long the first takes as the second, by turns; medians. */
async function compared(first, second) {
  const times = { first: [], second: [] }
  for (let turn = 0; turn < TURNS; turn++) {
    times.first.push(await seconds(() => first(turn)))
    times.second.push(await seconds(() => second(turn)))
  }
  const ratios = times.first.map((time, i) => time / times.second[i])
  return { first: median(times.first), second: median(times.second), ratio: median(ratios) }
}

async function groups(ask) {
  const prefill = await seconds(() => ask(1, PROMPT, 1))
  const equal = await seconds(() => Promise.all(Array.from({ length: GROUP }, () => ask(2, PROMPT, ANSWER))))
  const choices = await seconds(() => ask(3, PROMPT, ANSWER, { rules: { n: GROUP } }))
  const apart = await seconds(() => Promise.all(Array.from({ length: GROUP }, (_, i) => ask(10 + i, PROMPT, ANSWER))))
  return [
    { name: `one prompt of ${PROMPT} tokens`, value: prefill, unit: 's' },
    { name: `${GROUP} different prompts, ${ANSWER} new tokens each`, value: apart, unit: 's' },
    { name: `${GROUP} equal prompts that arrive together`, value: equal, unit: 's', ratio: apart / equal },
    { name: `one request with n = ${GROUP}`, value: choices, unit: 's', ratio: apart / choices },
  ]
}

async function decode(ask) {
  const rows = []
  for (const streams of [1, 8, 16]) {
    const prompts = Array.from({ length: streams }, (_, i) => 200 + i)
    const wait = await seconds(() => Promise.all(prompts.map((seed) => ask(seed, 16, ANSWER))))
    rows.push({ name: `${streams} streams, short prompts`, value: (streams * ANSWER) / wait, unit: 'tok/s' })
  }
  return rows
}

async function fairness(ask) {
  const alone = []
  const beside = []
  for (let turn = 0; turn < TURNS; turn++) {
    const seed = 400 + 10 * turn
    alone.push(await seconds(() => ask(seed, 32, 4)))
    const big = ask(seed + 1, 64, ANSWER, { rules: { n: 64 } })
    // until its choices run
    await new Promise((resolve) => setTimeout(resolve, 1000))
    beside.push(await seconds(() => ask(seed + 2, 32, 4)))
    await big
  }
  const ratio = median(beside.map((time, i) => time / alone[i]))
  return [
    { name: 'a 4-token request alone', value: median(alone), unit: 's' },
    { name: 'the same beside one with n = 64', value: median(beside), unit: 's', ratio, target: 'ratio <= 3' },
  ]
}

async function gaps(ask) {
  const quiet = await worstGap(ask, () => new Promise((resolve) => setTimeout(resolve, 500)))
  const crowded = await worstGap(ask, () => ask(7, 2000, 1))
  const ratio = crowded / quiet
  return [
    { name: 'worst gap of 4 streams', value: quiet, unit: 'ms' },
    {
      name: 'the same while a 2,000-token prompt arrives',
      value: crowded,
      unit: 'ms',
      ratio,
      target: '<= 150 ms or ratio <= 5',
    },
  ]
}

/** Where a step's time goes, on engines of their own. */
async function profile() {
  const loads = [1, 8, 16].map((streams) => [MODEL, 'int8', { streams }])
  loads.push([MODEL, 'int8', { streams: 8, hasAdapters: true }])
  // as it is served: on one thread of two cores
  loads.push(...[1, 16].map((streams) => [SPARK, 'f32', { streams, threads: 1 }]))
  const rows = []
  for (const load of loads) rows.push(...(await profileDecode(...load)))
  return rows
}

/** Eight streams with an adapter each against eight without. */
async function adapters(ask, { config }) {
  const own = Array.from({ length: 8 }, (_, i) => benchAdapter(config, 1 + i))
  const streams = (turn, adapterOf) =>
    Promise.all(own.map((_, i) => ask(500 + 10 * turn + i, 16, 2 * ANSWER, { adapter: adapterOf(i) })))
  // adapters are loaded, and the session that takes them is made
  await Promise.all(own.map((adapter, i) => ask(590 + i, 16, 1, { adapter })))
  const { first, second, ratio } = await compared(
    (turn) => streams(turn, () => null),
    (turn) => streams(turn, (i) => own[i]),
  )
  const tokens = own.length * 2 * ANSWER
  return [
    { name: '8 streams without adapters', value: tokens / first, unit: 'tok/s' },
    {
      name: '8 streams with 8 different adapters',
      value: tokens / second,
      unit: 'tok/s',
      ratio,
      target: 'ratio >= 0.85',
    },
  ]
}

/** One stream that goes on with what it was shown, with guessed tokens and without, on two engines by turns. */
async function speculation(_, engine) {
  const { tokenizer } = await loadTextModel(MODEL)
  const plain = await loadOurs(MODEL, 'int8', { sequences: GROUP, contextLength: 2304, speculation: 'off' })
  const shown = {
    'a text repeated': (turn) => Array.from({ length: 6 }, () => textOf(12, 40 + turn)).join('\n'),
    'records of JSON': (turn) => Array.from({ length: 6 }, (_, i) => recordOf(10 * turn + i)).join('\n'),
  }
  const rows = []
  for (const [name, textFor] of Object.entries(shown)) {
    const answer = (which, turn) => which.generate(tokenizer.encode(`${textFor(turn)}\n`), 128)
    await answer(plain, 9)
    const { first, second, ratio } = await compared(
      (turn) => answer(plain, turn),
      (turn) => answer(engine, turn),
    )
    rows.push(
      { name: `${name}, one stream, without guesses`, value: 128 / first, unit: 'tok/s' },
      { name: 'the same with guesses', value: 128 / second, unit: 'tok/s', ratio, target: 'ratio >= 1.5' },
    )
  }
  await plain.dispose()
  return rows
}

/** A line of a file of records: equal keys, other values. */
function recordOf(seed) {
  const [name, place] = textOf(2, seed).split(' ')
  return JSON.stringify({
    id: seed,
    name,
    place,
    score: (seed * 37) % 100,
    is_active: seed % 2 === 0,
    tags: [place, name],
  })
}

/** Answers held to a schema beside free ones, and what the first use of a schema of 2 kB costs. */
async function schemas(ask) {
  const { tokenizer, eosTokenIds } = await loadTextModel(MODEL)
  const table = await createTokenTable(tokenizer, tokenizer.vocabularySize, eosTokenIds)
  const properties = Object.fromEntries(
    Array.from({ length: 30 }, (_, i) => [
      `property_${i}`,
      { type: i % 3 === 0 ? 'integer' : 'string', description: 'x'.repeat(12) },
    ]),
  )
  const schema = JSON.stringify({
    type: 'array',
    minItems: 99,
    items: { type: 'object', properties, required: Object.keys(properties) },
  })
  const spec = { kind: 'json_schema', schema, isWhitespaceFree: true }
  let grammar
  const first = await seconds(async () => {
    grammar = await compileGrammar(spec, table, { clock: systemClock })
  })
  const streams = (tokenMask) =>
    Promise.all(Array.from({ length: 8 }, (_, i) => ask(300 + i, 16, 64, { rules: { tokenMask } })))
  const quiet = await worstGap(ask, () => new Promise((resolve) => setTimeout(resolve, 500)))
  const crowded = await worstGap(ask, async () => {
    const other = JSON.stringify({ ...JSON.parse(schema), maxItems: 200 })
    const again = await compileGrammar({ ...spec, schema: other }, table, { clock: systemClock })
    await again.dispose()
  })
  // the first answers find parts of the grammar that nobody has needed yet
  await streams(() => grammar.open())
  const {
    first: free,
    second: held,
    ratio,
  } = await compared(
    () => streams(null),
    () => streams(() => grammar.open()),
  )
  await grammar.dispose()
  return [
    { name: `first use of a schema of ${schema.length} bytes`, value: first, unit: 's', target: '<= 1 s' },
    { name: 'worst gap of 4 streams', value: quiet, unit: 'ms' },
    { name: 'the same while another such schema is used first', value: crowded, unit: 'ms', ratio: crowded / quiet },
    { name: '8 streams, free', value: (8 * 64) / free, unit: 'tok/s' },
    { name: '8 streams held to it', value: (8 * 64) / held, unit: 'tok/s', ratio, target: 'ratio >= 0.9' },
  ]
}

/** By how many tokens a stream with tools comes later than one without: counted, so the same on every machine. */
async function tools() {
  const { tokenizer } = await loadTextModel(MODEL)
  const format = { toolFormat: 'hermes', hasReasoning: false }
  const call = '{"name": "weather", "arguments": {"city": "Rome", "days": 3}}'
  const firstDelta = (mode, text) => {
    const answer = new AnswerText(mode, format, false)
    return Array.from(tokenizer.encode(text), (id) => tokenizer.decode([id])).findIndex((piece) => {
      const { content, calls } = answer.push(piece)
      return content !== '' || calls.length > 0
    })
  }
  const auto = { kind: 'auto', isParallel: true, names: ['weather'] }
  const tagged = `<tool_call>\n${call}\n</tool_call>`
  // the token that begins the arguments
  const begun = (text) => tokenizer.encode(text.slice(0, text.indexOf('{"city') + '{"'.length)).length - 1
  const row = (name, late) => ({
    name: `${name}: tokens until the first delta, beyond the earliest`,
    value: late,
    unit: 'tokens',
    target: '<= 2',
  })
  return [
    row('plain text beside tools', firstDelta(auto, 'The weather in Rome is fine.')),
    row('arguments of a named tool', firstDelta({ kind: 'named', name: 'weather' }, '{"city": "Rome"}')),
    row('a call between tags, from the start of its arguments', firstDelta(auto, tagged) - begun(tagged)),
    row(
      'a required call, from the start of its arguments',
      firstDelta({ kind: 'required', isParallel: true, names: ['weather'] }, `[${call}]`) - begun(`[${call}]`),
    ),
  ]
}

/** Longest time between two tokens of a stream, of four, while `meanwhile` goes on. */
async function worstGap(ask, meanwhile) {
  let worst = 0
  let isOver = false
  const streams = [20, 21, 22, 23].map(async (seed) => {
    while (!isOver) {
      let last = null
      const onToken = () => {
        const now = performance.now()
        if (last !== null) worst = Math.max(worst, now - last)
        last = now
      }
      await ask(seed, 16, 64, { onToken })
    }
  })
  await new Promise((resolve) => setTimeout(resolve, 500))
  worst = 0
  await meanwhile()
  const result = worst
  isOver = true
  await Promise.all(streams)
  return result
}
