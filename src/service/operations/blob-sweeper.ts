/**
 * Frees the space of blobs that no row names any more: in the background, an hour apart, and sooner after something was deleted.
 *
 * What is deleted cannot be brought back, so a blob goes only if this database had it (`storage/upkeep/unnamed-blobs.ts`), two sweeps
 * saw it unnamed, the grace passed since the first of them, and its file is older than the grace. What served one job alone (its
 * input, the points it goes on from) is large and made all the time: minutes are its grace.
 */

import type { Logger } from '#base/logging/logger.js'
import type { Clock } from '#base/util/clock.js'
import type { BlobStore } from '#service/storage/blobs.js'
import type { DatabaseHandle } from '#service/storage/database.js'
import { inTransaction } from '#service/storage/in-transaction.js'
import { listReferencedBlobs } from '#service/storage/upkeep/blob-references.js'
import {
  extendRun,
  forgetUnnamedBlob,
  knowledgeOf,
  listRuns,
  listUnnamedBlobs,
  putUnnamedBlob,
  startRun,
  type UnnamedBlob,
} from '#service/storage/upkeep/unnamed-blobs.js'

/** How long a blob stays that nothing names and that served one job alone; covers adapters of requests that were just admitted. */
const TRANSIENT_GRACE_MS = 120_000
const PAUSE_MS = 3_600_000
/** Blobs deleted between two looks at what is named. */
const BATCH = 100

export interface SweepResult {
  readonly removed: number
  /** Unnamed blobs that wait for their grace. */
  readonly waiting: number
  /** Of these, those that served one job alone. */
  readonly waitingOfJobs: number
  /** Unnamed blobs that this database never had: they stay. */
  readonly foreign: number
}

export interface BlobSweeper {
  /** Notes that a server works with this database from now on; sweeps now and once an hour. */
  start(lastKnownMs: number): Promise<void>
  /** Sweeps soon: something was deleted. */
  request(): void
  sweep(): Promise<SweepResult>
  stop(): Promise<void>
}

export interface BlobSweeperOptions {
  readonly db: DatabaseHandle
  readonly blobs: BlobStore
  readonly clock: Clock
  /** What times of rows are compared with. Default: the clock of this machine. */
  readonly readNowMs?: () => Promise<number>
  readonly logger: Logger
  /** How long a blob stays that nothing names. */
  readonly graceMs: number
  readonly transientGraceMs?: number | undefined
  /** Does what one of several servers does at a time; null while another does it. Default: there is no other. */
  readonly onDuty?: <T>(action: () => Promise<T>) => Promise<T | null>
  /** Called before each sweep of the background. */
  readonly beforeSweep?: () => Promise<void>
  /** Called before it is noted until when this run knew the store. */
  readonly beforeEnd?: () => Promise<void>
}

