/**
 * Completed jobs whose report says how long they took, for predictions.
 */

import type { JsonObject } from '#base/util/json.js'
import type { JobKind } from '#contract/wire/job-words.js'
import type { Database } from '../database.js'
import { toJob } from '../training-jobs.js'

const LATEST = 5

/** The latest completed jobs of an entity on one base model, the newest first. */
export async function listMeasuredJobs(
  db: Database,
  of: { readonly entity: string; readonly baseModel: string; readonly kind: JobKind },
): Promise<readonly { readonly report: JsonObject; readonly precision: string }[]> {
  const rows = await db
    .selectFrom('training_jobs')
    .innerJoin('models', 'models.id', 'training_jobs.model_id')
    .selectAll('training_jobs')
    .where('training_jobs.entity', '=', of.entity)
    .where('models.base_model', '=', of.baseModel)
    .where('training_jobs.kind', '=', of.kind)
    .where('training_jobs.status', '=', 'completed')
    .orderBy('training_jobs.id', 'desc')
    .limit(LATEST)
    .execute()
  return rows
    .map(toJob)
    .flatMap(({ report, config }) => (report === null ? [] : [{ report, precision: precisionOf(config) }]))
}

/** `precision` stands in `experimental_config`, which for RL is the configuration itself. */
function precisionOf(config: JsonObject): string {
  const inner = config['experimental_config']
  const nested = typeof inner === 'object' && inner !== null && !Array.isArray(inner) ? (inner as JsonObject) : {}
  return String(config['precision'] ?? nested['precision'] ?? 'f32')
}
