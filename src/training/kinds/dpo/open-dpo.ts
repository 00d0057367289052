/**
 * How a preference job is opened: its pairs, or single answers, are surveyed, its reference is read.
 */
import { type PreferenceBatchOptions, readPreferenceBatches, surveyPreferences } from '#formats/rows/preference-data.js'
import { readUnpairedBatches, surveyUnpaired } from '#formats/rows/unpaired-data.js'
import { fetchReference, type OpenJob, openRows, type TrainingStart } from '../start.js'
import { dpoHyperparameters } from './dpo-hyperparameters.js'
import { type DpoJob, trainDpo } from './dpo-job.js'
import { planDpo } from './dpo-plan.js'
import { type KtoJob, trainKto } from './unpaired/kto-job.js'
import { planKto } from './unpaired/kto-plan.js'

export async function openDpo(start: TrainingStart<'dpo'>): Promise<OpenJob> {
  const { text, maxLength } = start
  const hyperparameters = dpoHyperparameters(start.options)
  const context = start.contextOf(start.options)
  const options: PreferenceBatchOptions = { text, batchSize: hyperparameters.batchSize, maxLength }
  const openReference = () => (hyperparameters.referenceStep === null ? ('start' as const) : fetchReference(start))
  if (hyperparameters.lossType === 'kto') {
    const rows = await openRows(start, context, {
      survey: (stream) => surveyUnpaired(stream, options),
      batches: (stream) => readUnpairedBatches(stream, options),
    })
    const ready: KtoJob = { ...rows, hyperparameters, reference: await openReference() }
    return { plan: () => planKto(ready, context, text.textOf), train: () => trainKto(ready, context) }
  }
  const rows = await openRows(start, context, {
    survey: (stream) => surveyPreferences(stream, options),
    batches: (stream) => readPreferenceBatches(stream, options),
  })
  const ready: DpoJob = { ...rows, hyperparameters, reference: await openReference() }
  return { plan: () => planDpo(ready, context, text.textOf), train: () => trainDpo(ready, context) }
}
