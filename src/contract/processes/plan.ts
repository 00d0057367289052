/**
 * What the server asks the process that plans a job, which answers with `PlanFindings`.
 */

import type { JobReport } from '../wire/training/job-report.js'
import type { WorkerFolders, WorkerJob } from './worker.js'

export interface PlanRequest {
  /** As a worker would get it; never a resume point, and no file of a reference. */
  readonly job: WorkerJob
  readonly folders: WorkerFolders
  readonly inputPath: string
  readonly validationPath: string | null
  /** Files of the parent checkpoint by name. */
  readonly parentFiles: Readonly<Record<string, { readonly path: string; readonly sha256: string }>>
  /** Reports of completed jobs of the same kind and base model, the newest first. */
  readonly earlier: readonly { readonly report: JobReport; readonly precision: string }[]
}
