/**
 * The page's clock: the server's, as far as its answers tell, for times are the server's. Nothing else of the page reads the
 * time.
 */

/** Below it the two clocks agree: an answer takes a while. */
const TOLERATED_MS = 5000

let aheadMs = 0

/** Milliseconds since 1970. */
export function nowMs(): number {
  return Date.now() + aheadMs
}

/** Milliseconds that only go forward, for lengths of time. */
export function elapsedMs(): number {
  return performance.now()
}

/** @param date of an answer, as HTTP has it */
export function learnTime(date: string | null): void {
  const serverMs = Date.parse(date ?? '')
  if (Number.isNaN(serverMs)) return
  const difference = serverMs - Date.now()
  aheadMs = Math.abs(difference) > TOLERATED_MS ? difference : 0
}
