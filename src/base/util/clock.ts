/**
 * The clock. Nothing else reads the time; it is injected everywhere, so that tests can control it.
 */

/** Milliseconds since the Unix epoch, and a monotonic counter for durations. */
export interface Clock {
  /** Wall-clock time, milliseconds since 1970-01-01T00:00:00Z. */
  nowMs(): number
  /** Monotonic time for durations, milliseconds from an arbitrary origin. */
  monotonicMs(): number
}

/** The machine's clock. */
export const systemClock: Clock = {
  nowMs: () => Date.now(),
  monotonicMs: () => performance.now(),
}
