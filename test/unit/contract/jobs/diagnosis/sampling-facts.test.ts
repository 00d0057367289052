/** What answers say of how they were sampled: counted by what becomes of each token, and said with what to do. */
import { describe, expect, it } from 'vitest'
import { diagnoseGroups, sayFinding } from '#contract/jobs/diagnosis/diagnose.js'
import { type DrawnAnswer, type DrawnRecord, samplingFacts } from '#contract/jobs/diagnosis/sampling-facts.js'

const answer = (tokens: number, record: Partial<DrawnRecord> | null = null, isOfStart = false): DrawnAnswer => ({
  tokens,
  isOfStart,
  record: record === null ? null : { temperature: 1, hasLogprobs: true, keptAt: () => 0, unmodelled: [], ...record },
})
const say = (answers: readonly DrawnAnswer[]) => diagnoseGroups([], answers).map(sayFinding)

describe('samplingFacts', () => {
  it('says nothing of answers that were drawn plainly', () => {
    expect(samplingFacts([answer(5), answer(3, { hasLogprobs: false })])).toEqual({})
    expect(say([answer(5)])).toEqual([])
  })

  it('counts each token once', () => {
    const facts = samplingFacts([
      answer(5),
      answer(4, { temperature: 0.5 }),
      answer(3, { temperature: 0.5, hasLogprobs: false }, true),
      answer(2, { temperature: 0.5, hasLogprobs: false }),
      answer(1, { temperature: 0 }),
      // a cut that is not modelled means the tokens without a set
      answer(6, { unmodelled: ['top_p'], keptAt: (t) => (t < 4 ? 3 : 0) }),
    ])
    expect(facts).toEqual({
      sampling: { tokens: 21, recorded: 8, computed: 3, unknown: 2, unmodelled: 2, greedy: 1 },
      unmodelled: { top_p: 2 },
    })
  })

  it('counts what sampling_ratio raw does not read', () => {
    expect(samplingFacts([answer(5), answer(4, { temperature: 0.5 })], 'raw')).toEqual({
      sampling: { tokens: 9, ignored: 4 },
    })
  })
})

describe('findings', () => {
  it('names rules that nobody can follow, from a hundredth of the tokens on', () => {
    const penalized = (tokens: number) => answer(tokens, { unmodelled: ['repetition_penalty', 'presence_penalty'] })
    expect(say([answer(995), penalized(5)])).toEqual([])
    expect(say([answer(99), penalized(1)])).toEqual([
      expect.stringMatching(
        /^1 of 100 .*repetition_penalty \(1 tokens\), presence_penalty \(1 tokens\); their ratio is 1/,
      ),
    ])
  })

  it('says that greedy answers teach nothing, and which temperatures are unknown', () => {
    expect(say([answer(99), answer(1, { temperature: 0 })])).toEqual([
      expect.stringMatching(/^1 of 100 .*temperature 0/),
    ])
    expect(say([answer(9), answer(1, { temperature: 2, hasLogprobs: false })])).toEqual([
      expect.stringMatching(/^1 of 10 .*another temperature.*their ratio is 1/),
    ])
    // what the trainer computes is no cause for complaint
    expect(say([answer(9), answer(1, { temperature: 2, hasLogprobs: false }, true)])).toEqual([])
  })
})
