/**
 * Grades that cost something, by what was graded: a process that goes on where another was lost asks no judge twice.
 */
import type { JsonObject } from '#base/util/json.js'
import { type Database, databaseNowMs } from '#service/storage/database.js'
import { readObject } from '#service/storage/row-values.js'
import { loopTables } from './tables.js'

/** How long a grade is remembered, and how many are. */
const [LIFE_MS, MOST_GRADES] = [30 * 24 * 3_600_000, 1_000_000]

/** What is known of these, by digest. */
export async function findGrades(
  db: Database,
  digests: readonly string[],
): Promise<Readonly<Record<string, JsonObject>>> {
  if (digests.length === 0) return {}
  const rows = await loopTables(db)
    .selectFrom('loop_grades')
    .select(['digest', 'graded'])
    .where('digest', 'in', digests)
    .execute()
  return Object.fromEntries(rows.map(({ digest, graded }) => [digest, readObject(graded, 'a grade')]))
}

export async function rememberGrade(db: Database, digest: string, graded: object): Promise<void> {
  await loopTables(db)
    .insertInto('loop_grades')
    .values({ digest, graded: JSON.stringify(graded), created_at_ms: databaseNowMs })
    .onConflict((conflict) => conflict.column('digest').doNothing())
    .execute()
}

export async function forgetOldGrades(db: Database): Promise<void> {
  const tables = loopTables(db)
  await tables
    .deleteFrom('loop_grades')
    .where((e) => e('created_at_ms', '<', e(databaseNowMs, '-', LIFE_MS)))
    .execute()
  const oldest = await tables
    .selectFrom('loop_grades')
    .select('created_at_ms')
    .orderBy('created_at_ms', 'desc')
    .limit(1)
    .offset(MOST_GRADES)
    .executeTakeFirst()
  if (oldest === undefined) return
  await tables.deleteFrom('loop_grades').where('created_at_ms', '<=', oldest.created_at_ms).execute()
}
