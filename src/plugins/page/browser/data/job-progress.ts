/**
 * What the news of a job says of its record, so that progress needs no request. Pure.
 */
import type { Activity } from '#contract/wire/activity.js'
import type { TrainingJob } from '#contract/wire/training-jobs.js'

/** A job with the progress that news tells; as it is where the news is another's; undefined where more has changed. */
export function withProgress(job: TrainingJob, { type, data }: Activity): TrainingJob | undefined {
  if (data['job_id'] !== job.id) return job
  const { gradient_steps: steps, num_sequences: total } = data
  const isPlain = type === 'job.gradient_step' && job.status === 'running' && data['attempt'] === job.attempt
  if (!isPlain || typeof steps !== 'number') return undefined
  return {
    ...job,
    num_gradient_steps: Math.max(steps, job.num_gradient_steps),
    num_sequences: typeof total === 'number' ? total : job.num_sequences,
  }
}

/** The same of a list; a job that it has not is its newest, or none of it. */
export function takeProgress<L extends { readonly data: readonly TrainingJob[] }>(
  list: L,
  event: Activity,
): L | undefined {
  const known = list.data.find(({ id }) => id === event.data['job_id'])
  if (known === undefined) return event.type === 'job.gradient_step' ? list : undefined
  const job = withProgress(known, event)
  return job === undefined ? undefined : { ...list, data: list.data.map((each) => (each === known ? job : each)) }
}