export function createBlobSweeper(options: BlobSweeperOptions): BlobSweeper {
  const { db, blobs, clock, logger } = options
  const { graceMs, onDuty = (action) => action(), readNowMs = async () => clock.nowMs() } = options
  const transientGraceMs = Math.min(graceMs, options.transientGraceMs ?? TRANSIENT_GRACE_MS)
  let runId: number | null = null
  let timer: NodeJS.Timeout | null = null
  let timerEndsMs = Number.POSITIVE_INFINITY
  let running: Promise<void> = Promise.resolve()
  let isStopped = false

  async function sweep(): Promise<SweepResult> {
    const nowMs = await readNowMs()
    if (runId !== null) await extendRun(db, runId, nowMs)
    // another server sweeps: what it leaves, the next sweep sees
    return (await onDuty(() => sweepAt(nowMs))) ?? { removed: 0, waiting: 0, waitingOfJobs: 0, foreign: 0 }
  }

  async function sweepAt(nowMs: number): Promise<SweepResult> {
    const named = await listReferencedBlobs(db)
    const noted = await listUnnamedBlobs(db)
    const runs = await listRuns(db)
    const found = new Set<string>()
    const due: { readonly sha256: string; readonly graceMs: number }[] = []
    const first: UnnamedBlob[] = []
    let waitingOfJobs = 0
    let foreign = 0
    for await (const sha256 of blobs.list()) {
      if (named.has(sha256)) continue
      const facts = await blobs.factsOf(sha256)
      if (facts === null) continue
      const known = knowledgeOf(sha256, facts.modifiedAtMs, { noted: noted.get(sha256), runs, nowMs })
      if (known === null) {
        foreign += 1
        continue
      }
      found.add(sha256)
      const ownGraceMs = known.isTransient ? transientGraceMs : graceMs
      // a time in the future is of a clock that was set back since
      const isFirst = known.seenAtMs === null || known.seenAtMs > nowMs
      const isDue = !isFirst && nowMs - (known.seenAtMs ?? nowMs) >= ownGraceMs
      if (isFirst) first.push({ ...known, seenAtMs: nowMs })
      if (isDue) due.push({ sha256, graceMs: ownGraceMs })
      else if (known.isTransient) waitingOfJobs += 1
    }
    const gone = [...noted.keys()].filter((sha256) => !found.has(sha256))
    if (first.length + gone.length > 0) {
      await inTransaction(db, async (transaction) => {
        for (const blob of first) await putUnnamedBlob(transaction, blob)
        for (const sha256 of gone) await forgetUnnamedBlob(transaction, sha256)
      })
    }
    const removed = await removeAll(due)
    if (removed > 0) logger.info({ removed_blobs: removed }, 'storage.swept')
    if (foreign > 0) logger.warn({ blobs: foreign }, 'storage.foreign_blobs_kept')
    return { removed, waiting: found.size - removed, waitingOfJobs, foreign }
  }

  async function removeAll(due: readonly { readonly sha256: string; readonly graceMs: number }[]): Promise<number> {
    let removed = 0
    for (let at = 0; at < due.length && !isStopped; at += BATCH) {
      // A store may be far away, so nobody is kept from writing rows meanwhile: who writes one that names such a blob has stored its
      // bytes just before, and the store leaves alone what is that young
      const named = await listReferencedBlobs(db)
      const gone: string[] = []
      for (const { sha256, graceMs: ownGraceMs } of due.slice(at, at + BATCH)) {
        if (isStopped) break
        if (!named.has(sha256) && (await blobs.removeOlderThan(sha256, ownGraceMs))) gone.push(sha256)
      }
      await inTransaction(db, async (transaction) => {
        for (const sha256 of gone) await forgetUnnamedBlob(transaction, sha256)
      })
      removed += gone.length
    }
    return removed
  }

  /** Sweeps in `waitMs`, or sooner if that was planned. */
  function plan(waitMs: number): void {
    const endsMs = clock.monotonicMs() + waitMs
    if (isStopped || endsMs >= timerEndsMs) return
    if (timer !== null) clearTimeout(timer)
    timerEndsMs = endsMs
    timer = setTimeout(() => {
      timer = null
      timerEndsMs = Number.POSITIVE_INFINITY
      running = running.then(sweepInBackground)
    }, waitMs).unref()
  }

  async function sweepInBackground(): Promise<void> {
    if (isStopped) return
    try {
      await options.beforeSweep?.()
      // what served one job is looked at again when its minutes are over
      if ((await sweep()).waitingOfJobs > 0) plan(transientGraceMs + 1000)
    } catch (error) {
      logger.error({ err: error }, 'storage.sweep_failed')
    }
    plan(PAUSE_MS)
  }

  return {
    sweep,
    start: async (lastKnownMs) => {
      runId = await startRun(db, await readNowMs(), lastKnownMs)
      const { waitingOfJobs } = await sweep()
      plan(waitingOfJobs > 0 ? transientGraceMs + 1000 : PAUSE_MS)
    },
    request: () => plan(transientGraceMs + 1000),
    stop: async () => {
      isStopped = true
      if (timer !== null) clearTimeout(timer)
      await running
      try {
        await options.beforeEnd?.()
        if (runId !== null) await extendRun(db, runId, await readNowMs())
      } catch (error) {
        // a full disk, or a directory that is gone: the server ends all the same, and less is known, so less is ever deleted
        logger.warn({ err: error }, 'storage.run_not_noted')
      }
    },
  }
}
