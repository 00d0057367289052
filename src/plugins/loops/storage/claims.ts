/**
 * Which process has a loop: attempts count processes and are the fence of what they report; a lease that is over lets another
 * server take the loop.
 */
import type { ExpressionBuilder } from 'kysely'
import type { Database } from '#service/storage/database.js'
import { databaseNowMs } from '#service/storage/database.js'
import type { Schema } from '#service/storage/schema.js'
import { type LoopTables, loopTables } from './tables.js'

/** One attempt at a loop. */
export interface LoopAttempt {
  readonly id: string
  readonly attempt: number
}

const AT_WORK = ['queued', 'running'] as const

/** A loop that no process has, and whose pause after a loss is over. */
const isFree = (e: ExpressionBuilder<Schema & LoopTables, 'loops'>) =>
  e.and([
    e('status', 'in', AT_WORK),
    e.or([e('lease_until_ms', 'is', null), e('lease_until_ms', '<=', databaseNowMs)]),
    e.or([e('not_before_ms', 'is', null), e('not_before_ms', '<=', databaseNowMs)]),
  ])

/** Waiting loops that are looked at; entities of later ones come when these have begun. */
const MOST_LOOKED_AT = 500

/** Loops that wait for a process: entities take turns, the one with the fewest running ones first; of each the oldest. */
export async function listDueLoops(db: Database, limit: number): Promise<readonly string[]> {
  const loops = loopTables(db)
  const columns = ['id', 'entity'] as const
  const due = await loops
    .selectFrom('loops')
    .select(columns)
    .where(isFree)
    .orderBy('id')
    .limit(MOST_LOOKED_AT)
    .execute()
  if (due.length === 0) return []
  const held = await loops
    .selectFrom('loops')
    .select(['entity', (e) => e.fn.countAll<number>().as('count')])
    .where('status', '=', 'running')
    .where('lease_until_ms', '>', databaseNowMs)
    .groupBy('entity')
    .execute()
  const counts = new Map(held.map(({ entity, count }) => [entity, Number(count)]))
  const waiting = [...due]
  const chosen: string[] = []
  while (chosen.length < limit && waiting.length > 0) {
    const countOf = ({ entity }: { readonly entity: string }): number => counts.get(entity) ?? 0
    const next = waiting.reduce((best, each) => (countOf(each) < countOf(best) ? each : best))
    waiting.splice(waiting.indexOf(next), 1)
    counts.set(next.entity, countOf(next) + 1)
    chosen.push(next.id)
  }
  return chosen
}

/** Takes a loop for a process. @returns null where another server was first */
export async function claimLoop(db: Database, id: string, leaseMs: number): Promise<LoopAttempt | null> {
  const row = await loopTables(db)
    .updateTable('loops')
    .set((e) => ({
      status: 'running',
      attempt: e('attempt', '+', 1),
      lease_until_ms: e(databaseNowMs, '+', leaseMs),
      started_at_ms: e.fn.coalesce('started_at_ms', databaseNowMs),
    }))
    .where('id', '=', id)
    .where(isFree)
    .returning(['id', 'attempt'])
    .executeTakeFirst()
  return row ?? null
}

/** Extends the lease of a process. @returns false where the loop is no longer its own: it ended, paused, or was taken */
export async function renewLoop(db: Database, { id, attempt }: LoopAttempt, leaseMs: number): Promise<boolean> {
  const result = await loopTables(db)
    .updateTable('loops')
    .set((e) => ({ lease_until_ms: e(databaseNowMs, '+', leaseMs) }))
    .where('id', '=', id)
    .where('attempt', '=', attempt)
    .where('status', '=', 'running')
    .executeTakeFirst()
  return result.numUpdatedRows > 0n
}

/** Attempts of these that still have their loops. */
export async function listHeld(db: Database, attempts: readonly LoopAttempt[]): Promise<readonly LoopAttempt[]> {
  if (attempts.length === 0) return []
  return await loopTables(db)
    .selectFrom('loops')
    .select(['id', 'attempt'])
    .where(
      'id',
      'in',
      attempts.map(({ id }) => id),
    )
    .where('status', '=', 'running')
    .execute()
}

/** Lets another process have the loop, after a pause where this one was lost. @returns false: it was no longer its own */
export async function releaseLoop(
  db: Database,
  { id, attempt }: LoopAttempt,
  { waitMs, isLoss }: { readonly waitMs: number; readonly isLoss: boolean },
): Promise<boolean> {
  const result = await loopTables(db)
    .updateTable('loops')
    .set((e) => ({
      lease_until_ms: null,
      not_before_ms: e(databaseNowMs, '+', waitMs),
      losses: e('losses', '+', isLoss ? 1 : 0),
    }))
    .where('id', '=', id)
    .where('attempt', '=', attempt)
    .where('status', '=', 'running')
    .executeTakeFirst()
  return result.numUpdatedRows > 0n
}

/** Loops that an earlier process of this server had are free: for a server that is alone with its database. */
export async function freeLoops(db: Database): Promise<void> {
  await loopTables(db)
    .updateTable('loops')
    .set({ lease_until_ms: null, not_before_ms: null })
    .where('status', 'in', AT_WORK)
    .execute()
}

/** Loops wait as long as they did, by a clock that was set back (`service/storage/upkeep/clock-shift.ts`). */
export async function moveWaits(db: Database, byMs: number): Promise<void> {
  await loopTables(db)
    .updateTable('loops')
    .set((e) => ({ not_before_ms: e('not_before_ms', '-', byMs), lease_until_ms: e('lease_until_ms', '-', byMs) }))
    .where('status', 'in', ['queued', 'running'])
    .execute()
}
