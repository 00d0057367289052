/**
 * The interface between a job and its kind: what every kind is opened with, and what it returns once its data is read.
 * Knows no kind.
 */

import { InvalidRequestError } from '#base/errors/errors.js'
import type { FileContent } from '#base/util/file-content.js'
import type { JsonObject } from '#base/util/json.js'
import type { OptionsOf } from '#contract/jobs/kinds.js'
import type { RewardShaping } from '#contract/jobs/plugin-options.js'
import type { CommonOptions, EpochOptions } from '#contract/jobs/shared-options.js'
import type { ParentFile, WorkerJob } from '#contract/processes/worker.js'
import type { JobKind } from '#contract/wire/job-words.js'
import { assertDigest, takeManifest } from '#formats/checkpoint-manifest.js'
import type { RowSource } from '#formats/rows/json-lines.js'
import type { PreferenceText } from '#formats/rows/preference-data.js'
import { orderRows, type RowOrder, readInOrder } from '#formats/rows/row-order.js'
import type { SftText } from '#formats/rows/sft-data.js'
import { type AdapterModule, type AdapterWeights, decodeStoredAdapter } from '#model/weights/adapter.js'
import type { RolloutNotes } from '#training/rollouts/rollout-notes.js'
import type { TrajectoryText } from '#training/rows/turns.js'
import type { JobContext, TrainingEvent, TrainingOutcome } from '#training/trainer/job.js'
import type { JobPlan } from '#training/trainer/plan/job-plan.js'

/** A file, and the digest that the server keeps of it. */
export interface FetchedFile {
  readonly bytes: FileContent
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

/** What a plugin does with the options that a job has set. */
export interface RewardShaper {
  readonly plugin: string
  readonly options: JsonObject
  readonly shaping: RewardShaping
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
  /** What plugins do with options of an RL job; default nothing. */
  readonly shapers?: readonly RewardShaper[]
  /** Takes what an RL job's trainer computes of every token; default nobody. */
  readonly rollouts?: RolloutNotes | null
  /** Adapter and optimizer state for the resolved options. */
  contextOf(options: Pick<CommonOptions, 'lora' | 'lora_dropout' | 'seed'>): JobContext
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
 * no file is held in memory. Where rows are shuffled or held out, one more that counts them (`formats/rows/row-order.ts`): the order is
 * made once, before rows are cut into batches, so that every epoch has the same batches and a job that goes on counts them alike.
 */
export async function openRows<Survey, Batch>(
  { source, job, options }: Pick<TrainingStart, 'source' | 'job'> & { readonly options: RowOrderOptions },
  context: JobContext,
  read: {
    readonly survey: (stream: RowSource) => Promise<Survey>
    readonly batches: (stream: RowSource) => AsyncIterable<Batch>
  },
) {
  const rowsOf = async (open: () => RowSource) => ({
    survey: await read.survey(open()),
    openBatches: () => read.batches(open()),
  })
  const openInput = () => source.openInput()
  const startedMs = context.clock.monotonicMs()
  const order = await orderOf(openInput, options, context)
  const inOrder = (positions: Int32Array, meanLength: number) => (): RowSource => ({
    lines: readInOrder(openInput, positions, { meanLength }),
  })
  const isHeldOut = order !== null && order.heldOut.length > 0
  const validation = isHeldOut
    ? await rowsOf(inOrder(order.heldOut, order.meanLength))
    : job.has_validation
      ? await rowsOf(() => source.openValidation())
      : null
  const rows = await rowsOf(order === null ? openInput : inOrder(order.trained, order.meanLength))
  context.progress.report.seconds.data += (context.clock.monotonicMs() - startedMs) / 1000
  return { ...rows, validation }
}

/** What the order of a job's rows follows from. */
type RowOrderOptions = Pick<EpochOptions & CommonOptions, 'shuffle' | 'validation_split' | 'seed'>

/** Null where rows train in the order of the file, all of them. */
async function orderOf(
  open: () => AsyncIterable<Uint8Array>,
  { shuffle, validation_split: heldOutShare, seed }: RowOrderOptions,
  { jobId }: JobContext,
): Promise<RowOrder | null> {
  if (!shuffle && heldOutShare === 0) return null
  const order = await orderRows(open, { seed: seed ?? jobId, isShuffled: shuffle, heldOutShare })
  if (heldOutShare > 0 && order.heldOut.length === 0) {
    throw new InvalidRequestError(
      'invalid_value',
      'config.validation_split holds rows out, but the data has only one.',
      {
        param: 'config.validation_split',
        hint: 'give more rows, or leave validation_split out',
      },
    )
  }
  return order
}

/** The adapter a job is compared with; null for the base model. */
export async function fetchReference({
  source,
  job,
  modules,
}: Pick<TrainingStart, 'source' | 'job' | 'modules'>): Promise<AdapterWeights | null> {
  if (job.reference_files.length === 0) return null
  const checkpoint = `the KL reference of model "${job.model_name}"`
  const fetched = new Map<string, FileContent>()
  for (const name of job.reference_files) {
    fetched.set(name, assertDigest({ checkpoint, name, ...(await source.getReferenceFile(name)) }))
  }
  return decodeStoredAdapter(checkpoint, takeManifest(checkpoint, fetched), modules)
}
