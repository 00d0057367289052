/**
 * What each step of a loop came to, a row a step: means, who made its checkpoint, and numbers that charts show. Of the newest
 * evaluation the best and the worst answers stay, too.
 */
import type { Selectable } from 'kysely'
import type { Database } from '#service/storage/database.js'
import { readNumbers, storableText } from '#service/storage/row-values.js'
import type { LoopEvaluation, LoopExamples, LoopStep } from '../loop-service.js'
import { type LoopStepsTable, loopTables } from './tables.js'

/** @param examples of the step's evaluation, in place of those of the one before; null: nothing was evaluated */
export async function insertStep(
  db: Database,
  loopId: string,
  step: LoopStep,
  examples: LoopExamples | null,
): Promise<void> {
  const tables = loopTables(db)
  if (examples !== null) {
    await tables
      .updateTable('loop_steps')
      .set({ examples: null })
      .where('loop_id', '=', loopId)
      .where('valid_reward', 'is not', null)
      .where('examples', 'is not', null)
      .execute()
  }
  await tables
    .insertInto('loop_steps')
    .values({
      loop_id: loopId,
      step: step.loopStep,
      checkpoint_step: step.checkpointStep,
      job_id: step.jobId,
      train_reward: step.trainReward,
      valid_reward: step.validReward,
      numbers: JSON.stringify(step.numbers),
      examples: examples === null ? null : storableText(JSON.stringify(examples)),
    })
    .execute()
}

/** All steps, oldest first: a few hundred bytes each. */
export async function listSteps(db: Database, loopId: string): Promise<readonly LoopStep[]> {
  const rows = await loopTables(db)
    .selectFrom('loop_steps')
    .select(['step', 'checkpoint_step', 'job_id', 'train_reward', 'valid_reward', 'numbers'])
    .where('loop_id', '=', loopId)
    .orderBy('step')
    .execute()
  return rows.map((row) => ({
    loopStep: row.step,
    checkpointStep: row.checkpoint_step,
    jobId: row.job_id,
    trainReward: row.train_reward,
    validReward: row.valid_reward,
    numbers: readNumbers(row.numbers, 'numbers of a step of a loop'),
  }))
}

/** Of all evaluations the newest, or those with the highest reward, the newest of equals first; in this order. */
export async function listEvaluations(
  db: Database,
  loopId: string,
  { order, limit }: { readonly order: 'newest' | 'best'; readonly limit: number },
): Promise<readonly LoopEvaluation[]> {
  let query = loopTables(db)
    .selectFrom('loop_steps')
    .select(EVALUATION)
    .where('loop_id', '=', loopId)
    .where('valid_reward', 'is not', null)
  if (order === 'best') query = query.orderBy('valid_reward', 'desc')
  const rows = await query.orderBy('step', 'desc').limit(limit).execute()
  return rows.map(toEvaluation)
}

/** The newest evaluation of each of these loops that has one. */
export async function listNewestEvaluations(
  db: Database,
  loopIds: readonly string[],
): Promise<ReadonlyMap<string, LoopEvaluation>> {
  if (loopIds.length === 0) return new Map()
  const tables = loopTables(db)
  const newest = await tables
    .selectFrom('loop_steps')
    .select(['loop_id', (e) => e.fn.max('step').as('newest')])
    .where('loop_id', 'in', loopIds)
    .where('valid_reward', 'is not', null)
    .groupBy('loop_id')
    .execute()
  if (newest.length === 0) return new Map()
  const rows = await tables
    .selectFrom('loop_steps')
    .select(['loop_id', ...EVALUATION])
    .where((e) => e.or(newest.map((row) => e.and({ loop_id: row.loop_id, step: row.newest }))))
    .execute()
  return new Map(rows.map((row) => [row.loop_id, toEvaluation(row)]))
}

/** Best and worst answers of the newest evaluation; null: none has any. */
export async function findExamples(
  db: Database,
  loopId: string,
): Promise<{ readonly evaluation: LoopEvaluation; readonly examples: LoopExamples } | null> {
  const row = await loopTables(db)
    .selectFrom('loop_steps')
    .select([...EVALUATION, 'examples'])
    .where('loop_id', '=', loopId)
    .where('valid_reward', 'is not', null)
    .where('examples', 'is not', null)
    .orderBy('step', 'desc')
    .executeTakeFirst()
  if (row === undefined || row.examples === null) return null
  return { evaluation: toEvaluation(row), examples: JSON.parse(row.examples) as LoopExamples }
}

/** Steps of a model that its loops have measured. */
export async function listMeasuredSteps(db: Database, modelId: string): Promise<readonly number[]> {
  const rows = await loopTables(db)
    .selectFrom('loop_steps')
    .innerJoin('loops', 'loops.id', 'loop_steps.loop_id')
    .select('loop_steps.checkpoint_step')
    .distinct()
    .where('loops.model_id', '=', modelId)
    .where('loop_steps.valid_reward', 'is not', null)
    .execute()
  return rows.map(({ checkpoint_step: step }) => step)
}

const EVALUATION = ['step', 'checkpoint_step', 'train_reward', 'valid_reward'] as const

function toEvaluation(row: Pick<Selectable<LoopStepsTable>, (typeof EVALUATION)[number]>): LoopEvaluation {
  return {
    loopStep: row.step,
    checkpointStep: row.checkpoint_step,
    trainReward: row.train_reward,
    validReward: row.valid_reward ?? 0,
  }
}
