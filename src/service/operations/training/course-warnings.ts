/**
 * What a job's numbers say beside those of the jobs before it of the same model. Sentences and thresholds:
 * `contract/jobs/diagnosis/findings.ts`.
 */
import type { Course, JobNumbers } from '#contract/jobs/diagnosis/course.js'
import { diagnoseCourse, sayFinding } from '#contract/jobs/diagnosis/diagnose.js'
import { jobReportSchema } from '#contract/wire/training/job-report.js'
import { findCheckpoint } from '#service/storage/checkpoints.js'
import type { Database } from '#service/storage/database.js'
import { type JobRecord, listJobs } from '#service/storage/training-jobs.js'

/** Jobs before it that are looked at. */
const MAX_EARLIER = 8

/** Sentences about the course that a model's training takes; none for a job that has not begun. */
export async function courseWarnings(db: Database, job: JobRecord): Promise<string[]> {
  if (job.report === null || job.startedAtMs === null) return []
  const { items } = await listJobs(db, {
    entity: job.entity,
    modelId: job.modelId,
    status: 'completed',
    after: job.id,
    limit: MAX_EARLIER,
  })
  // a job of another kind begins a new course: its rewards and losses are of other data
  const other = items.findIndex(({ kind }) => kind !== job.kind)
  const earlier = items.slice(0, other === -1 ? items.length : other).reverse()
  const course: Course = {
    job: await numbersOf(db, job),
    earlier: await Promise.all(earlier.map((each) => numbersOf(db, each))),
  }
  return diagnoseCourse(course).map(sayFinding)
}

async function numbersOf(db: Database, job: JobRecord): Promise<JobNumbers> {
  const { modelId, step, gradientSteps, report, resolvedConfig } = job
  const checkpoint = step === null ? null : await findCheckpoint(db, modelId, step)
  const parsed = jobReportSchema.safeParse(report)
  return {
    step,
    gradientSteps,
    facts: parsed.success ? parsed.data.facts : {},
    metrics: checkpoint?.metrics ?? {},
    validation: parsed.success ? parsed.data.validation.map(({ loss }) => loss) : [],
    quoted: '',
    learningRate: numberOf(resolvedConfig?.['learning_rate']),
    advantageBalance: numberOf(resolvedConfig?.['advantage_balance']),
  }
}

function numberOf(value: unknown): number | null {
  return typeof value === 'number' ? value : null
}
