/**
 * What the rewards of two jobs in a row say: the data of a job was sampled by the checkpoint that the job before it made.
 */
import { findCheckpoint } from '#service/storage/checkpoints.js'
import type { Database } from '#service/storage/database.js'
import type { JobRecord } from '#service/storage/training-jobs.js'

/** Warns when the mean reward fell by half or more since the job before. */
export async function rewardWarnings(
  db: Database,
  { kind, modelId, parentStep, report }: Pick<JobRecord, 'kind' | 'modelId' | 'parentStep' | 'report'>,
): Promise<string[]> {
  const now = rewardOf(report)
  if (now === null || parentStep === null || parentStep === 0) return []
  const parent = await findCheckpoint(db, modelId, parentStep)
  const before = parent?.kind === kind ? parent.metrics['train/reward'] : undefined
  if (before === undefined || before <= 0 || now > before / 2) return []
  return [
    `reward fell by half in one step, from ${before.toPrecision(3)} to ${now.toPrecision(3)} since the job that made step ${parentStep}: lower the rate`,
  ]
}

function rewardOf(report: JobRecord['report']): number | null {
  const facts = report?.['facts']
  const reward = isRecord(facts) && isRecord(facts['reward']) ? facts['reward']['mean'] : undefined
  return typeof reward === 'number' ? reward : null
}

function isRecord(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}
