/**
 * One training job from its submission to its checkpoint.
 */

import { AppError } from '#base/errors/errors.js'
import type { JsonObject } from '#base/util/json.js'
import { isFinished } from '#contract/wire/job-words.js'
import type { TrainingEvent, TrainingJob } from '#contract/wire/training-jobs.js'
import type { Client } from '#sdk/client/client.js'
import type { CreateOptions } from '#sdk/client/training.js'
import { mean } from '#sdk/rl/trajectory.js'

export interface TrainOptions {
  /**
   * Step size of the optimizer. Default: what was measured for a base model with as many parameters as the service says (1e-3 below
   * 20 million, for preferences 1e-4; 3e-4 below 300 million), else the service's, which suits large models.
   */
  readonly learningRate?: number
  /** Any other hyperparameter, as the API spells it. */
  readonly config?: JsonObject
  /**
   * Told of what looks wrong about options, data or course of the job, each sentence once for a model. Default: printed by
   * `console.warn`. All of them stand in `warnings` of the result.
   */
  readonly onWarning?: (warning: string) => void
  /** Told of every event of the job. */
  readonly onEvent?: (event: TrainingEvent) => void
  /** Aborting cancels the job. */
  readonly signal?: AbortSignal
  /** The same key with the same rows and options is the same job, also when a program that was killed says it again. */
  readonly idempotencyKey?: string
}

export interface RlTrainOptions extends TrainOptions {
  /**
   * Nats per trained token that one optimizer step may move the policy; a longer update is shortened. Default 0.2 for base models
   * below 20 million parameters, else no limit; null for none. Costs a forward pass over 256 trained tokens or more a step.
   */
  readonly targetKl?: number | null
}

export interface RowsTrainOptions<Row> extends TrainOptions {
  /**
   * Rows that are measured and never trained on, after every pass or every `config.validation_interval` steps: events and the
   * checkpoint carry `val/loss`, and for preferences `val/rewards/accuracies` and `val/rewards/margins`.
   */
  readonly validation?: readonly Row[]
}

export interface TrainResult {
  /** Step of the new checkpoint; the old one when nothing was trained. */
  readonly step: number
  /** null when no group could teach anything; `warnings` says so. */
  readonly jobId: string | null
  /** Mean reward of all trajectories given. */
  readonly reward: number
  /** Failed rollouts of all. */
  readonly exceptionRate: number
  readonly groups: number
  /** Groups whose rewards differ. */
  readonly trainedGroups: number
  readonly gradientSteps: number
  /** Means over the gradient steps: `loss`, `grad_norm`, `entropy`… */
  readonly metrics: Readonly<Record<string, number>>
  readonly seconds: number
  /** What the service says about options, data and course of the job, one sentence each; why nothing was trained. */
  readonly warnings: readonly string[]
}

/** What became of a job on rows that were given, examples or preferences. */
export type RowsTrainResult = Pick<TrainResult, 'step' | 'gradientSteps' | 'metrics' | 'seconds' | 'warnings'> & {
  readonly jobId: string
}

/** The job ended without a checkpoint. */
export class TrainingFailedError extends AppError {
  readonly job: TrainingJob

  constructor(job: TrainingJob) {
    const reason = job.error_message === null ? '' : `: ${job.error_message}`
    super('internal', job.error_code ?? `job_${job.status}`, `training job ${job.id} is ${job.status}${reason}`)
    this.job = job
  }
}

/**
 * Submits a job and follows it to its end. A job that is left early, by an abort or an error, is cancelled.
 *
 * @param warn told of the job's warnings when it was submitted and when it has ended, so of most of them twice
 * @throws {TrainingFailedError} when it did not complete; the signal's reason when aborted
 */
export async function runJob(
  client: Client,
  options: TrainOptions,
  warn: (warnings: readonly string[]) => void,
  submit: (call: CreateOptions) => Promise<TrainingJob>,
): Promise<RowsTrainResult> {
  const { signal, onEvent, idempotencyKey } = options
  const { id, warnings } = await submit({ signal, idempotencyKey })
  warn(warnings ?? [])
  const steps: JsonObject[] = []
  let job: TrainingJob | null = null
  try {
    for await (const event of client.trainingJobs.follow(id, { signal, pollMs: 250 })) {
      if (event.type === 'gradient_step') steps.push(event.data)
      onEvent?.(event)
    }
    job = await client.trainingJobs.get(id, { signal })
  } finally {
    // Not with the signal, which may be why we are here. A job that ended in the meantime refuses, and that is fine.
    if (job === null || !isFinished(job.status)) {
      await client.trainingJobs.cancel(id, { signal: AbortSignal.timeout(1500) }).catch(() => undefined)
    }
  }
  warn(job.warnings ?? [])
  if (job.status !== 'completed' || job.step === null) throw new TrainingFailedError(job)
  return {
    step: job.step,
    jobId: id,
    gradientSteps: steps.length,
    metrics: averages(steps),
    seconds: secondsBetween(job.training_start, job.training_end),
    warnings: job.warnings ?? [],
  }
}

function averages(steps: readonly JsonObject[]): Readonly<Record<string, number>> {
  const names = new Set(steps.flatMap((data) => Object.keys(data)))
  return Object.fromEntries(
    [...names].flatMap((name) => {
      const value = mean(steps.flatMap((data) => (typeof data[name] === 'number' ? [data[name]] : [])))
      return value === null ? [] : [[name, value] as const]
    }),
  )
}

function secondsBetween(start: string | null, end: string | null): number {
  return start === null || end === null ? 0 : (Date.parse(end) - Date.parse(start)) / 1000
}
