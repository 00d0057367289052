/**
 * Writes what a process reports into the loop's record, in one transaction, if the loop is still its own; and says there
 * whether it pauses: because somebody asked for it, or at a limit.
 */
import type { IdSource } from '#base/util/ids.js'
import type { Database, DatabaseHandle } from '#service/storage/database.js'
import { inTransaction } from '#service/storage/in-transaction.js'
import type { LoopLimits } from '../loop-service.js'
import type { LoopOrder, LoopReport } from '../messages.js'
import type { LoopAttempt } from './claims.js'
import {
  announceEnd,
  changeLoop,
  findAnyLoop,
  insertLoopEvent,
  type LoopChange,
  type Spent,
  type StoredLoop,
} from './loops.js'
import { insertStep } from './steps.js'

type NewEvent = NonNullable<LoopReport['events']>[number]

/** Which limit was reached, as a sentence; null: none. @param spent since the loop was resumed last */
export function reachedLimit(limits: LoopLimits, spent: Spent): string | null {
  const all: readonly (readonly [number | null, number, string])[] = [
    [limits.graderTokens, spent.graderTokens, 'tokens of graders'],
    [limits.seconds, spent.seconds, 'seconds'],
    [limits.endpointCalls, spent.endpointCalls, 'calls of endpoints'],
  ]
  const reached = all.find(([limit, used]) => limit !== null && used >= limit)
  return reached === undefined ? null : `limit_reached: ${Math.round(reached[1])} of ${reached[0]} ${reached[2]}`
}

export async function writeReport(
  db: DatabaseHandle,
  ids: Pick<IdSource, 'uuid'>,
  { id, attempt }: LoopAttempt,
  report: LoopReport,
): Promise<LoopOrder> {
  return await inTransaction(db, async (transaction) => {
    const loop = await findAnyLoop(transaction, id)
    if (loop === null || loop.attempt !== attempt || loop.status !== 'running') return 'stop'
    for (const event of report.events ?? []) await insertLoopEvent(transaction, id, { id: ids.uuid(), ...event })
    if (report.reached !== undefined) await insertStep(transaction, id, report.reached, report.examples ?? null)
    const spent = add(loop.spent, report.used ?? {})
    const change: LoopChange = {
      ...(report.used === undefined ? {} : { spent: JSON.stringify({ ...spent, before: loop.spentBefore }) }),
      ...(report.phase === undefined ? {} : { phase: report.phase }),
      ...(report.baseStep === undefined ? {} : { base_step: report.baseStep }),
      ...(report.jobId === undefined ? {} : { job_id: report.jobId }),
      ...(report.progress === undefined ? {} : { progress: JSON.stringify(report.progress) }),
      ...(report.endedStep === undefined ? {} : { step: report.endedStep, base_step: null, job_id: null, losses: 0 }),
    }
    if (report.end !== undefined) {
      const { error } = report.end
      await changeLoop(transaction, id, { ...change, ...endOf(error), hasEnded: true })
      await announceEnd(transaction, ids, loop, error === null ? 'succeeded' : 'failed')
      return 'stop'
    }
    const limit = report.phase === undefined ? null : reachedLimit(loop.spec.limits, since(spent, loop.spentBefore))
    const isPaused = report.phase !== undefined && (loop.isPauseAsked || limit !== null)
    if (isPaused) await notePause(transaction, ids, loop, limit)
    await changeLoop(transaction, id, isPaused ? { ...change, ...PAUSED } : change)
    return isPaused ? 'pause' : 'go'
  })
}

/** Ends a loop that no process has any more. */
export async function failLoop(
  db: DatabaseHandle,
  ids: Pick<IdSource, 'uuid'>,
  { id, attempt }: LoopAttempt,
  error: { readonly code: string; readonly message: string },
): Promise<void> {
  const event: NewEvent = { type: 'message', level: 'error', message: error.message, data: { code: error.code } }
  await writeReport(db, ids, { id, attempt }, { events: [event], end: { error } })
}

const PAUSED = { status: 'paused', phase: null, is_pause_asked: 0, lease_until_ms: null } as const

const endOf = (error: { readonly code: string; readonly message: string } | null): LoopChange =>
  error === null ? { status: 'succeeded' } : { status: 'failed', error_code: error.code, error_message: error.message }

async function notePause(
  db: Database,
  ids: Pick<IdSource, 'uuid'>,
  loop: StoredLoop,
  limit: string | null,
): Promise<void> {
  const said: NewEvent =
    limit === null
      ? { type: 'message', level: 'info', message: 'Loop paused', data: {} }
      : { type: 'message', level: 'warn', message: `Loop paused, ${limit}`, data: { code: 'limit_reached' } }
  await insertLoopEvent(db, loop.id, { id: ids.uuid(), ...said })
}

function add(spent: Spent, used: NonNullable<LoopReport['used']>): Spent {
  return {
    graderTokens: spent.graderTokens + (used.graderTokens ?? 0),
    seconds: spent.seconds + (used.seconds ?? 0),
    endpointCalls: spent.endpointCalls + (used.endpointCalls ?? 0),
    trainedTokens: spent.trainedTokens + (used.trainedTokens ?? 0),
  }
}

const since = (spent: Spent, before: Spent): Spent => ({
  graderTokens: spent.graderTokens - before.graderTokens,
  seconds: spent.seconds - before.seconds,
  endpointCalls: spent.endpointCalls - before.endpointCalls,
  trainedTokens: spent.trainedTokens - before.trainedTokens,
})
