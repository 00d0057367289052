/**
 * What changes a row of logits before a token is sampled (`logits-processors.ts` has them all).
 */

/** Edits the logits of the next token of one choice. */
export interface LogitsProcessor {
  /** Fields of the request that it comes from. */
  readonly fields: readonly string[]
  /** It makes tokens impossible, and leaves the others as they are. */
  readonly onlyForbids: boolean
  /**
   * @param outputIds tokens generated so far
   * @returns whether it had anything to do with the next token
   */
  apply(logits: Float32Array, outputIds: readonly number[]): boolean
}
