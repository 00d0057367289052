/**
 * What each step of a loop came to has a row of its own, evaluations among it: they were one list in the loop's row, which grew
 * with every step and was sent whole. Steps of before have no more than their evaluations.
 */
import { type Kysely, sql } from 'kysely'

interface OldEvaluation {
  readonly loopStep: number
  readonly checkpointStep: number
  readonly trainReward: number | null
  readonly validReward: number
}

/** Adds the table, and moves what was evaluated there. */
export async function up(db: Kysely<unknown>): Promise<void> {
  await db.schema
    .createTable('loop_steps')
    .addColumn('loop_id', 'text', (c) => c.notNull().references('loops.id').onDelete('cascade'))
    .addColumn('step', 'integer', (c) => c.notNull())
    .addColumn('checkpoint_step', 'integer', (c) => c.notNull())
    .addColumn('job_id', 'text')
    .addColumn('train_reward', 'double precision')
    .addColumn('valid_reward', 'double precision')
    .addColumn('numbers', 'text', (c) => c.notNull())
    .addColumn('examples', 'text')
    .addPrimaryKeyConstraint('loop_steps_pk', ['loop_id', 'step'])
    .execute()
  // evaluations are asked for alone
  await db.schema
    .createIndex('loop_steps_evaluated')
    .on('loop_steps')
    .columns(['loop_id', 'step'])
    .where(sql.ref('valid_reward'), 'is not', null)
    .execute()
  const { rows } = await sql<{ id: string; evaluations: string }>`select id, evaluations from loops`.execute(db)
  for (const { id, evaluations } of rows) {
    for (const each of JSON.parse(evaluations) as readonly OldEvaluation[]) {
      const { loopStep, checkpointStep, trainReward, validReward } = each
      await sql`insert into loop_steps (loop_id, step, checkpoint_step, train_reward, valid_reward, numbers)
        values (${id}, ${loopStep}, ${checkpointStep}, ${trainReward}, ${validReward}, '{}')`.execute(db)
    }
  }
  await db.schema.alterTable('loops').dropColumn('evaluations').execute()
}
