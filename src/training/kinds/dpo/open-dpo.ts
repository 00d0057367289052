/**
 * How a preference job is opened: its pairs are surveyed, its reference is read.
 */
import { type PreferenceBatchOptions, readPreferenceBatches, surveyPreferences } from '#formats/rows/preference-data.js'
import { fetchReference, type OpenJob, openRows, type TrainingStart } from '../start.js'
import { dpoHyperparameters } from './dpo-hyperparameters.js'
import { type DpoJob, trainDpo } from './dpo-job.js'
import { planDpo } from './dpo-plan.js'

export async function openDpo(start: TrainingStart<'dpo'>): Promise<OpenJob> {
  const { text, maxLength } = start
  const hyperparameters = dpoHyperparameters(start.options)
  const context = start.contextOf(start.options)
  const options: PreferenceBatchOptions = { text, batchSize: hyperparameters.batchSize, maxLength }
  const rows = await openRows(start, context, {
    survey: (stream) => surveyPreferences(stream, options),
    batches: (stream) => readPreferenceBatches(stream, options),
  })
  const reference = hyperparameters.referenceStep === null ? 'start' : await fetchReference(start)
  const ready: DpoJob = { ...rows, hyperparameters, reference }
  return { plan: () => planDpo(ready, context, text.textOf), train: () => trainDpo(ready, context) }
}
