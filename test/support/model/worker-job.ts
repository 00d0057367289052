/**
 * A job as the service hands it to a worker, on the small random model.
 */
import { resolveOptions } from '#contract/jobs/resolve.js'
import type { WorkerJob } from '#contract/processes/worker.js'

/** @param overrides its config as a request has it: what a worker gets was resolved */
export function workerJob(overrides: Partial<WorkerJob>): WorkerJob {
  const job: WorkerJob = {
    id: 'job-1',
    kind: 'sft',
    attempt: 1,
    model_id: 'model-1',
    model_name: 'm',
    parent_step: 0,
    parent_kind: null,
    parent_files: [],
    parent_digests: {},
    reference_files: [],
    times_shown: 0,
    has_validation: false,
    base_model: { name: 'trainyard/tiny-random' },
    lost_tokens: [],
    config: {},
    plugins: [],
    template_kwargs: {},
    keeps_rollouts: false,
    lease_seconds: 30,
    resume_seconds: 60,
    resume: null,
    ...overrides,
  }
  return { ...job, config: { ...resolveOptions(job.kind, job.config) } as WorkerJob['config'] }
}
