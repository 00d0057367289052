/**
 * Prefill: prompt tokens per second until the first answer token, against node-llama-cpp in the same run.
 */
import { alternate } from './peers/rounds.js'

export const title = 'Prefill on SmolLM2-135M, one prompt, no reuse'

export async function run() {
  const prefill = [128, 512]
  const measured = await alternate(
    { decode: [], prefill },
    {
      int8: { precision: 'int8', decode: [], prefill, kinds: ['plain', 'adapter'] },
      f32: { precision: 'f32', decode: [], prefill, kinds: ['plain'] },
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
      const target = precision === 'int8' && key === 'plain, prefill 512' ? '>= 1' : undefined
      rows.push({ name: `${precision}, ${key}`, value, unit: 'tok/s', ratio: value / base, target })
    }
  }
  return rows
}
