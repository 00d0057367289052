/**
 * Answers to watched prompts that wait. What waits is a row: a server that stops forgets none.
 */
import { sql } from 'kysely'
import { type Database, databaseNowMs } from '#service/storage/database.js'
import { probeTables } from './tables.js'

/** New steps that wait; of a model that makes steps faster than they are answered the oldest are left out. */
const MOST_WAITING_STEPS = 8

/** Has a step answer all prompts of its model: it was just made. The oldest of those that wait so make room. */
export async function queueNewStep(db: Database, modelId: string, step: number): Promise<void> {
  const { rows } = await sql<{ id: string }>`select id from probes where model_id = ${modelId}`.execute(db)
  for (const { id } of rows) {
    await queueAnswer(db, { probeId: id, step, isAsked: false })
    const waiting = await probeTables(db)
      .selectFrom('probe_answers')
      .select('step')
      .where('probe_id', '=', id)
      .where('status', '=', 'queued')
      .where('is_asked', '=', 0)
      .orderBy('step', 'desc')
      .execute()
    const tooOld = waiting.slice(MOST_WAITING_STEPS).map((row) => row.step)
    if (tooOld.length === 0) continue
    await probeTables(db)
      .deleteFrom('probe_answers')
      .where('probe_id', '=', id)
      .where('step', 'in', tooOld)
      // one that was answered or asked for meanwhile stays
      .where('status', '=', 'queued')
      .where('is_asked', '=', 0)
      .execute()
  }
}

/** Has a step answer a prompt, unless it has; one that failed is tried again. */
export async function queueAnswer(
  db: Database,
  { probeId, step, isAsked }: { readonly probeId: string; readonly step: number; readonly isAsked: boolean },
): Promise<void> {
  const queued = { status: 'queued', is_asked: isAsked ? 1 : 0, created_at_ms: databaseNowMs }
  await probeTables(db)
    .insertInto('probe_answers')
    .values({ probe_id: probeId, step, ...queued })
    .onConflict((conflict) =>
      conflict
        .columns(['probe_id', 'step'])
        .doUpdateSet({ ...queued, error: null, answered_at_ms: null })
        .where('probe_answers.status', '=', 'failed'),
    )
    .execute()
  if (!isAsked) return
  // what waits because its step is new makes room for newer ones, and what somebody asked for does not
  await probeTables(db)
    .updateTable('probe_answers')
    .set({ is_asked: 1 })
    .where('probe_id', '=', probeId)
    .where('step', '=', step)
    .where('status', '=', 'queued')
    .execute()
}

/** Base models of which an answer waits. */
export async function queuedBaseModels(db: Database): Promise<readonly string[]> {
  const rows = await probeTables(db)
    .selectFrom('probe_answers')
    .innerJoin('probes', 'probes.id', 'probe_answers.probe_id')
    .innerJoin('models', 'models.id', 'probes.model_id')
    .select('models.base_model')
    .distinct()
    .where('probe_answers.status', '=', 'queued')
    .execute()
  return rows.map((row) => row.base_model)
}

/** Steps of a model that watched prompts were asked of by name. */
export async function listAskedSteps(db: Database, modelId: string): Promise<readonly number[]> {
  const rows = await probeTables(db)
    .selectFrom('probe_answers as a')
    .innerJoin('probes as p', 'p.id', 'a.probe_id')
    .select('a.step')
    .where('p.model_id', '=', modelId)
    .where('a.is_asked', '=', 1)
    .execute()
  return rows.map(({ step }) => step)
}
