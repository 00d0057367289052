/**
 * What the server asks the process that renders the first rows of a job before it is created.
 */
import type { WorkerJob } from './worker.js'

export interface RowCheckRequest {
  /** As a worker would get it. */
  readonly job: Pick<WorkerJob, 'kind' | 'config' | 'base_model' | 'template_kwargs'>
  /** The base model's files. */
  readonly sourcePath: string
  readonly inputPath: string
  readonly validationPath: string | null
}

export interface RowCheckAnswer {
  /** What the job will leave out, as sentences. */
  readonly warnings: readonly string[]
}
