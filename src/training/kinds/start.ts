/**
 * What every kind of job is opened with, and what it is once its data is read. Knows no kind.
 */

import type { OptionsOf } from '#contract/jobs/kinds.js'
import type { CommonOptions } from '#contract/jobs/shared-options.js'
import type { ParentFile, WorkerJob } from '#contract/processes/worker.js'
import type { JobKind } from '#contract/wire/job-words.js'
import { assertDigest, takeManifest } from '#formats/checkpoint-manifest.js'
import type { PreferenceText } from '#formats/rows/preference-data.js'
import type { SftText } from '#formats/rows/sft-data.js'
import { type AdapterModule, type AdapterWeights, decodeStoredAdapter } from '#model/weights/adapter.js'
import type { TrajectoryText } from '#training/rows/turns.js'
import type { JobContext, TrainingEvent, TrainingOutcome } from '#training/trainer/job.js'
import type { JobPlan } from '#training/trainer/plan/job-plan.js'

/** A file, and the digest that the server keeps of it. */
export interface FetchedFile {
  readonly bytes: Uint8Array
  readonly sha256: string
}

/** Where a job's data comes from: the server, or files of this machine. Streams are fresh ones at each call. */
export interface JobSource {
  openInput(): AsyncIterable<Uint8Array>
  /** The rows the job is measured on. */
  openValidation(): AsyncIterable<Uint8Array>
  getParentFile(file: ParentFile): Promise<FetchedFile>
  /** The same of the checkpoint that the job is compared with. */
  getReferenceFile(file: ParentFile): Promise<FetchedFile>
}

/** What a kind starts from. */
export interface TrainingStart<K extends JobKind = JobKind> {
  readonly source: JobSource
  readonly job: WorkerJob
  /** Resolved when the job was created: every one is there. */
  readonly options: OptionsOf<K>
  readonly text: TrajectoryText & SftText & PreferenceText
  readonly padTokenId: number
  /** Longest sequence the base model takes, tokens. */
  readonly maxLength: number
  /** What can be adapted in the base model. */
  readonly modules: readonly AdapterModule[]
  /** Adapter and optimizer state for the resolved options. */
  contextOf(options: Pick<CommonOptions, 'lora' | 'seed'>): JobContext
}

/** A running job: its events, then what it leaves behind. */
export type Training = AsyncGenerator<TrainingEvent, TrainingOutcome>

/** A job with its data read, of which nothing has run. */
export interface OpenJob {
  /** What it would do. */
  plan(): Promise<JobPlan>
  train(): Training
}

/**
 * Rows to train on and those to measure on. Two passes over a stream: the number of steps is announced before the first one, and
 * no file is held in memory.
 */
export async function openRows<Survey, Batch>(
  { source, job }: Pick<TrainingStart, 'source' | 'job'>,
  context: JobContext,
  read: {
    readonly survey: (stream: AsyncIterable<Uint8Array>) => Promise<Survey>
    readonly batches: (stream: AsyncIterable<Uint8Array>) => AsyncIterable<Batch>
  },
) {
  const rowsOf = async (open: () => AsyncIterable<Uint8Array>) => ({
    survey: await read.survey(open()),
    openBatches: () => read.batches(open()),
  })
  const startedMs = context.clock.monotonicMs()
  const validation = job.has_validation ? await rowsOf(() => source.openValidation()) : null
  const rows = await rowsOf(() => source.openInput())
  context.progress.report.seconds.data += (context.clock.monotonicMs() - startedMs) / 1000
  return { ...rows, validation }
}

/** The adapter a job is compared with; null for the base model. */
export async function fetchReference({
  source,
  job,
  modules,
}: Pick<TrainingStart, 'source' | 'job' | 'modules'>): Promise<AdapterWeights | null> {
  if (job.reference_files.length === 0) return null
  const checkpoint = `the KL reference of model "${job.model_name}"`
  const fetched = new Map<string, Uint8Array>()
  for (const name of job.reference_files) {
    fetched.set(name, assertDigest({ checkpoint, name, ...(await source.getReferenceFile(name)) }))
  }
  return decodeStoredAdapter(checkpoint, takeManifest(checkpoint, fetched), modules)
}
