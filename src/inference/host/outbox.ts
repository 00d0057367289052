/**
 * What a host says, as few messages: all of one step as one, and of steps that follow each other within milliseconds several.
 *
 * A message costs the engine's thread and the server's some 0.1 ms each, and a small model makes a step in one. So a text that goes on is
 * held back until `holdMs` behind the last message, or until the step that runs then has ended, which may be one of a long prompt. The first
 * part of an answer, its end and all else goes at once, and takes along what was held. Order is kept.
 */
import type { Clock } from '#base/util/clock.js'
import type { HostEvent, HostEvents } from './protocol.js'

/** Nobody sees it, and whoever reads a stream by machine has it in the next message. */
const HOLD_MS = 4

export interface OutboxOptions {
  readonly post: (events: HostEvents) => void
  readonly clock: Clock
  /** Default 4. */
  readonly holdMs?: number
}

/** @returns takes what is said */
export function createOutbox({ post, clock, holdMs = HOLD_MS }: OutboxOptions): (event: HostEvent) => void {
  let unsent: HostEvent[] = []
  let isDue = false
  let held: NodeJS.Timeout | null = null
  let lastMs = Number.NEGATIVE_INFINITY
  /** Requests whose answer has begun. */
  const begun = new Set<string>()

  function flush(): void {
    const events: HostEvents = unsent
    unsent = []
    isDue = false
    if (held !== null) clearTimeout(held)
    held = null
    lastMs = clock.monotonicMs()
    post(events)
  }

  return (event) => {
    unsent.push(event)
    const mayWait = goesOn(event, begun)
    if (isDue) return
    const waitMs = mayWait ? lastMs + holdMs - clock.monotonicMs() : 0
    if (waitMs > 0) {
      held ??= setTimeout(flush, waitMs)
      return
    }
    // what else this step says comes in the same turn
    isDue = true
    queueMicrotask(flush)
  }
}

/** Whether it is the next part of an answer, and not its last. Keeps count of the answers that have begun. */
function goesOn(event: HostEvent, begun: Set<string>): boolean {
  if (event.type === 'finished' || event.type === 'failed') {
    if (event.id !== null) begun.delete(event.id)
    return false
  }
  if (event.type !== 'delta' || event.finishReason !== null) return false
  if (begun.has(event.id)) return true
  begun.add(event.id)
  return false
}
