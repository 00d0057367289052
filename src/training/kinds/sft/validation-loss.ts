/**
 * The loss of an SFT job on rows that are not trained on: cross-entropy, times the weight of its row, summed over the trainable
 * tokens of all rows, divided by their number.
 */
import { InvalidRequestError } from '#base/errors/errors.js'
import type { SftBatch, SftSurvey } from '#formats/rows/sft-data.js'
import type { Measured } from '#training/trainer/epochs/validation.js'
import type { Learner } from '#training/trainer/learner/learner.js'
import { type UnusedRows, whyUnused } from '#training/trainer/report.js'
import { scoreOf } from '#training/trainer/scores.js'
import { toRowBatches } from './sft-rows.js'

/** Rows a job is measured on. */
export interface ValidationRows {
  readonly survey: SftSurvey
  /** All batches from the first; called once per measurement. */
  readonly openBatches: () => AsyncIterable<SftBatch>
}

/** What a survey says of rows that are not used. */
export function unusedRows({ droppedCount, ...others }: SftSurvey): UnusedRows {
  const { untrainableCount, leftOutLines, leftOutMessages, refused } = others
  return { overlengthCount: droppedCount, untrainableCount, leftOutLines, leftOutMessages, refused }
}

/** Before anything is loaded. @throws {InvalidRequestError} `no_trainable_tokens` when nothing in the rows would train */
export function assertMeasurable({ survey }: ValidationRows): void {
  if (survey.trainableTokenCount > 0) return
  throw new InvalidRequestError(
    'no_trainable_tokens',
    `validation_data_url holds no row in which anything would train${whyUnused(unusedRows(survey))}`,
    { hint: 'give shorter rows with an assistant turn, or leave the validation rows out' },
  )
}

/** Measures the learner as it is at each call. */
export async function openSftLoss(
  rows: ValidationRows,
  learner: Learner,
): Promise<{ readonly measureRows: () => Promise<Measured> }> {
  await learner.prepare('scores')
  const score = scoreOf(learner)
  return {
    measureRows: async () => {
      let sum = 0
      let count = 0
      for await (const { sequences } of rows.openBatches()) {
        for (const { batch, weights } of toRowBatches(sequences)) {
          const logp = await score(batch)
          batch.trained.forEach(({ row }, n) => {
            sum -= (weights[row] ?? 1) * (logp[n] as number)
          })
          count += batch.trained.length
        }
      }
      return { loss: sum / count }
    },
  }
}
