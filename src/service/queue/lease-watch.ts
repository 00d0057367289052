/**
 * Leases of running jobs: those of this server's own workers are renewed while their processes live, those that are over end
 * their attempts.
 *
 * A server among others, which see a job's row only, does more: it renews before a lease is over, waits after an outage
 * until the others could renew theirs, and takes jobs from workers of other machines that answer but make no progress,
 * whichever server they answer to.
 */
import type { IdSource } from '#base/util/ids.js'
import type { DatabaseHandle } from '#service/storage/database.js'
import { renewLeases } from '#service/storage/jobs/states.js'
import type { Peers } from './peers.js'
import { expireLeases, releaseStalled } from './recovery.js'

interface LeaseWatchOptions {
  readonly db: DatabaseHandle
  readonly ids: IdSource
  readonly peers: Pick<Peers, 'id' | 'isShared' | 'leaseMs' | 'onMissed'>
  /** Owner of the leases of this server's own workers. */
  readonly owner: string
  readonly timing: {
    readonly leaseMs: number
    readonly stallMs: number
    readonly backoffMs: number
    readonly sweepMs: number
  }
}

/** Jobs by what a look did with their leases. */
interface LeaseLook {
  /** Jobs taken from workers of other machines that stood still. */
  readonly stalled: readonly string[]
  /** Jobs whose lease is over and whose worker is not known to live. */
  readonly lost: readonly string[]
  /** Jobs whose lease was over by the clock alone. */
  readonly renewed: readonly string[]
}

export interface LeaseWatch {
  /** Time has passed: another `sweepMs`. */
  tick(): void
  /** The database was away, so that nobody could renew anything. */
  lost(): void
  /** Judges all leases. @param alive attempts of workers of this machine */
  look(alive: readonly { readonly jobId: string; readonly attempt: number }[]): Promise<LeaseLook>
}

export function createLeaseWatch({ db, ids, owner, timing, peers }: LeaseWatchOptions): LeaseWatch {
  const { leaseMs, stallMs, backoffMs, sweepMs } = timing
  let upTicks = 0
  /** Leases that a start finds, the others have had time to renew. */
  let backTicks = Number.POSITIVE_INFINITY
  let ticks = 0

  function lost(): void {
    upTicks = 0
    backTicks = 0
  }

  async function lookAtStalled(alive: readonly string[]): Promise<readonly string[]> {
    if (!peers.isShared || ticks * sweepMs < leaseMs / 3) return []
    ticks = 0
    await renewLeases(db, owner, { jobIds: alive, leaseMs })
    // a server judges by what it could have seen itself
    return upTicks * sweepMs <= stallMs ? [] : releaseStalled(db, ids, { stallMs, backoffMs })
  }

  peers.onMissed(lost)
  return {
    lost,
    tick: () => {
      upTicks += 1
      backTicks += 1
      ticks += 1
    },
    look: async (alive) => {
      const stalled = await lookAtStalled(alive.map(({ jobId }) => jobId))
      const mayJudgeOthers = !peers.isShared || backTicks * sweepMs > Math.max(leaseMs, peers.leaseMs)
      const serverId = peers.id ?? undefined
      return { stalled, ...(await expireLeases(db, ids, { alive, leaseMs, serverId, mayJudgeOthers })) }
    },
  }
}
