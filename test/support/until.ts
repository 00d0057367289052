/**
 * Waiting in tests: for a condition, with a limit that only ends what never comes; it says nothing of how fast things go.
 */
import { setImmediate as nextTurn, setTimeout as sleep } from 'node:timers/promises'

/** Below the time of an integration test, so that the error says what did not happen. */
const MOST_MS = 100_000

/**
 * Asks again and again until there is a value other than null, undefined and false.
 *
 * @param what names the condition in the error
 * @param pauseMs between two questions
 */
export async function until<T>(
  probe: () => T | Promise<T>,
  what: string,
  mostMs = MOST_MS,
  pauseMs: () => number = () => 10,
): Promise<Exclude<T, null | undefined | false>> {
  const deadline = performance.now() + mostMs
  for (;;) {
    const value = await probe()
    if (value !== null && value !== undefined && value !== false) {
      return value as Exclude<T, null | undefined | false>
    }
    if (performance.now() > deadline) throw new Error(`timed out: ${what}`)
    await sleep(pauseMs())
  }
}

/**
 * Lets a server in this process take what was sent to it: the loop turns often enough, however little time passes or however
 * much. What was written to a socket of this machine before is in the server's hands then.
 */
export async function loopTurns(count = 100): Promise<void> {
  for (let turn = 0; turn < count; turn += 1) await nextTurn()
  await sleep(20)
  for (let turn = 0; turn < count; turn += 1) await nextTurn()
}

/** Waits for the next day (UTC) where this one is about to end. */
export async function awayFromMidnight(leastMs = 120_000): Promise<void> {
  const leftMs = 86_400_000 - (Date.now() % 86_400_000)
  if (leftMs < leastMs) await sleep(leftMs + 1000)
}
