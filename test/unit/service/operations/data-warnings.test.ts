/** Counts of a job's first event become sentences. */
import { describe, expect, it } from 'vitest'
import { dataWarnings } from '#service/operations/training/data-warnings.js'

describe('dataWarnings', () => {
  it('has nothing to say when everything trains', () => {
    expect(dataWarnings({ num_sequences: 3, num_dropped_overlength: 0, num_trained_trajectories: 8 })).toEqual([])
    expect(dataWarnings({ num_skipped_zero_advantage: 2, num_trained_trajectories: 8 })).toEqual([])
  })

  it('names what was left out, and why', () => {
    expect(dataWarnings({ num_dropped_overlength: 2, num_skipped_no_logprobs: 3, num_unmerged_histories: 1 })).toEqual([
      expect.stringMatching(/^2 sequences were longer than/),
      expect.stringMatching(/^3 answers carry no log-probabilities .* allow_training_without_logprobs/),
      expect.stringMatching(/^1 conversations were cut into several sequences/),
    ])
  })

  it('says when most rewards do not differ', () => {
    expect(dataWarnings({ num_skipped_zero_advantage: 6, num_trained_trajectories: 4 })).toEqual([
      expect.stringMatching(/^6 of 10 trajectories have the mean reward/),
    ])
  })
})
