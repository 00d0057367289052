/**
 * Decode: tokens per second of 1 and 8 streams, against node-llama-cpp on the same weights in the same run.
 *
 * Both sides go token by token in JavaScript, greedy (and sampled at temperature 1 on our side), after 64-token prompts.
 */
import { alternate } from './peers/rounds.js'

export const title = 'Decode on SmolLM2-135M'

const TARGETS = { 'plain, 1 streams': '>= 1.2', 'plain, 8 streams': '>= 3' }

export async function run() {
  const kinds = ['plain', 'sampled', 'adapter', 'two adapters']
  const measured = await alternate(
    { decode: [1, 8], prefill: [] },
    {
      int8: { precision: 'int8', decode: [1, 8], prefill: [], kinds },
      f32: { precision: 'f32', decode: [1, 8], prefill: [], kinds: ['plain', 'adapter'] },
    },
  )
  if (typeof measured === 'string') return measured
  const { peer, ...ours } = measured
  const rows = Object.entries(peer).map(([key, value]) => ({
    name: key.replace('peer', 'node-llama-cpp Q8_0'),
    value,
    unit: 'tok/s',
  }))
  for (const [precision, values] of Object.entries(ours)) {
    for (const [key, value] of Object.entries(values)) {
      const base = peer[`peer, ${key.split(', ').at(-1)}`]
      const target = precision === 'int8' ? TARGETS[key] : undefined
      rows.push({ name: `${precision}, ${key}`, value, unit: 'tok/s', ratio: value / base, target })
    }
  }
  return rows
}
