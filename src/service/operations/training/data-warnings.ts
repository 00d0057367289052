/**
 * What a job's first event says about its data, as sentences for the job's record: what was left out, and why.
 *
 * Counts that are ordinary (a trajectory with its group's mean reward) are no warning until they are most of the data.
 */
import type { JsonObject } from '#base/util/json.js'

/** Sentences by count; each begins after the number. */
const SENTENCES: Readonly<Record<string, string>> = {
  num_dropped_overlength: 'were longer than packed_sequence_length or the context of the model and were dropped whole',
  num_untrainable: 'have nothing to train on',
  num_skipped_no_trainable_turn: 'have no turn to train on',
  num_skipped_no_logprobs: 'carry no log-probabilities and do not train; allow_training_without_logprobs trains them',
  num_skipped_masked_truncated: 'ended by length and do not train, as mask_truncated asks',
  num_skipped_unknown_token_text: 'contain a token text that is not in the vocabulary and do not train',
  num_skipped_empty_completion: 'have no sampled token',
  num_skipped_unsupported_exchange: 'were recorded by a protocol that is not read',
  num_unmerged_histories:
    'were cut into several sequences: a later prompt does not begin with the tokens before it, as when a template renders earlier turns anew',
}

/** What is counted, where it is not an answer. */
const NOUNS: Readonly<Record<string, string>> = {
  num_dropped_overlength: 'sequences',
  num_untrainable: 'examples',
  num_skipped_no_trainable_turn: 'trajectories',
  num_skipped_unsupported_exchange: 'exchanges',
  num_unmerged_histories: 'conversations',
}

/** Share of trajectories without an advantage from which on it is worth a warning. */
const MOST = 0.5

/**
 * Warnings about the data of a job.
 *
 * @param started data of `training_started`
 * @returns one sentence each; none when everything trains
 */
export function dataWarnings(started: JsonObject): string[] {
  const countOf = (name: string): number => Number(started[name] ?? 0)
  const warnings = Object.entries(SENTENCES).flatMap(([name, sentence]) => {
    const count = countOf(name)
    return count > 0 ? [`${count} ${NOUNS[name] ?? 'answers'} ${sentence}`] : []
  })
  const flat = countOf('num_skipped_zero_advantage')
  const total = flat + countOf('num_trained_trajectories')
  if (flat > 0 && flat >= MOST * total) {
    warnings.push(
      `${flat} of ${total} trajectories have the mean reward of their group and do not train: rewards hardly differ inside groups`,
    )
  }
  return warnings
}
