/**
 * Records to wire objects, written out by hand: the one place where camelCase becomes snake_case on the way out.
 */

import { optionWarnings, rateWarnings } from '#contract/jobs/option-notes.js'
import type { Checkpoint } from '#contract/wire/checkpoints.js'
import type { FileObject } from '#contract/wire/files.js'
import type { Model } from '#contract/wire/models.js'
import { type JobReport, jobReportSchema } from '#contract/wire/training/job-report.js'
import { type WorkerFacts, workerFactsSchema } from '#contract/wire/training/worker-facts.js'
import type { TrainingEvent, TrainingJob } from '#contract/wire/training-jobs.js'
import type { TrajectoryLog } from '#contract/wire/trajectories.js'
import type { CheckpointRecord } from '#service/storage/checkpoints.js'
import type { EventRecord } from '#service/storage/events.js'
import type { FileRecord } from '#service/storage/files.js'
import type { KeptCounts } from '#service/storage/jobs/kept-data.js'
import type { ModelRecord } from '#service/storage/models.js'
import type { JobRecord } from '#service/storage/training-jobs.js'
import type { TrajectoryLogRecord } from '#service/storage/trajectories.js'
import type { QueuePlace } from './training/queue-forecast.js'

export function toWireModel(model: ModelRecord): Model {
  return {
    id: model.id,
    entity: model.entity,
    project: model.project,
    name: model.name,
    base_model: model.baseModel,
    run_id: model.runId,
    step: model.step,
    created_at: toIso(model.createdAtMs),
  }
}

export function toWireCheckpoint(checkpoint: CheckpointRecord): Checkpoint {
  return {
    id: checkpoint.id,
    step: checkpoint.step,
    metrics: { ...checkpoint.metrics },
    chat_template_kwargs: { ...checkpoint.templateKwargs } as Checkpoint['chat_template_kwargs'],
    created_at: toIso(checkpoint.createdAtMs),
    size_bytes: checkpoint.files.reduce((sum, file) => sum + file.sizeBytes, 0),
  }
}

/** What a job's record says of what it trained on. */
export type KeptFacts = Pick<TrainingJob, 'data_kept_until' | 'group_count' | 'trajectory_count'>

const NOT_KEPT: KeptFacts = { data_kept_until: null, group_count: null, trajectory_count: null }

/** @param keepMs how long it is kept past the end of its job */
export function toKeptFacts(kept: KeptCounts | null | undefined, keepMs: number): KeptFacts {
  if (kept == null || kept.endedAtMs === null || keepMs === 0) return NOT_KEPT
  const isNoted = kept.rolloutsSha256 !== null
  return {
    data_kept_until: toIso(kept.endedAtMs + keepMs),
    group_count: isNoted ? kept.groupCount : null,
    trajectory_count: isNoted ? kept.trajectoryCount : null,
  }
}

/**
 * @param dataWarnings what is known about the job's data; default nothing
 * @param place of a job that waits; default unknown
 * @param kept of what it trained on; default nothing
 */
export function toWireJob(
  job: JobRecord,
  dataWarnings: readonly string[] = [],
  place: QueuePlace | null = null,
  kept: KeptFacts = NOT_KEPT,
): TrainingJob {
  return {
    id: job.id,
    model_id: job.modelId,
    kind: job.kind,
    status: job.status,
    attempt: job.attempt,
    is_cancel_requested: job.isCancelRequested,
    is_stop_requested: job.isStopRequested,
    config: { ...job.config } as TrainingJob['config'],
    resolved_config: job.resolvedConfig === null ? null : ({ ...job.resolvedConfig } as TrainingJob['config']),
    warnings: [
      ...optionWarnings(job.kind, job.config, job.step),
      ...rateWarnings(job.kind, job.resolvedConfig ?? {}, job.baseParameters),
      ...dataWarnings,
      ...reportedWarnings(job),
    ],
    created_at: toIso(job.createdAtMs),
    queue_position: place?.position ?? null,
    expected_start: place?.expectedStartMs == null ? null : toIso(place.expectedStartMs),
    training_start: job.startedAtMs === null ? null : toIso(job.startedAtMs),
    training_end: job.endedAtMs === null ? null : toIso(job.endedAtMs),
    worker: workerOf(job),
    error_code: job.errorCode,
    error_message: job.errorMessage,
    num_gradient_steps: job.gradientSteps,
    num_sequences: job.numSequences,
    step: job.step,
    ...kept,
    report: reportOf(job),
    predicted_end: predictedEnd(job),
  }
}

/** Characters of a report in a list, and what of a longer one is left: a list of a hundred jobs stays small. */
const LISTED_REPORT = 16 * 1024
const LISTED_MEASUREMENTS = 20

/** A job as lists have it: its last measurements, and of a long report the numbers of the job alone. */
export function toListed(job: JobRecord): JobRecord {
  const report = reportOf(job)
  if (report === null) return { ...job, report: null }
  const short = { ...report, validation: report.validation.slice(-LISTED_MEASUREMENTS) }
  if (JSON.stringify(short).length <= LISTED_REPORT) return { ...job, report: short }
  return { ...job, report: { ...short, left_out: [], validation: [], facts: {}, warnings: [] } }
}

/** A report of an older version of this service may lack what a newer one has. */
function reportOf({ report }: JobRecord): JobReport | null {
  if (report === null) return null
  const result = jobReportSchema.safeParse(report)
  return result.success ? result.data : null
}

function workerOf({ worker }: JobRecord): WorkerFacts | null {
  if (worker === null) return null
  const result = workerFactsSchema.safeParse(worker)
  return result.success ? result.data : null
}

function predictedEnd({ status, report, reportedAtMs }: JobRecord): string | null {
  const seconds = report?.['remaining_seconds']
  if (status !== 'running' || reportedAtMs === null || typeof seconds !== 'number') return null
  return toIso(reportedAtMs + 1000 * seconds)
}

function reportedWarnings({ report }: JobRecord): string[] {
  const warnings = report?.['warnings']
  return Array.isArray(warnings) ? warnings.map(String) : []
}

export function toWireEvent(event: EventRecord): TrainingEvent {
  return {
    id: event.id,
    type: event.type,
    data: { ...event.data } as TrainingEvent['data'],
    created_at: toIso(event.createdAtMs),
  }
}

export function toWireLog(log: TrajectoryLogRecord): TrajectoryLog {
  return {
    id: log.id,
    model_id: log.modelId,
    split: log.split,
    step: log.step,
    groups: log.groupCount,
    trajectories: log.trajectoryCount,
    metrics: { ...log.metrics },
    created_at: toIso(log.createdAtMs),
  }
}

export function toWireFile(file: FileRecord): FileObject {
  return {
    id: file.id,
    object: 'file',
    bytes: file.sizeBytes,
    created_at: Math.floor(file.createdAtMs / 1000),
    filename: file.filename,
    purpose: file.purpose,
    status: file.problem === null ? 'processed' : 'error',
    status_details: file.problem,
    sha256: file.sha256,
    artifact: file.artifact,
  }
}

function toIso(timeMs: number): string {
  return new Date(timeMs).toISOString()
}
