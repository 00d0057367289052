/**
 * How each kind of job starts: its configuration, its input, its trainer. A new kind is a new entry here.
 */

import { parseExactRow } from '#base/json/exact-json.js'
import type { WorkerJob } from '#contract/processes/worker.js'
import type { JobKind } from '#contract/wire/job-words.js'
import { assertDigest, takeManifest } from '#formats/checkpoint-manifest.js'
import { readLines } from '#formats/rows/json-lines.js'
import { createDataNotes, type DataNotes } from '#formats/rows/notes/data-notes.js'
import { isWellFormedJson } from '#formats/rows/notes/json-text.js'
import { parseTrajectoryGroup } from '#formats/rows/parse.js'
import { type PreferenceBatchOptions, readPreferenceBatches, surveyPreferences } from '#formats/rows/preference-data.js'
import { readSftBatches, type SftBatchOptions, surveySftData } from '#formats/rows/sft-data.js'
import type { TrajectoryGroup } from '#formats/rows/trajectory.js'
import { type AdapterModule, type AdapterWeights, decodeStoredAdapter } from '#model/weights/adapter.js'
import {
  type LoraHyperparameters,
  resolveDpoConfig,
  resolveRlConfig,
  resolveSftConfig,
} from '#training/hyperparameters.js'
import { type DpoJob, trainDpo } from '#training/trainer/dpo/dpo-job.js'
import { planDpo } from '#training/trainer/dpo/dpo-plan.js'
import type { JobContext, TrainingEvent, TrainingOutcome } from '#training/trainer/job.js'
import type { JobPlan } from '#training/trainer/plan/job-plan.js'
import { trainRl } from '#training/trainer/rl/rl-job.js'
import { planRl, type RlJob } from '#training/trainer/rl/rl-outline.js'
import { type SftJob, trainSft } from '#training/trainer/sft/sft-job.js'
import { planSft } from '#training/trainer/sft/sft-plan.js'
import type { WorkerClient } from './worker-client.js'

/** Longest trajectory group, as JSON; a string of V8 holds little more. */
const MAX_GROUP_BYTES = 500 * 1024 * 1024

/** Where a job's data comes from: the server, or files of this machine. */
export type JobSource = Pick<WorkerClient, 'openInput' | 'openValidation' | 'getParentFile' | 'getReferenceFile'>

/** What every kind starts from. */
export interface TrainingStart {
  readonly source: JobSource
  readonly job: WorkerJob
  readonly text: RlJob['text'] & SftBatchOptions['text'] & PreferenceBatchOptions['text']
  readonly padTokenId: number
  /** Longest sequence the base model takes, tokens. */
  readonly maxLength: number
  /** What can be adapted in the base model. */
  readonly modules: readonly AdapterModule[]
  /** Adapter and optimizer state for the resolved options. */
  contextOf(options: { readonly lora: LoraHyperparameters | null; readonly seed: number | null }): JobContext
}

/** A running job: its events, then what it leaves behind. */
export type Training = AsyncGenerator<TrainingEvent, TrainingOutcome>

/** A job with its data read, of which nothing has run. */
export interface OpenJob {
  /** What it would do. */
  plan(): Promise<JobPlan>
  train(): Training
}

export const OPEN_JOB: Readonly<Record<JobKind, (start: TrainingStart) => Promise<OpenJob>>> = {
  rl: async ({ source, job, text, padTokenId, modules, contextOf }) => {
    const hyperparameters = resolveRlConfig(job.config)
    const context = contextOf(hyperparameters)
    const notes = createDataNotes()
    const groups = await readGroups(source, notes)
    const rows = { groups, notes, hyperparameters, text, padTokenId, currentStep: job.parent_step }
    const reference = await fetchReference(source, job, modules)
    return {
      plan: async () => planRl(rows, context),
      train: () => trainRl({ ...rows, reference }, context),
    }
  },
  sft: async ({ source, job, text, maxLength, contextOf }) => {
    const hyperparameters = resolveSftConfig(job.config)
    const context = contextOf(hyperparameters)
    const { batchSize, assistantTurns } = hyperparameters
    const options: SftBatchOptions = { text, batchSize, assistantTurns, maxLength }
    // Two passes over the stream: the number of steps is announced before the first one, and no file is held in memory.
    const rowsOf = async (open: () => AsyncIterable<Uint8Array>) => ({
      survey: await surveySftData(open(), options),
      openBatches: () => readSftBatches(open(), options),
    })
    const startedMs = context.clock.monotonicMs()
    const validation = job.has_validation ? await rowsOf(source.openValidation) : null
    const rows = await rowsOf(source.openInput)
    context.progress.report.seconds.data += (context.clock.monotonicMs() - startedMs) / 1000
    const ready: SftJob = { ...rows, hyperparameters, validation }
    return { plan: () => planSft(ready, context, text.textOf), train: () => trainSft(ready, context) }
  },
  dpo: async ({ source, job, text, maxLength, modules, contextOf }) => {
    const hyperparameters = resolveDpoConfig(job.config)
    const context = contextOf(hyperparameters)
    const options: PreferenceBatchOptions = { text, batchSize: hyperparameters.batchSize, maxLength }
    const rowsOf = async (open: () => AsyncIterable<Uint8Array>) => ({
      survey: await surveyPreferences(open(), options),
      openBatches: () => readPreferenceBatches(open(), options),
    })
    const startedMs = context.clock.monotonicMs()
    const validation = job.has_validation ? await rowsOf(source.openValidation) : null
    const rows = await rowsOf(source.openInput)
    context.progress.report.seconds.data += (context.clock.monotonicMs() - startedMs) / 1000
    const reference = hyperparameters.referenceStep === null ? 'start' : await fetchReference(source, job, modules)
    const ready: DpoJob = { ...rows, hyperparameters, reference, validation }
    return { plan: () => planDpo(ready, context, text.textOf), train: () => trainDpo(ready, context) }
  },
}

/** The adapter a KL penalty or a preference loss is measured to; null for the base model. */
async function fetchReference(
  source: JobSource,
  job: WorkerJob,
  modules: readonly AdapterModule[],
): Promise<AdapterWeights | null> {
  if (job.reference_files.length === 0) return null
  const checkpoint = `the KL reference of model "${job.model_name}"`
  const fetched = new Map<string, Uint8Array>()
  for (const name of job.reference_files) {
    fetched.set(name, assertDigest({ checkpoint, name, ...(await source.getReferenceFile(name)) }))
  }
  return decodeStoredAdapter(checkpoint, takeManifest(checkpoint, fetched), modules)
}

async function readGroups(source: JobSource, notes: DataNotes): Promise<TrajectoryGroup[]> {
  const groups: TrajectoryGroup[] = []
  for await (const line of readLines(source.openInput(), { maxLineBytes: MAX_GROUP_BYTES })) {
    if (line.text.trim() === '') continue
    const path = `trajectory_groups[${groups.length}]`
    if (!isWellFormedJson(line.text)) notes.add('lone_surrogate', path)
    groups.push(parseTrajectoryGroup(parseExactRow(line.text), path, { notes }))
  }
  return groups
}
