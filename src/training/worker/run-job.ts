/**
 * One attempt at one training job, from the server's description to the uploaded checkpoint.
 *
 * Knows the protocol's order: events as they happen, files, completion. A cancel is honoured after the gradient step that is
 * running; nothing of a cancelled or failed attempt becomes visible, because only the completion makes a checkpoint.
 */

import { CHECKPOINT_FILES, type CheckpointFile, type WorkerJob } from '#api/wire/worker.js'
import { AppError } from '#base/errors.js'
import type { Logger } from '#base/logging/logger.js'
import type { Clock } from '#base/util/clock.js'
import type { PreparedModel } from '#model/architectures/prepare.js'
import type { TextModel } from '#model/text/text-model.js'
import { decodeAdapter, encodeAdapter } from '#model/weights/adapter.js'
import type { Runtime } from '#numerics/runtime/runtime.js'
import {
  type ParentCheckpoint,
  startingPoint,
  type TrainingEvent,
  type TrainingOutcome,
} from '#training/trainer/job.js'
import { encodeOptimizerState } from '#training/trainer/optimizer-state.js'
import type { OpenBaseModel } from './base-model.js'
import { START_TRAINING } from './job-kinds.js'
import { bindText } from './text-binding.js'
import type { UploadedFile, WorkerClient } from './worker-client.js'

/** What an attempt runs with. */
export interface AttemptOptions {
  readonly client: WorkerClient
  readonly job: WorkerJob
  readonly openBaseModel: OpenBaseModel
  readonly runtime: Runtime
  readonly clock: Clock
  readonly logger: Logger
  readonly isCancelRequested: () => boolean
  /** Threads inside one operator; default all cores. */
  readonly threads?: number
}

/** The server asked to cancel and the running gradient step is done. */
export class CancelledError extends AppError {
  constructor() {
    super('cancelled', 'cancelled', 'the training job was cancelled')
  }
}

/**
 * Runs a job to its completion.
 *
 * @throws {CancelledError}; {FencedError} when the attempt is stale; every other AppError is the job's failure
 */
export async function runJob(options: AttemptOptions): Promise<void> {
  const { client, job, logger } = options
  const { prepared, text } = await options.openBaseModel(job.base_model)
  assertNotCancelled(options)
  const training = await startTraining(options, prepared, text)
  let offset = 0
  let next = await training.next()
  while (next.done !== true) {
    await client.postEvents({ offset, events: [toWireEvent(next.value)] })
    logger.info({ job_id: job.id, ...next.value.data }, `train.${next.value.type}`)
    offset += 1
    // Thrown into the generator, so that it releases its session; it comes out here again.
    next = options.isCancelRequested() ? await training.throw(new CancelledError()) : await training.next()
  }
  const files = await uploadCheckpoint(options, next.value)
  await client.complete({ files, metrics: { ...next.value.metrics } })
}

async function startTraining(
  options: AttemptOptions,
  prepared: PreparedModel,
  textModel: TextModel,
): Promise<AsyncGenerator<TrainingEvent, TrainingOutcome>> {
  const { job, client, runtime, clock, threads } = options
  // Ids the model can sample, which may be more than the tokenizer names.
  const text = { ...bindText(textModel), vocabularySize: prepared.config.vocabularySize }
  const parent = await fetchParent(options)
  const base = { runtime, prepared, clock, jobId: job.id, ...(threads === undefined ? {} : { threads }) }
  return START_TRAINING[job.kind]({
    client,
    job,
    text,
    padTokenId: textModel.eosTokenIds[0] ?? 0,
    maxLength: prepared.config.contextLength,
    contextOf: ({ lora, seed }) => ({
      ...base,
      ...startingPoint(prepared, parent, { kind: job.kind, lora, seed: seed ?? job.id }),
    }),
  })
}

async function fetchParent({ client, job }: AttemptOptions): Promise<ParentCheckpoint | null> {
  const files = new Map<CheckpointFile, Uint8Array>()
  for (const file of job.parent_files) {
    // State of the other kind of job would be dropped anyway, so it is not fetched.
    if (file === 'optimizer.safetensors' && job.parent_kind !== job.kind) continue
    files.set(file, await client.getParentFile(file))
  }
  if (!files.has('adapter_model.safetensors')) return null
  return { adapter: decodeAdapter(files), optimizerState: files.get('optimizer.safetensors') ?? null }
}

async function uploadCheckpoint(
  { client, job }: AttemptOptions,
  { adapter, optimizer }: TrainingOutcome,
): Promise<Record<string, UploadedFile>> {
  const contents = new Map<string, Uint8Array>([
    ...encodeAdapter(adapter, { baseModelName: job.base_model.name }),
    ['optimizer.safetensors', encodeOptimizerState(optimizer, job.kind)],
  ])
  const files: Record<string, UploadedFile> = {}
  for (const name of CHECKPOINT_FILES) {
    const bytes = contents.get(name)
    if (bytes === undefined) throw new Error(`the checkpoint has no file "${name}"`)
    files[name] = await client.putFile(name, bytes)
  }
  return files
}

function assertNotCancelled({ isCancelRequested }: AttemptOptions): void {
  if (isCancelRequested()) throw new CancelledError()
}

function toWireEvent({ type, data }: TrainingEvent): { type: TrainingEvent['type']; data: Record<string, number> } {
  return { type, data: { ...data } }
}
