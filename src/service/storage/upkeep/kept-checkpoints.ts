/**
 * What is asked of checkpoints before one is deleted by a rule: which models have several, and which steps somebody named or uses. And the states
 * of optimizers, which only the newest steps of a model need.
 */
import { sql } from 'kysely'
import type { Database } from '../database.js'
import { partsOf } from '../schema-part.js'

const OPTIMIZER_FILE = 'optimizer.safetensors'

/**
 * Drops the states of optimizers of all but the newest checkpoints of each model; those of steps that an unfinished job begins from stay.
 *
 * @param keep how many newest checkpoints of a model keep theirs
 * @returns how many were dropped
 */
export async function dropOldOptimizers(db: Database, keep: number): Promise<number> {
  const result = await db
    .deleteFrom('checkpoint_files')
    .where('name', '=', OPTIMIZER_FILE)
    .where('checkpoint_id', 'in', (e) =>
      e
        .selectFrom('checkpoints as c')
        .innerJoin('checkpoint_files as f', (join) =>
          join.onRef('f.checkpoint_id', '=', 'c.id').on('f.name', '=', OPTIMIZER_FILE),
        )
        .select('c.id')
        .where(({ exists, not, selectFrom }) =>
          not(
            exists(
              selectFrom('training_jobs as j')
                .select('j.id')
                .whereRef('j.model_id', '=', 'c.model_id')
                .whereRef('j.parent_step', '=', 'c.step')
                .where('j.status', 'in', ['queued', 'running']),
            ),
          ),
        )
        .where(
          sql<boolean>`(select count(*) from checkpoints as n where n.model_id = c.model_id and n.step > c.step) >= ${keep}`,
        ),
    )
    .executeTakeFirst()
  return Number(result.numDeletedRows)
}

/** Models with more than one checkpoint, and the rule that each has of its own; null: it has none. */
export async function listKeptModels(
  db: Database,
): Promise<readonly { readonly modelId: string; readonly rule: string | null }[]> {
  const rows = await db
    .selectFrom('checkpoints as c')
    .leftJoin('keep_rules as k', 'k.model_id', 'c.model_id')
    .select((e) => ['c.model_id', e.fn.max('k.rule').as('rule')])
    .groupBy('c.model_id')
    .having((e) => e.fn.countAll(), '>', 1)
    .execute()
  return rows.map((row) => ({ modelId: row.model_id, rule: row.rule }))
}

export async function findKeepRule(db: Database, modelId: string): Promise<string | null> {
  const row = await db.selectFrom('keep_rules').select('rule').where('model_id', '=', modelId).executeTakeFirst()
  return row?.rule ?? null
}

/** @param rule null: that of the server */
export async function setKeepRule(db: Database, modelId: string, rule: string | null): Promise<void> {
  await db.deleteFrom('keep_rules').where('model_id', '=', modelId).execute()
  if (rule !== null) await db.insertInto('keep_rules').values({ model_id: modelId, rule }).execute()
}

/**
 * Steps of a model that no rule deletes: those that somebody saved under a name, those that an unfinished job begins from, and
 * what plugins name.
 */
export async function listNamedSteps(db: Database, modelId: string): Promise<ReadonlySet<number>> {
  const steps = await Promise.all([
    db
      .selectFrom('session_weights as w')
      .innerJoin('training_sessions as s', 's.id', 'w.session_id')
      .select('w.step')
      .where('s.model_id', '=', modelId)
      .where('w.name', 'is not', null)
      .execute(),
    db
      .selectFrom('training_jobs')
      .select('parent_step as step')
      .where('model_id', '=', modelId)
      .where('status', 'in', ['queued', 'running'])
      .execute(),
  ])
  const added = await Promise.all(partsOf(db).map((part) => part.namedSteps?.(db, modelId) ?? []))
  return new Set([...steps.flat().flatMap(({ step }) => step ?? []), ...added.flat()])
}
