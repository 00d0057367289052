/**
 * How a supervised job is opened: its conversations are surveyed.
 */
import { readSftBatches, type SftBatchOptions, surveySftData } from '#formats/rows/sft-data.js'
import { toHyperparameters } from '#training/trainer/hyperparameters.js'
import { type OpenJob, openRows, type TrainingStart } from '../start.js'
import { type SftJob, trainSft } from './sft-job.js'
import { planSft } from './sft-plan.js'

export async function openSft(start: TrainingStart<'sft'>): Promise<OpenJob> {
  const { text, maxLength } = start
  const hyperparameters = toHyperparameters(start.options)
  const context = start.contextOf(start.options)
  const { batchSize, assistantTurns } = hyperparameters
  const options: SftBatchOptions = { text, batchSize, assistantTurns, maxLength }
  const rows = await openRows(start, context, {
    survey: (stream) => surveySftData(stream, options),
    batches: (stream) => readSftBatches(stream, options),
  })
  const ready: SftJob = { ...rows, hyperparameters }
  return { plan: () => planSft(ready, context, text.textOf), train: () => trainSft(ready, context) }
}
