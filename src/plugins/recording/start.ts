/**
 * What recording does beside requests: rollouts whose time is over end, and those that ended go after as long as data of jobs.
 */
import type { PluginStart } from '#service/plugin.js'
import { inTransaction } from '#service/storage/in-transaction.js'
import { deleteOld, endRollout, listEntities, listOverdue, trimRollouts } from './storage/rollouts.js'

export interface RecordingStarted extends Pick<PluginStart, 'ask'> {
  /** A rollout of an entity ended. */
  noteEnd(entity: string): void
}

interface RecordingTuning {
  /** Between two looks. */
  readonly sweepMs: number
  /** Of an entity, what has ended: the newest ones. */
  readonly most: { readonly count: number; readonly sizeBytes: number }
}

/** A rollout that nobody can read any more would be worth nothing. */
const LEAST_KEPT_MS = 3_600_000
/** Ended in one transaction. */
const TOGETHER = 100
/** Rollouts of an entity that end before its limits are looked at. */
const TRIM_EVERY = 256

/** Starts it for a service; it ends with the service. */
export async function startRecording(core: PluginStart): Promise<RecordingStarted> {
  const { context, lifetimes, onDuty, ask, serviceSettings: settings } = core
  const { db, logger, requestSweep } = context
  const tuned: RecordingTuning = {
    sweepMs: 60_000,
    most: { count: 50_000, sizeBytes: settings.keepTrainingDataBytes },
    ...(core.tuning as Partial<RecordingTuning> | undefined),
  }
  const endedOf = new Map<string, number>()
  let sweeping: Promise<unknown> = Promise.resolve()

  async function sweep(): Promise<void> {
    for (;;) {
      const overdue = await listOverdue(db, TOGETHER)
      if (overdue.length === 0) break
      await inTransaction(db, async (transaction) => {
        for (const id of overdue) await endRollout(transaction, id, EXPIRED, null)
      })
    }
    const keepMs = Math.max(settings.keepTrainingDataMs, LEAST_KEPT_MS)
    let deleted = await inTransaction(db, (transaction) => deleteOld(transaction, keepMs))
    for (const entity of await listEntities(db)) deleted += await trim(entity)
    if (deleted > 0) requestSweep()
  }

  const trim = (entity: string): Promise<number> =>
    inTransaction(db, (transaction) => trimRollouts(transaction, entity, tuned.most))

  const look = (): void => {
    sweeping = onDuty('recording', sweep).catch((error: unknown) =>
      logger.error({ err: error }, 'recording.sweep_failed'),
    )
  }
  let timer: NodeJS.Timeout | null = null
  lifetimes.add('recording', async () => {
    if (timer !== null) clearInterval(timer)
    await sweeping
  })
  core.onListening(() => {
    timer = setInterval(look, tuned.sweepMs).unref()
  })
  return {
    ask,
    noteEnd: (entity) => {
      const ended = (endedOf.get(entity) ?? 0) + 1
      endedOf.set(entity, ended % TRIM_EVERY)
      if (ended % TRIM_EVERY !== 0) return
      sweeping = trim(entity).catch((error: unknown) => logger.error({ err: error }, 'recording.trim_failed'))
    },
  }
}

const EXPIRED = { status: 'expired', result: null, body: null } as const
