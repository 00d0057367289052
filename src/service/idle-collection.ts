/**
 * Gives back the JavaScript memory that a burst of requests leaves behind.
 *
 * V8 collects when a heap grows, so a server that falls quiet keeps the garbage of its last busy seconds: after 208
 * submissions of 3.3 MB beside 64 chats, 25 to 30 MB were in use and 30 to 80 MB were held. V8 itself collects an idle
 * heap only if it has grown since the last collection. So a timer looks every few seconds and collects when the event
 * loop is mostly idle and the heap has grown.
 */
import { performance } from 'node:perf_hooks'
import { getHeapStatistics } from 'node:v8'
import { collectGarbage } from '#base/machine/collect-garbage.js'

export interface IdleCollectionOptions {
  /** How often it looks; a collection takes 20 to 50 ms. Default 15 s. */
  readonly checkMs?: number
  /** Least growth since the last collection, bytes. Default 12 MiB. */
  readonly leastGrowthBytes?: number
}

export interface IdleCollection {
  /** How often it has collected. */
  count(): number
  stop(): void
}

/** Share of the time since the last look in which the event loop ran; beyond it V8 is left to collect as it goes. */
const QUIET_SHARE = 0.25
/** A collection takes longer the more there is to keep: then more must have been added, as a share of that. */
const GROWTH_SHARE = 0.25

/** Looks after this thread's heap until it is stopped; does not keep the process alive. */
export function startIdleCollection(options: IdleCollectionOptions = {}): IdleCollection {
  const { checkMs = 15_000, leastGrowthBytes = 12 * 1024 ** 2 } = options
  let seen = performance.eventLoopUtilization()
  // what a start leaves behind is worth a look, too
  let keptBytes = 0
  let count = 0
  const timer = setInterval(() => void look(), checkMs).unref()

  async function look(): Promise<void> {
    const now = performance.eventLoopUtilization()
    const { utilization } = performance.eventLoopUtilization(now, seen)
    seen = now
    const heldBytes = getHeapStatistics().total_physical_size
    // V8 gives pages back some time after a collection
    keptBytes = Math.min(keptBytes, heldBytes)
    if (utilization > QUIET_SHARE) return
    if (heldBytes < keptBytes + Math.max(leastGrowthBytes, GROWTH_SHARE * keptBytes)) return
    try {
      await collectGarbage()
      count += 1
    } catch {
      // this Node has no inspector, or may not use it: V8 goes on alone
      clearInterval(timer)
    }
    keptBytes = getHeapStatistics().total_physical_size
  }

  return { count: () => count, stop: () => clearInterval(timer) }
}
