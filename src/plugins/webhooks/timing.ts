/**
 * When deliveries are made, and made again.
 */

export interface OutboxTiming {
  /** Between two looks for new events, and for deliveries that are due. */
  readonly pollMs: number
  /** Waits after the first, second … failed attempt; after the last one the delivery has failed. */
  readonly retryMs: readonly number[]
  readonly timeoutMs: number
}

/** The waits Standard Webhooks proposes: two days in all. */
export const DEFAULT_OUTBOX_TIMING: OutboxTiming = {
  pollMs: 1000,
  retryMs: [5_000, 300_000, 1_800_000, 7_200_000, 18_000_000, 36_000_000, 50_400_000, 72_000_000],
  /** Longest wait for an answer, connection included. */
  timeoutMs: 15_000,
}
