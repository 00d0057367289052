/**
 * One attempt at one training job, from the server's description to the uploaded checkpoint.
 *
 * Knows the protocol's order: events as they happen, files, completion. A cancel is honoured after the gradient step
 * that is running. Resume points are left at intervals, from which the next attempt goes on. Nothing of a cancelled or
 * failed attempt becomes visible, because only the completion makes a checkpoint.
 */

import { AppError, CheckpointError } from '#base/errors/errors.js'
import type { Logger } from '#base/logging/logger.js'
import type { Clock } from '#base/util/clock.js'
import { CHECKPOINT_FILES, MAX_ROLLOUTS_BYTES, type WorkerJob } from '#contract/processes/worker.js'
import type { ComputingFacts } from '#contract/wire/training/worker-facts.js'
import type { Runtime } from '#numerics/runtime/runtime.js'
import type { RolloutNotes } from '#training/rollouts/rollout-notes.js'
import { type JobContext, openLearner, type TrainingEvent } from '#training/trainer/job.js'
import { decodeResumePoint, encodeResumePoint, type ResumePoint } from '#training/trainer/resume-point.js'
import type { Trainers } from '#training/trainer/trainers.js'
import type { BaseModel } from './base-model.js'
import { FencedError } from './fenced-requests.js'
import { openJob } from './open-job.js'
import { type Pace, toWireReport } from './wire-report.js'
import type { UploadedFile, WorkerClient } from './worker-client.js'

/**
 * How fast an attempt makes gradient steps: what the end of its job is predicted from.
 *
 * The first step of an attempt loads weights and grows memory; it counts only until there is a second.
 */
interface PaceMeter {
  /** Takes note of an event just made. */
  note(event: TrainingEvent): void
  read(): Pace
}

/** Starts measuring now. */
export function createPaceMeter(clock: Clock): PaceMeter {
  let fromMs = clock.monotonicMs()
  let lastMs = fromMs
  let count = 0
  let isFirstLeftOut = false
  return {
    note: ({ type }) => {
      const nowMs = clock.monotonicMs()
      if (type === 'training_started') {
        fromMs = nowMs
        return
      }
      if (count === 1 && !isFirstLeftOut) {
        isFirstLeftOut = true
        count = 0
        fromMs = lastMs
      }
      count += 1
      lastMs = nowMs
    },
    read: () => ({ steps: count, seconds: (lastMs - fromMs) / 1000 }),
  }
}

/** Numbers and tokens that are noted of rollouts; what lists them and the names of tokens come on top. */
const MAX_NOTED_BYTES = (MAX_ROLLOUTS_BYTES / 4) * 3

/** What an attempt runs with. */
export interface AttemptOptions {
  readonly client: WorkerClient
  readonly job: WorkerJob
  /** Loads the job's base model, fetching it first where this machine has none. */
  readonly openBaseModel: () => Promise<BaseModel>
  readonly runtime: Runtime
  readonly clock: Clock
  readonly logger: Logger
  readonly isCancelRequested: () => boolean
  /** Whether the job is to end after the gradient step that runs, with a checkpoint; absent: never. */
  readonly isStopRequested?: () => boolean
  readonly trainers: Trainers
  /** What ONNX Runtime computes with here. */
  readonly computing: ComputingFacts
  /** Hears of everything that was computed. */
  readonly onProgress: () => void
  /** Threads inside one operator; default by the model's size. */
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
  const { client, job, logger, clock } = options
  const startedMs = clock.monotonicMs()
  const { prepared, text } = await options.openBaseModel()
  assertNotCancelled(options)
  const resumePoint = await fetchResumePoint(options)
  const begun = resumePoint === null ? null : (resumePoint.progress.report.trainer?.name ?? 'onnx')
  const backend = await options.trainers.choose(begun, options.onProgress)
  const notes = job.keeps_rollouts ? { maxRolloutBytes: MAX_NOTED_BYTES } : {}
  const given = { ...options, ...notes, source: client, prepared, text, resumePoint, backend }
  const { opened, context, rollouts } = await openJob(given)
  const training = opened.train()
  const { report } = context.progress
  report.seconds.setup += (clock.monotonicMs() - startedMs) / 1000 - report.seconds.data
  const pace = createPaceMeter(clock)
  const timed = async <T>(action: () => Promise<T>): Promise<T> => {
    const fromMs = clock.monotonicMs()
    try {
      return await action()
    } finally {
      report.seconds.io += (clock.monotonicMs() - fromMs) / 1000
    }
  }
  let offset = context.resumePoint === null ? 0 : (job.resume?.events ?? 0)
  let isFirst = true
  const computing = backend?.computing ?? options.computing
  let savedMs = clock.monotonicMs()
  try {
    await train()
  } catch (error) {
    // what a failed job trained on says why it failed
    if (!(error instanceof FencedError)) await saveRollouts(options, rollouts)
    throw error
  } finally {
    await context.opened.learner?.release()
  }

