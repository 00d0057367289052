/**
 * Shared memory through which a grammar's thread hands masks to the engine's thread: one mask at a time, numbered.
 *
 * Layout, in 32-bit words: the number of the newest mask, its state, then ceil(V / 32) words of the mask.
 */

/** What a numbered mask says. */
export const MASK_STATE = { allowed: 1, failed: 2 } as const

const HEADER_WORDS = 2

export interface MaskBuffer {
  readonly memory: SharedArrayBuffer
  /** [number, state] */
  readonly header: Int32Array
  readonly words: Uint32Array
}

/** @param memory another thread's buffer; absent: a new one */
export function createMaskBuffer(vocabularySize: number, memory?: SharedArrayBuffer): MaskBuffer {
  const wordCount = Math.ceil(vocabularySize / 32)
  const shared = memory ?? new SharedArrayBuffer(4 * (HEADER_WORDS + wordCount))
  return {
    memory: shared,
    header: new Int32Array(shared, 0, HEADER_WORDS),
    words: new Uint32Array(shared, 4 * HEADER_WORDS, wordCount),
  }
}

/** Publishes mask `number`; `words` have been written before. */
export function publishMask(buffer: MaskBuffer, number: number, state: number): void {
  Atomics.store(buffer.header, 1, state)
  Atomics.store(buffer.header, 0, number)
  Atomics.notify(buffer.header, 0)
}

/**
 * Waits for mask `number`, blocking this thread.
 *
 * @returns its state, or null if it did not come in time
 */
export function awaitMask(buffer: MaskBuffer, number: number, timeoutMs: number): number | null {
  for (;;) {
    const newest = Atomics.load(buffer.header, 0)
    if (newest === number) return Atomics.load(buffer.header, 1)
    if (Atomics.wait(buffer.header, 0, newest, timeoutMs) === 'timed-out') return null
  }
}
