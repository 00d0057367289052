/** Log-probabilities as they are shown, against the distribution that was sampled, made from all logits in float64. */
import { describe, expect, it } from 'vitest'
import type { SamplingRecord } from '#contract/wire/sampling-record.js'
import { shownAs, toSampled } from '#contract/wire/sampling-words.js'

const LOGITS = [2, 1, 0, -1]

function logSoftmax(ids: readonly number[], temperature = 1): number[] {
  const scores = LOGITS.map((z, id) => (ids.includes(id) ? Math.exp(z / temperature) : 0))
  const total = scores.reduce((sum, score) => sum + score, 0)
  return scores.map((score) => Math.log(score / total))
}

const ALL = [0, 1, 2, 3]
const entry = (id: number, logprob: number) => ({ token: `t${id}`, logprob, bytes: null })
/** Token 1 was sampled; all four stand beside it, the sampled one first. */
const raw = logSoftmax(ALL)
const token = { ...entry(1, raw[1] ?? 0), top_logprobs: [1, 0, 2, 3].map((id) => entry(id, raw[id] ?? 0)) }

function recordOf(more: Partial<SamplingRecord>): SamplingRecord {
  const kept = { counts: [0], ids: [] }
  return { temperature: 1, top_p: 1, top_k: 0, min_p: 0, logprobs: [0], kept, unmodelled: [], ...more }
}

describe('shown log-probabilities', () => {
  it.each([0.5, 2])('are those at temperature %f, of alternatives too', (temperature) => {
    const q = logSoftmax(ALL, temperature)
    const [shown] = toSampled([token], recordOf({ temperature, logprobs: [q[1] ?? 0] }))
    expect(shown?.logprob).toBeCloseTo(q[1] ?? 0, 12)
    for (const { token: name, logprob } of shown?.top_logprobs ?? []) {
      expect(logprob).toBeCloseTo(q[Number(name.slice(1))] ?? 0, 12)
    }
    expect(shown?.top_logprobs).toHaveLength(4)
  })

  it('are among the kept tokens, and the others are not shown', () => {
    const q = logSoftmax([0, 1], 0.5)
    const record = recordOf({ temperature: 0.5, logprobs: [q[1] ?? 0], kept: { counts: [2], ids: [0, 1] } })
    const [shown] = toSampled([token], record)
    expect(shown?.top_logprobs.map((other) => other.token)).toEqual(['t0', 't1'])
    expect(shown?.top_logprobs[0]?.logprob).toBeCloseTo(q[0] ?? 0, 12)
  })

  it('stay raw where nobody can say, where nothing was drawn, and where it was plain', () => {
    for (const record of [undefined, null, recordOf({ temperature: 0 }), recordOf({ unmodelled: ['logit_bias'] })]) {
      expect(toSampled([token], record)).toEqual([token])
    }
  })
})

it('which they are is said', () => {
  expect(shownAs(undefined)).toBeNull()
  expect(shownAs(recordOf({ temperature: 0.5, top_p: 0.9, top_k: 40 }))).toBe(
    'of the distribution that was sampled: temperature 0.5, top_k 40, top_p 0.9',
  )
  expect(shownAs(recordOf({}))).toBe('of the distribution that was sampled')
  expect(shownAs(recordOf({ temperature: 0 }))).toBe("the model's own: the most likely token was always taken")
  expect(shownAs(recordOf({ unmodelled: ['top_p', 'logit_bias'] }))).toBe(
    "the model's own, without what top_p, logit_bias did",
  )
})
