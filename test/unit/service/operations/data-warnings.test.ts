/** Counts of a job's first event become sentences. */
import { describe, expect, it } from 'vitest'
import { dataWarnings } from '#service/operations/training/data-warnings.js'

describe('dataWarnings', () => {
  it('has nothing to say when everything trains', () => {
    expect(dataWarnings('rl', { num_sequences: 3, num_dropped_overlength: 0, num_trained_trajectories: 8 })).toEqual([])
    expect(dataWarnings('rl', { num_skipped_zero_advantage: 2, num_trained_trajectories: 8 })).toEqual([])
  })

  it('names what was left out, and why', () => {
    expect(
      dataWarnings('rl', { num_dropped_overlength: 2, num_skipped_no_logprobs: 3, num_unmerged_histories: 1 }),
    ).toEqual([
      expect.stringMatching(
        /^2 sequences were longer than packed_sequence_length or the context of the model and were dropped whole$/,
      ),
      expect.stringMatching(/^3 answers carry no log-probabilities .* allow_training_without_logprobs/),
      expect.stringMatching(/^1 conversation was cut into several sequences/),
    ])
  })

  it.each([
    ['rl', '1 sequence was longer than packed_sequence_length or the context of the model and was dropped whole'],
    ['sft', '1 example was longer than the context of the model and was dropped whole'],
    ['dpo', '1 pair was longer than the context of the model and was dropped whole'],
  ] as const)('speaks of one as of one, and of the options that a job of kind %s has', (kind, sentence) => {
    expect(dataWarnings(kind, { num_dropped_overlength: 1 })).toEqual([sentence])
    expect(dataWarnings(kind, { num_dropped_overlength: 2 })).toEqual([expect.stringMatching(/^2 \w+s were .* were/)])
  })

  it('has no number left in the plural, and none of its brackets', () => {
    const names = ['no_trainable_turn', 'no_logprobs', 'masked_truncated', 'unknown_token_text', 'empty_completion']
    const started = { num_untrainable: 1, ...Object.fromEntries(names.map((name) => [`num_skipped_${name}`, 1])) }
    const warnings = dataWarnings('rl', { ...started, num_skipped_unsupported_exchange: 1 })
    expect(warnings).toHaveLength(7)
    for (const warning of warnings) {
      expect(warning).toMatch(/^1 \w+ (was|has|carries|ended|contains) /)
      expect(warning).not.toMatch(/[[\]|]| do /)
    }
  })
})
