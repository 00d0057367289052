/** The record of a choice whose tokens came in parts, and the parts that an answer's builder makes. */
import { expect, it } from 'vitest'
import { isModelledToken, joinSampling } from '#base/sampling-record.js'
import { samplingRecordSchema } from '#contract/wire/sampling-record.js'
import { shownAs } from '#contract/wire/sampling-words.js'
import type { DeltaEvent, DrawRecord } from '#inference/host/protocol.js'
import {
  type RepeatedSampling,
  SamplingRecorder,
  SetBudget,
} from '#service/operations/generation/chat/sampling-recorder.js'

const RULES = { temperature: 1, topP: 0.9, topK: 0, minP: 0 }
const recorderOf = (rules: RepeatedSampling, budget = new SetBudget(), keepsWhole = true): SamplingRecorder =>
  new SamplingRecorder(rules, { budget, keepsWhole })

function delta(tokens: readonly (readonly [id: number, logprob: number, drawn: DrawRecord | null])[]): DeltaEvent {
  const drawn = tokens.map(([, , draw]) => draw)
  return {
    type: 'delta',
    id: 'r',
    choice: 0,
    text: '',
    tokenIds: tokens.map(([id]) => id),
    logprobs: tokens.map(([id, logprob]) => ({ id, logprob, text: '', bytes: [], top: [] })),
    ...(drawn.some((draw) => draw !== null) ? { drawn } : {}),
    finishReason: null,
    stopReason: null,
  }
}

const DELTAS = [
  delta([
    [5, -1, null],
    [6, -2, null],
  ]),
  delta([
    [7, -3, { logprob: -0.5, keptIds: [7, 8], unmodelled: [] }],
    [8, -4, null],
  ]),
  delta([[9, -5, { logprob: -4, keptIds: null, unmodelled: ['top_p'] }]]),
  delta([[1, 1e-9, null]]),
]
const WHOLE = {
  temperature: 1,
  top_p: 0.9,
  top_k: 0,
  min_p: 0,
  logprobs: [-1, -2, -0.5, -4, -4, 0],
  kept: { counts: [0, 0, 2, 0, 0, 0], ids: [7, 8] },
  unmodelled: ['top_p'],
}

it('parts join to the whole, and tokens drawn plainly have their own log-probabilities', () => {
  const recorder = recorderOf(RULES)
  const parts = DELTAS.map((event) => ({
    logprobs: event.logprobs.map(({ logprob }) => logprob),
    sampling: recorder.add(event),
  }))
  expect(parts.map(({ sampling }) => sampling?.logprobs?.length ?? 0)).toEqual([0, 2, 1, 0])
  expect(recorder.whole()).toEqual(WHOLE)
  expect(joinSampling(parts)).toEqual(WHOLE)
  expect(samplingRecordSchema.parse(joinSampling(parts))).toEqual(WHOLE)
})

it('there is none of an answer that was drawn plainly', () => {
  const recorder = recorderOf(RULES)
  expect(recorder.add(delta([[5, -1, null]]))).toBeUndefined()
  expect(recorder.whole()).toBeUndefined()
  expect(joinSampling([{ logprobs: [-1] }])).toBeUndefined()
  expect(joinSampling([])).toBeUndefined()
})

it('a greedy answer has temperature 0, a searched one 1', () => {
  const certain = delta([[5, -1, { logprob: 0, keptIds: [5], unmodelled: [] }]])
  expect(recorderOf({ ...RULES, temperature: 1e-6 }).add(certain)?.temperature).toBe(0)
  const searched = recorderOf({ ...RULES, temperature: 0, beam: { lengthPenalty: 1 } })
  expect(searched.add(certain)?.temperature).toBe(1)
})

const withSet = (...keptIds: number[]): DeltaEvent => delta([[1, -9, { logprob: -0.5, keptIds, unmodelled: [] }]])

it('choices share a budget of ids, and a set beyond it is one that is too large', () => {
  const budget = new SetBudget(5)
  const [first, second] = [recorderOf(RULES, budget), recorderOf(RULES, budget)]
  first.add(withSet(1, 2, 3))
  expect(second.add(withSet(1, 2, 3))).toMatchObject({ kept: { counts: [0], ids: [] }, unmodelled: ['top_p'] })
  // what is no more than the token itself is always told
  second.add(withSet(1))
  second.add(withSet(1, 4))
  second.add(withSet(1, 4))
  expect(first.whole()).toMatchObject({ kept: { counts: [3], ids: [1, 2, 3] }, unmodelled: [] })
  const record = second.whole()
  expect(record).toMatchObject({ kept: { counts: [0, 1, 2, 0], ids: [1, 1, 4] }, unmodelled: ['top_p'] })
  expect(record?.kept.counts.map((count) => isModelledToken(record.unmodelled, count))).toEqual([
    false,
    true,
    true,
    false,
  ])
})

it.each<[Partial<RepeatedSampling>, readonly string[]]>([
  [{ topP: 1, topK: 40, minP: 0.1 }, ['top_k', 'min_p']],
  [{ topP: 1, xtc: { probability: 1, threshold: 0.1 } }, ['xtc_probability']],
  [{ topP: 1, allowedTokenIds: [1], badWords: ['x'], minTokens: 1 }, ['allowed_token_ids', 'bad_words', 'min_tokens']],
  [{ topP: 1, allowedTokenIds: null, badWords: [], minTokens: 0 }, ['structured_outputs']],
])('a set beyond the budget names what cut it, and leaves those that are told: %j', (rules, names) => {
  const recorder = recorderOf({ ...RULES, ...rules }, new SetBudget(2))
  recorder.add(withSet(1, 2))
  recorder.add(withSet(1, 3))
  expect(recorder.whole()?.unmodelled).toEqual(names)
  expect([2, 0].map((count) => isModelledToken(names, count))).toEqual([true, false])
})

it('a stream keeps nothing of its parts', () => {
  const recorder = recorderOf(RULES, new SetBudget(), false)
  expect(recorder.add(withSet(1, 2))?.kept.ids).toEqual([1, 2])
  expect(recorder.whole()).toBeUndefined()
})

it('an answer whose engine told raw log-probabilities alone has none of its own, whole or in parts', () => {
  const recorder = recorderOf({ ...RULES, temperature: 0.5, topP: 1 })
  const raw = { logprob: null, keptIds: null, unmodelled: [] }
  const parts = [delta([[5, -1, raw]]), delta([[6, -2, raw]])].map((event) => ({
    logprobs: event.logprobs.map(({ logprob }) => logprob),
    sampling: recorder.add(event),
  }))
  const expected = { logprobs: null, kept: { counts: [0, 0], ids: [] }, temperature: 0.5, unmodelled: [] }
  expect(recorder.whole()).toMatchObject(expected)
  expect(samplingRecordSchema.parse(joinSampling(parts))).toMatchObject(expected)
  expect(shownAs(recorder.whole())).toBe("the model's own, not those at temperature 0.5")
})
