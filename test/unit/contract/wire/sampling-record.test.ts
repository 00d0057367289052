/** The record of a choice whose tokens came in parts, and the parts that an answer's builder makes. */
import { expect, it } from 'vitest'
import { joinSampling } from '#base/sampling-record.js'
import { samplingRecordSchema } from '#contract/wire/sampling-record.js'
import type { DeltaEvent, DrawRecord } from '#inference/host/protocol.js'
import { SamplingRecorder } from '#service/operations/generation/chat/sampling-recorder.js'

const RULES = { temperature: 1, topP: 0.9, topK: 0, minP: 0 }

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
  const recorder = new SamplingRecorder(RULES)
  const parts = DELTAS.map((event) => ({
    logprobs: event.logprobs.map(({ logprob }) => logprob),
    sampling: recorder.add(event),
  }))
  expect(parts.map(({ sampling }) => sampling?.logprobs.length ?? 0)).toEqual([0, 2, 1, 0])
  expect(recorder.whole()).toEqual(WHOLE)
  expect(joinSampling(parts)).toEqual(WHOLE)
  expect(samplingRecordSchema.parse(joinSampling(parts))).toEqual(WHOLE)
})

it('there is none of an answer that was drawn plainly', () => {
  const recorder = new SamplingRecorder(RULES)
  expect(recorder.add(delta([[5, -1, null]]))).toBeUndefined()
  expect(recorder.whole()).toBeUndefined()
  expect(joinSampling([{ logprobs: [-1] }])).toBeUndefined()
  expect(joinSampling([])).toBeUndefined()
})

it('a greedy answer has temperature 0, a searched one 1', () => {
  const certain = delta([[5, -1, { logprob: 0, keptIds: [5], unmodelled: [] }]])
  expect(new SamplingRecorder({ ...RULES, temperature: 1e-6 }).add(certain)?.temperature).toBe(0)
  const searched = new SamplingRecorder({ ...RULES, temperature: 0, beam: { lengthPenalty: 1 } })
  expect(searched.add(certain)?.temperature).toBe(1)
})
