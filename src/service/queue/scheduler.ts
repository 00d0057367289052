/**
 * The loop of the queue: a free worker and a fair turn start work; where no worker is free, fairness says what gives one back.
 *
 * Workers of this machine are looked at first, then those of other machines that wait, the longest first. One look at a
 * time; whoever wakes it meanwhile has another one follow. What becomes of started work is for its source to watch.
 */
import { fairTurn, type WorkKind } from './fairness.js'
import type { ClaimedWork, FreeWorker, WorkerPool, WorkSource } from './work.js'

interface SchedulerOptions {
  readonly sources: readonly WorkSource[]
  readonly pools: readonly WorkerPool[]
  /** See `fairTurn`. */
  readonly turnMs: number
  /** Judges what runs, before anything is started. */
  readonly judge: () => Promise<void>
  /** A look failed, or did not: then null. */
  readonly onLook: (error: unknown) => void
}

interface Scheduler {
  /** Looks for work, now or after the look that is under way. */
  wake(): void
  /** Starts nothing more; resolves when nothing is being started. */
  stop(): Promise<void>
}

export function createScheduler({ sources, pools, turnMs, judge, onLook }: SchedulerOptions): Scheduler {
  /** Kinds of work that had the last turn, by pool. */
  const last = new Map<WorkerPool, WorkKind>()
  let isStopped = false
  let isWoken = false
  let looking: Promise<void> | null = null

  /** Kinds in fair order, until one has something for this worker. */
  async function claim(worker: FreeWorker, pool: WorkerPool): Promise<ClaimedWork | null> {
    const waiting = new Set(sources.map(({ kind }) => kind))
    for (;;) {
      const turn = fairTurn({ isWorkerFree: true, waiting, last: last.get(pool) ?? null, held: [], turnMs })
      if (turn?.action !== 'start') return null
      const claimed = await sources.find(({ kind }) => kind === turn.kind)?.claim(worker)
      if (claimed != null) return claimed
      waiting.delete(turn.kind)
    }
  }

  async function fill(pool: WorkerPool): Promise<void> {
    const idle = new Set<string>()
    while (!isStopped) {
      const worker = await pool.free(idle)
      if (worker === null) return
      const claimed = await claim(worker, pool)
      if (claimed === null) {
        idle.add(worker.group)
        continue
      }
      last.set(pool, claimed.work.kind)
      const running = pool.start(worker, claimed.work)
      if (running === null) await claimed.giveBack()
      else claimed.begin(running)
    }
  }

  async function preempt(pool: WorkerPool): Promise<void> {
    for (const worker of isStopped ? [] : pool.taken()) {
      const held = sources.flatMap((source) => source.preemptible(worker.remoteId))
      if (held.length === 0) continue
      const waiting = new Set<WorkKind>()
      for (const source of sources) if (await source.isWaiting(worker)) waiting.add(source.kind)
      const turn = fairTurn({ isWorkerFree: false, waiting, last: null, held, turnMs })
      if (turn?.action === 'preempt') turn.work.close()
    }
  }

  async function look(): Promise<void> {
    await judge()
    for (const pool of pools) {
      await fill(pool)
      await preempt(pool)
    }
  }

  async function run(): Promise<void> {
    while (isWoken && !isStopped) {
      isWoken = false
      await look().then(() => onLook(null), onLook)
    }
  }

  return {
    wake: () => {
      if (isStopped) return
      isWoken = true
      looking ??= run().finally(() => {
        looking = null
      })
    },
    stop: async () => {
      isStopped = true
      await looking
    },
  }
}
