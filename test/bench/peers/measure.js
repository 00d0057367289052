/**
 * One side of a bench in a process of its own, so that neither side's threads spin beside the other's.
 *
 *     node measure.js <ours|peer> '{"precision":"int8","decode":[1,8],"prefill":[128,512],"kinds":["plain"]}'
 *
 * Prints one JSON object: key → tokens per second.
 */

import { loadPeer } from './node-llama.js'
import { benchAdapter, loadOurs, MODEL, promptOf, Q8_MODEL } from './ours.js'

const DECODE_PROMPT = 64
const DECODE_COUNT = 64

const [side, argument] = process.argv.slice(2)
const wanted = JSON.parse(argument)
const results = {}

if (side === 'peer') {
  const sequences = Math.max(1, ...wanted.decode)
  const peer = await loadPeer(Q8_MODEL, { sequences, contextSize: 1024 })
  await measure('peer', (prompts, count) => peer.generateMany(prompts, count))
} else {
  const sequences = Math.max(1, ...wanted.decode)
  const ours = await loadOurs(MODEL, wanted.precision, { sequences })
  const adapters = [benchAdapter(ours.config), benchAdapter(ours.config, 2)]
  const kinds = {
    plain: () => null,
    adapter: () => adapters[0],
    'two adapters': (i) => adapters[i % 2],
    sampled: () => null,
  }
  for (const kind of wanted.kinds) {
    const rules = kind === 'sampled' ? { temperature: 1 } : {}
    await measure(kind, (prompts, count) =>
      Promise.all(prompts.map((ids, i) => ours.generate(ids, count, { adapter: kinds[kind](i), rules }))),
    )
  }
}
process.stdout.write(`${JSON.stringify(results)}\n`)
process.exit(0)

async function measure(kind, generateMany) {
  await generateMany([promptOf(DECODE_PROMPT, 99)], 8)
  for (const streams of wanted.decode) {
    const prompts = Array.from({ length: streams }, (_, i) => promptOf(DECODE_PROMPT, i))
    // Prefill is subtracted by running the same prompts for one token.
    const start = performance.now()
    await generateMany(prompts, 1)
    const prefilled = performance.now()
    await generateMany(prompts, DECODE_COUNT + 1)
    const decodeMs = performance.now() - prefilled - (prefilled - start)
    results[`${kind}, ${streams} streams`] = (streams * DECODE_COUNT * 1000) / decodeMs
  }
  for (const length of wanted.prefill) {
    const start = performance.now()
    await generateMany([promptOf(length, length)], 1)
    results[`${kind}, prefill ${length}`] = (length * 1000) / (performance.now() - start)
  }
}
