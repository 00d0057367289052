/**
 * Limits how many requests for answers may wait between the arrival of their body and the start of their answer. The
 * engine keeps the exact count; this refuses the surplus before any work is done.
 *
 * Node accepts one connection in each round of its event loop. In a burst, work for the requests let in makes every
 * round long, and a client to be refused would hear of it only after all before it were served. So that work waits
 * until no more requests arrive, at most for a moment. A client on the same processor makes pauses of its own: once the
 * engine has enough to do, only a longer pause ends a burst.
 */
import type { AppError } from '#base/errors/errors.js'
import type { Admission, RequestContext } from './environment.js'
import { connectionOf } from './event-stream.js'

/** Arrivals in as many rounds on end are a burst. */
const BURST_ROUNDS = 4
/** Requests looked at in a round without arrivals, and the time after which they are looked at in any round. */
const PER_ROUND = 8
const MOST_WAIT_MS = 500
/** Without arrivals for so long a burst is over, where this part of the limit has been let in. */
const PAUSE_MS = 5
const ENOUGH = 1 / 8

/**
 * @param most requests that may be let in
 * @param refuse what the others are told
 */
export function createAdmission(most: () => number, refuse: (most: number) => AppError): Admission {
  const waiting: { readonly sinceMs: number; readonly resume: () => void }[] = []
  const entered = new Set<RequestContext>()
  let arrivals = 0
  let lastArrivalMs = 0
  let rounds = 0
  let isWatching = false

  function watch(): void {
    isWatching = true
    setImmediate(round)
  }

  /** Behind what arrived in this round of the event loop. */
  function round(): void {
    const nowMs = performance.now()
    const hasEnough = entered.size - waiting.length >= ENOUGH * most()
    const isQuiet = arrivals === 0 && (!hasEnough || nowMs - lastArrivalMs > PAUSE_MS)
    if (arrivals > 0) rounds++
    else if (isQuiet) rounds = 0
    arrivals = 0
    const [oldest] = waiting
    const isLate = oldest !== undefined && nowMs - oldest.sinceMs > MOST_WAIT_MS
    const count = isQuiet ? PER_ROUND : isLate ? 1 : 0
    for (const { resume } of waiting.splice(0, count)) resume()
    if (isQuiet && waiting.length === 0) isWatching = false
    else watch()
  }

  return {
    enter: async (c) => {
      const connection = connectionOf(c)
      // only tests call an application without a port
      if (connection === null) return
      const limit = most()
      if (entered.size >= limit) throw refuse(limit)
      entered.add(c)
      connection.once('close', () => entered.delete(c))
      arrivals++
      lastArrivalMs = performance.now()
      if (!isWatching) watch()
      if (rounds < BURST_ROUNDS && waiting.length === 0) return
      await new Promise<void>((resume) => waiting.push({ sinceMs: performance.now(), resume }))
    },
    leave: (c) => void entered.delete(c),
  }
}
