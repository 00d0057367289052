/**
 * The job of a loop's step: an ordinary one, sent under a key of the step, so that a process that goes on finds it again and
 * starts no second.
 */
import { AppError } from '#base/errors/errors.js'
import type { JsonValue } from '#base/util/json.js'
import type { TrainingJob } from '#contract/wire/training-jobs.js'
import type { Client } from '#sdk/client/client.js'
import type { LoopSpec } from '../loop-service.js'

/** Ends the loop: another process would come no further. */
export class LoopFailedError extends AppError {
  constructor(code: string, message: string) {
    super('internal', code, message)
  }
}

/** A job that failed is sent once more. */
const MOST_JOBS = 2

/** The groups of a step, as they were stored. */
export const readGroups = (text: string): JsonValue => JSON.parse(text) as JsonValue

/** Trains on a step's groups and waits for the checkpoint. @throws {LoopFailedError} with the words of a job that failed twice */
export async function trainOnce(
  client: Pick<Client, 'http' | 'trainingJobs'>,
  step: {
    readonly spec: Pick<LoopSpec, 'modelId' | 'training'>
    readonly groups: JsonValue
    readonly key: string
    readonly onJob: (jobId: string) => Promise<void>
  },
) {
  for (let count = 1; ; count += 1) {
    const submitted = await client.http.json<Pick<TrainingJob, 'id'>>({
      method: 'POST',
      path: '/v1/preview/training-jobs',
      json: { model_id: step.spec.modelId, trajectory_groups: step.groups, experimental_config: step.spec.training },
      headers: { 'idempotency-key': count === 1 ? step.key : `${step.key}:${count}` },
      isLong: true,
      isRepeatable: true,
    })
    await step.onJob(submitted.id)
    let trainedTokens = 0
    for await (const event of client.trainingJobs.follow(submitted.id)) {
      const { num_trainable_tokens: tokens } = event.data
      if (event.type === 'gradient_step' && typeof tokens === 'number') trainedTokens += tokens
    }
    const job = await client.trainingJobs.get(submitted.id)
    if (job.status === 'completed' && job.step !== null) {
      const seconds = (Date.parse(job.training_end ?? '') - Date.parse(job.training_start ?? '')) / 1000
      return { checkpointStep: job.step, trainedTokens, jobId: job.id, seconds: Number.isFinite(seconds) ? seconds : 0 }
    }
    if (job.status === 'cancelled') {
      throw new LoopFailedError('job_cancelled', `training job ${job.id} of the loop was cancelled`)
    }
    if (count >= MOST_JOBS) {
      throw new LoopFailedError(
        job.error_code ?? 'training_failed',
        `training failed twice: ${job.error_message ?? ''}`,
      )
    }
  }
}
