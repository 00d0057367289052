/**
 * What the engine does under the loads of reinforcement learning: groups of equal prompts, many choices, mixed company.
 *
 * One process, no HTTP, int8 as served here; with `--against` through HTTP (`loads/serve-http.js`). Every figure is a ratio or stands beside the one it belongs to, because the
 * machine may be busy.
 */

import { systemClock } from '../../dist/src/base/util/clock.js'
import { compileGrammar } from '../../dist/src/inference/grammar/grammar.js'
import { createTokenTable } from '../../dist/src/inference/grammar/token-table.js'
import { loadTextModel } from '../../dist/src/model/text/text-model.js'
import { runThroughHttp } from './loads/serve-http.js'
import { hasModel, loadOurs, MODEL, promptOf } from './peers/ours.js'

export const title = 'Serving SmolLM2-135M int8: groups, company, gaps, schemas'

const GROUP = 16
const PROMPT = 512
const ANSWER = 32

export async function run(options = {}, print = () => {}) {
  if (options.against !== undefined) return runThroughHttp(options, print)
  if (!hasModel) return 'no model: npm run model:smollm2'
  const engine = await loadOurs(MODEL, 'int8', { sequences: GROUP, contextLength: 2304 })
  const sampled = { temperature: 1 }
  const ask = (seed, length, count, more = {}) =>
    engine.generate(promptOf(length, seed), count, { ...more, rules: { ...sampled, ...more.rules } })
  await ask(99, 32, 4)
  const seconds = async (work) => {
    const startedMs = performance.now()
    await work()
    return (performance.now() - startedMs) / 1000
  }
  const rows = []

  const prefill = await seconds(() => ask(1, PROMPT, 1))
  const equal = await seconds(() => Promise.all(Array.from({ length: GROUP }, () => ask(2, PROMPT, ANSWER))))
  const choices = await seconds(() => ask(3, PROMPT, ANSWER, { rules: { n: GROUP } }))
  const apart = await seconds(() => Promise.all(Array.from({ length: GROUP }, (_, i) => ask(10 + i, PROMPT, ANSWER))))
  rows.push({ name: `one prompt of ${PROMPT} tokens`, value: prefill, unit: 's' })
  rows.push({ name: `${GROUP} different prompts, ${ANSWER} new tokens each`, value: apart, unit: 's' })
  rows.push({ name: `${GROUP} equal prompts that arrive together`, value: equal, unit: 's', ratio: apart / equal })
  rows.push({ name: `one request with n = ${GROUP}`, value: choices, unit: 's', ratio: apart / choices })

  for (const streams of [1, 8, 16]) {
    const prompts = Array.from({ length: streams }, (_, i) => 200 + i)
    const wait = await seconds(() => Promise.all(prompts.map((seed) => ask(seed, 16, ANSWER))))
    rows.push({ name: `${streams} streams, short prompts`, value: (streams * ANSWER) / wait, unit: 'tok/s' })
  }

  const alone = await seconds(() => ask(4, 32, 4))
  const big = ask(5, 64, ANSWER, { rules: { n: 64 } })
  await new Promise((resolve) => setTimeout(resolve, 1000))
  const beside = await seconds(() => ask(6, 32, 4))
  await big
  rows.push({ name: 'a 4-token request alone', value: alone, unit: 's' })
  const ratio = beside / alone
  rows.push({ name: 'the same beside one with n = 64', value: beside, unit: 's', ratio, target: 'ratio <= 3' })

  const quiet = await worstGap(ask, () => new Promise((resolve) => setTimeout(resolve, 500)))
  const crowded = await worstGap(ask, () => ask(7, 2000, 1))
  rows.push({ name: 'worst gap of 4 streams', value: quiet, unit: 'ms' })
  const gap = { name: 'the same while a 2,000-token prompt arrives', value: crowded, unit: 'ms' }
  rows.push({ ...gap, ratio: crowded / quiet, target: '<= 150 ms or ratio <= 5' })
  rows.push(...(await structured(ask, seconds)))
  await engine.dispose()
  return rows
}

/** Answers held to a schema beside free ones, and what the first use of a schema of 2 kB costs. */
async function structured(ask, seconds) {
  const { tokenizer, eosTokenIds } = await loadTextModel(MODEL)
  const table = createTokenTable(tokenizer, tokenizer.vocabularySize, eosTokenIds)
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
    seconds(() => Promise.all(Array.from({ length: 8 }, (_, i) => ask(300 + i, 16, 64, { rules: { tokenMask } }))))
  // the first answers find parts of the grammar that nobody has needed yet
  await streams(() => grammar.open())
  const free = await streams(null)
  const held = await streams(() => grammar.open())
  await grammar.dispose()
  return [
    { name: `first use of a schema of ${schema.length} bytes`, value: first, unit: 's', target: '<= 1 s' },
    {
      name: '8 streams held to it',
      value: (8 * 64) / held,
      unit: 'tok/s',
      ratio: free / held,
      target: 'ratio >= 0.9 of free ones',
    },
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
