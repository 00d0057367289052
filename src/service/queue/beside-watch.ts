/**
 * What a server does for other servers on the same database, which see a job's row only. It renews the leases of its
 * own living workers, and it takes jobs from workers on other machines that answer but make no progress, whichever
 * server they answer to.
 */
import type { IdSource } from '#base/util/ids.js'
import type { DatabaseHandle } from '#service/storage/database.js'
import { renewLeases } from '#service/storage/jobs/states.js'
import { releaseStalled } from './recovery.js'

export interface BesideWatchOptions {
  readonly db: DatabaseHandle
  readonly ids: IdSource
  /** A server that said nothing for so long is gone. */
  readonly serverLeaseMs: number
  /** Of the leases of this server's own workers. */
  readonly owner: string
  readonly timing: {
    readonly leaseMs: number
    readonly stallMs: number
    readonly backoffMs: number
    readonly sweepMs: number
  }
}

export interface BesideWatch {
  /** Another `sweepMs` have passed. */
  tick(): void
  /** The database was away, so that nobody could renew anything. */
  lost(): void
  /** Whether what others have may be judged by its leases: whoever lives has renewed them since the database is back. */
  mayJudge(): boolean
  /** Looks, if it is time. @param living jobs of workers of this machine @returns those that were taken from a worker that stands still */
  look(living: readonly string[]): Promise<readonly string[]>
}

export function createBesideWatch({ db, ids, owner, timing, serverLeaseMs }: BesideWatchOptions): BesideWatch {
  const { leaseMs, stallMs, backoffMs, sweepMs } = timing
  let upTicks = 0
  /** What a start finds the others have had time to renew. */
  let backTicks = Number.POSITIVE_INFINITY
  let ticks = 0
  return {
    tick: () => {
      upTicks += 1
      backTicks += 1
      ticks += 1
    },
    lost: () => {
      upTicks = 0
      backTicks = 0
    },
    mayJudge: () => backTicks * sweepMs > Math.max(leaseMs, serverLeaseMs),
    look: async (living) => {
      if (ticks * sweepMs < leaseMs / 3) return []
      ticks = 0
      await renewLeases(db, owner, { jobIds: living, leaseMs })
      // a server judges by what it could have seen itself
      return upTicks * sweepMs <= stallMs ? [] : releaseStalled(db, ids, { stallMs, backoffMs })
    },
  }
}
