/**
 * Training jobs, events and checkpoints in the words of OpenAI's fine-tuning API.
 */

import type { JsonObject } from '#base/util/json.js'
import type { JobStatus } from '#contract/wire/job-words.js'
import type { CheckpointRecord } from '#service/storage/checkpoints.js'
import type { EventRecord } from '#service/storage/events.js'
import type { JobRecord } from '#service/storage/training-jobs.js'
import { toFineTuningId } from './fine-tuning-id.js'
import type { FineTuningRecord } from './storage/jobs.js'
import type { FineTuningCheckpoint, FineTuningEvent, FineTuningJob } from './wire.js'

const STATUSES: Readonly<Record<JobStatus, FineTuningJob['status']>> = {
  queued: 'queued',
  running: 'running',
  completed: 'succeeded',
  failed: 'failed',
  cancelled: 'cancelled',
}

/** What jobs of every method have of the request, and of when it was. */
export function frameOf(
  { request, entity, resultFileId }: Pick<FineTuningRecord, 'request' | 'entity' | 'resultFileId'>,
  { id, createdAtMs, endedAtMs }: Pick<JobRecord, 'id' | 'createdAtMs' | 'endedAtMs'>,
) {
  return {
    id: toFineTuningId(id),
    object: 'fine_tuning.job',
    created_at: toSeconds(createdAtMs),
    finished_at: endedAtMs === null ? null : toSeconds(endedAtMs),
    model: String(request['model']),
    organization_id: entity,
    result_files: resultFileId === null ? [] : [resultFileId],
    seed: typeof request['seed'] === 'number' ? request['seed'] : 0,
    training_file: String(request['training_file']),
    validation_file: text(request, 'validation_file'),
    integrations: [] as never[],
    metadata: (request['metadata'] ?? null) as Record<string, string> | null,
    user_provided_suffix: text(request, 'suffix'),
  } as const
}

export function toFineTuningJob(record: FineTuningRecord, job: JobRecord, nowMs: number): FineTuningJob {
  const isFailed = job.status === 'failed'
  return {
    ...frameOf(record, job),
    estimated_finish: estimateFinish(job, nowMs),
    error: isFailed
      ? {
          code: job.errorCode ?? 'training_failed',
          message: job.errorMessage ?? 'the training job failed',
          param: null,
        }
      : null,
    fine_tuned_model: job.status === 'completed' && job.step !== null ? `${record.trainedName}:step${job.step}` : null,
    ...methodOf(record, job),
    status: STATUSES[job.status],
    trained_tokens: record.trainedTokens,
  }
}

/** What was chosen, where OpenAI shows it for this method. */
function methodOf(
  { hyperparameters }: FineTuningRecord,
  job: JobRecord,
): Pick<FineTuningJob, 'hyperparameters' | 'method'> {
  if (job.kind === 'dpo') {
    const chosen = hyperparameters as Extract<
      FineTuningJob['method'],
      { readonly type: 'dpo' }
    >['dpo']['hyperparameters']
    return { method: { type: 'dpo', dpo: { hyperparameters: chosen } } }
  }
  const chosen = hyperparameters as NonNullable<FineTuningJob['hyperparameters']>
  return { hyperparameters: chosen, method: { type: 'supervised', supervised: { hyperparameters: chosen } } }
}

/** By the pace of the steps so far; null before the first and after the end. */
function estimateFinish(job: JobRecord, nowMs: number): number | null {
  const { startedAtMs, gradientSteps, numSequences } = job
  if (job.status !== 'running' || startedAtMs === null || gradientSteps === 0 || numSequences === null) return null
  const remaining = Math.max(0, numSequences - gradientSteps)
  return toSeconds(nowMs + (Math.max(0, nowMs - startedAtMs) / gradientSteps) * remaining)
}

/** Number of the gradient step that an event tells of. */
export function gradientStepOf({ data, position }: EventRecord): number {
  return typeof data['gradient_step'] === 'number' ? data['gradient_step'] : position
}

export function toFineTuningEvent(event: EventRecord, job: JobRecord, trainedName: string): FineTuningEvent {
  const { data } = event
  const frame = {
    id: `ftevent-${event.id}`,
    object: 'fine_tuning.job.event',
    created_at: toSeconds(event.createdAtMs),
  } as const
  const say = (message: string, level: FineTuningEvent['level'] = 'info'): FineTuningEvent => ({
    ...frame,
    level,
    message,
    type: 'message',
    data: { ...data } as FineTuningEvent['data'],
  })
  switch (event.type) {
    case 'training_started':
      return say('Fine-tuning job started')
    case 'training_ended':
      return say(`New fine-tuned model created: ${trainedName}:step${String(data['step'])}`)
    case 'training_failed':
      return job.status === 'cancelled'
        ? say('The job was cancelled', 'warn')
        : say(`The job failed: ${String(data['error_message'])}`, 'error')
    case 'gradient_step': {
      const step = gradientStepOf(event)
      const total = job.numSequences ?? 0
      const validationLoss = data['val/loss']
      const metrics = {
        ...data,
        step,
        total_steps: total,
        train_loss: data['loss'] ?? null,
        ...(validationLoss === undefined ? {} : { valid_loss: validationLoss }),
      }
      const message = `Step ${step}/${total}: training loss=${Number(data['loss']).toFixed(4)}`
      return { ...frame, level: 'info', message, type: 'metrics', data: metrics as FineTuningEvent['data'] }
    }
  }
}

export function toFineTuningCheckpoint(
  checkpoint: CheckpointRecord,
  job: JobRecord,
  trainedName: string,
): FineTuningCheckpoint {
  return {
    id: `ftckpt-${checkpoint.id}`,
    object: 'fine_tuning.job.checkpoint',
    created_at: toSeconds(checkpoint.createdAtMs),
    fine_tuned_model_checkpoint: `${trainedName}:step${checkpoint.step}`,
    fine_tuning_job_id: toFineTuningId(job.id),
    metrics: { ...checkpoint.metrics, step: job.gradientSteps },
    step_number: job.gradientSteps,
  }
}

function text(request: JsonObject, name: string): string | null {
  const value = request[name]
  return typeof value === 'string' ? value : null
}

export function toSeconds(ms: number): number {
  return Math.floor(ms / 1000)
}
