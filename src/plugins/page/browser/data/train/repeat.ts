/**
 * The address of the form that starts a job again. Pure.
 */
import type { Model } from '#contract/wire/models.js'
import type { TrainingJob } from '#contract/wire/training-jobs.js'
import { toTyped } from './options.js'

/** The form of a job, filled in as this one was asked, but for what changes. */
export function repeatPath(
  job: TrainingJob,
  model: Pick<Model, 'project' | 'name'>,
  changes: TrainingJob['config'] = {},
): string {
  const { experimental_config: inner, ...config } = job.config
  const options =
    typeof inner === 'object' && inner !== null && !Array.isArray(inner) ? { ...inner, ...config } : config
  const query = new URLSearchParams({ kind: job.kind, m: `${model.project}/${model.name}` })
  for (const [name = '', text = ''] of toTyped({ ...options, ...changes })) query.append(name, text)
  return `/train?${query}`
}
