/**
 * Forward passes over preference pairs: log-probabilities under the reference, and the loss on validation pairs.
 */
import { InvalidRequestError } from '#base/errors/errors.js'
import type { PreferenceBatch, PreferencePair, PreferenceSurvey } from '#formats/rows/preference-data.js'
import type { UnpairedSurvey } from '#formats/rows/unpaired-data.js'
import type { Measured } from '#training/trainer/epochs/validation.js'
import type { Learner } from '#training/trainer/learner/learner.js'
import { whyUnused } from '#training/trainer/report.js'
import { type Score, scoreOf } from '#training/trainer/scores.js'
import type { DpoHyperparameters } from './dpo-hyperparameters.js'
import { preferenceMeasures } from './dpo-metrics.js'
import { type AnswerLogps, addAnswerLogps, noLogps, toPairRows } from './dpo-rows.js'

/** Pairs as a job reads them. */
export interface PreferenceRows {
  readonly survey: PreferenceSurvey
  /** All batches from the first; called once per pass. */
  readonly openBatches: () => AsyncIterable<PreferenceBatch>
}

/** Before anything is loaded. @throws {InvalidRequestError} `no_trainable_tokens` when the rows to measure on hold no pair */
export function assertMeasurable(survey: PreferenceSurvey | UnpairedSurvey): void {
  const isPaired = 'pairCount' in survey
  if ((isPaired ? survey.pairCount : survey.answerCount) > 0) return
  throw new InvalidRequestError(
    'no_trainable_tokens',
    `validation_data_url holds no ${isPaired ? 'pair' : 'answer'} that could be compared${whyUnused(survey)}`,
    { hint: `give shorter ${isPaired ? 'pairs with an answer each' : 'answers'}, or leave the validation rows out` },
  )
}

/** Log-probabilities of both answers of each pair. */
export async function scorePairs(pairs: readonly PreferencePair[], score: Score): Promise<AnswerLogps> {
  const sums = noLogps(pairs.length)
  for (const part of toPairRows(pairs)) addAnswerLogps(sums, part, await score(part.batch))
  return sums
}

/**
 * Measures the loss and what a step reports of preferences, means over all pairs under the learner as it is at each call.
 *
 * @param references of each batch, in order
 */
export async function openPreferenceLoss(
  rows: PreferenceRows,
  references: readonly AnswerLogps[],
  learner: Learner,
  hyperparameters: DpoHyperparameters,
): Promise<{ readonly measureRows: () => Promise<Measured> }> {
  await learner.prepare('scores')
  const score = scoreOf(learner)
  return {
    measureRows: async () => {
      const sums = new Map<string, number>()
      for await (const { pairs, index } of rows.openBatches()) {
        if (pairs.length === 0) continue
        const policy = await scorePairs(pairs, score)
        const reference = references[index] ?? noLogps(pairs.length)
        const { loss, metrics } = preferenceMeasures(policy, reference, hyperparameters.preferenceLoss)
        for (const [name, value] of Object.entries({ loss, ...metrics })) {
          sums.set(name, (sums.get(name) ?? 0) + value * pairs.length)
        }
      }
      const mean = ([name, sum]: [string, number]): [string, number] => [name, sum / rows.survey.pairCount]
      const { loss = Number.NaN, ...metrics } = Object.fromEntries([...sums].map(mean))
      return { loss, metrics }
    },
  }
}
