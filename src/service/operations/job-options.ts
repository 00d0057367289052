/**
 * The options that a stored job runs with. They were resolved when it was created: what a newer version would choose changes
 * nothing for it. Jobs of versions that stored none are resolved when they are asked for.
 */
import type { JsonObject } from '#base/util/json.js'
import type { PolicyReference } from '#contract/jobs/kind.js'
import { JOB_DEFINITIONS, readOptions } from '#contract/jobs/kinds.js'
import { resolveOptions } from '#contract/jobs/resolve.js'
import type { JobRecord } from '#service/storage/training-jobs.js'

type StoredJob = Pick<JobRecord, 'kind' | 'config' | 'resolvedConfig'>

/** Every option of its kind. @throws {RequestValidationError} `invalid_value` for options of an old version that are refused now */
export function optionsOfJob({ kind, config, resolvedConfig }: StoredJob): JsonObject {
  return readOptions(kind, resolvedConfig ?? resolveOptions(kind, config))
}

/** The frozen policy, other than its start, that a job is compared with. */
export function referenceOfJob(job: StoredJob): PolicyReference | null {
  return JOB_DEFINITIONS[job.kind].referenceOf(optionsOfJob(job))
}