  async function train(): Promise<void> {
    let next = await training.next()
    while (next.done !== true) {
      const { value } = next
      pace.note(value)
      const batch = { offset, events: [toWireEvent(value)], report: toWireReport(context.progress, pace.read()) }
      await timed(() => client.postEvents({ ...batch, ...(isFirst ? { computing } : {}) }))
      isFirst = false
      logger.info({ job_id: job.id, ...next.value.data }, `train.${next.value.type}`)
      offset += 1
      if (next.value.type === 'gradient_step' && clock.monotonicMs() - savedMs >= job.resume_seconds * 1000) {
        await timed(() => saveResumePoint(options, context, offset))
        savedMs = clock.monotonicMs()
      }
      // Thrown into the generator, so that it releases its session; it comes out here again.
      next = options.isCancelRequested() ? await training.throw(new CancelledError()) : await training.next()
    }
    const outcome = next.value
    const files = await timed(() => uploadCheckpoint(options, context))
    await timed(() => saveRollouts(options, rollouts))
    await client.complete({
      files,
      metrics: { ...outcome.metrics },
      report: { ...toWireReport(context.progress, pace.read()), remaining_seconds: 0 },
    })
  }
}

/** Null for a job that begins, and for one whose point is damaged: it begins again, which costs time and nothing else. */
async function fetchResumePoint({ client, job, logger }: AttemptOptions): Promise<ResumePoint | null> {
  if (job.resume === null) return null
  try {
    return decodeResumePoint(await client.getResumePoint(job.resume.sha256))
  } catch (error) {
    if (!(error instanceof CheckpointError)) throw error
    logger.warn({ err: error, job_id: job.id }, 'train.resume_point_damaged')
    return null
  }
}

/** A point that cannot be stored costs the job nothing but the time a lost worker would lose. */
async function saveResumePoint(
  { client, job, logger }: AttemptOptions,
  context: JobContext,
  eventCount: number,
): Promise<void> {
  try {
    const { learner } = context.opened
    if (learner === null) throw new Error('a job has made a gradient step without a learner')
    await client.putResumePoint(await encodeResumePoint(learner, context.progress), eventCount)
    logger.debug({ job_id: job.id, gradient_steps: context.progress.stepCount }, 'train.resume_point')
  } catch (error) {
    if (error instanceof FencedError) throw error
    logger.warn({ err: error, job_id: job.id }, 'train.resume_point_failed')
  }
}

/** Notes that cannot be stored cost the job nothing: the server says that there are none. */
async function saveRollouts({ client, job, logger }: AttemptOptions, notes: RolloutNotes | null): Promise<void> {
  try {
    const encoded = notes?.encode() ?? null
    if (encoded === null || encoded.bytes.length > MAX_ROLLOUTS_BYTES) return
    await client.putRollouts(encoded.bytes, encoded)
  } catch (error) {
    if (error instanceof FencedError) throw error
    logger.warn({ err: error, job_id: job.id }, 'train.rollouts_not_kept')
  }
}

async function uploadCheckpoint(
  { client, job }: AttemptOptions,
  context: JobContext,
): Promise<Record<string, UploadedFile>> {
  // where nothing trained, what the job started with
  const learner = context.opened.learner ?? (await openLearner(context, { precision: 'f32', rows: null }))
  const contents = await learner.export('weights', { baseModelName: job.base_model.name, kind: job.kind })
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
