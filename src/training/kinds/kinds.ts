/**
 * How each kind of job is opened: a folder each. A new kind is a new entry here.
 */
import { readOptions } from '#contract/jobs/kinds.js'
import type { JobKind } from '#contract/wire/job-words.js'
import { openDpo } from './dpo/open-dpo.js'
import { openRl } from './rl/open-rl.js'
import { openSft } from './sft/open-sft.js'
import type { OpenJob, TrainingStart } from './start.js'

const OPEN: { readonly [K in JobKind]: (start: TrainingStart<K>) => Promise<OpenJob> } = {
  rl: openRl,
  sft: openSft,
  dpo: openDpo,
}

/**
 * Reads a job's data.
 *
 * @throws {AppError} what is wrong with its data
 */
export async function openTraining(start: Omit<TrainingStart, 'options'>): Promise<OpenJob> {
  return await openAs(start.job.kind, start)
}

async function openAs<K extends JobKind>(kind: K, start: Omit<TrainingStart, 'options'>): Promise<OpenJob> {
  return await OPEN[kind]({ ...start, options: readOptions(kind, start.job.config) })
}
