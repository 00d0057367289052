/**
 * When a choice ends by its token ids: end of sequence, stop ids, length; in this order.
 *
 * Stop strings are matched on text and belong to the engine host (`stop-strings.ts` there).
 * The order of the rules is vLLM's (v0.17).
 */

/** The rules of one request. */
export interface StopRules {
  readonly eosTokenIds: ReadonlySet<number>
  readonly ignoreEos: boolean
  readonly stopTokenIds: ReadonlySet<number>
  readonly minTokens: number
  /** Largest number of output tokens: the request's limit or what the context leaves. */
  readonly maxTokens: number
}

/** How a choice ended. */
export interface StopResult {
  readonly finishReason: 'stop' | 'length'
  /** The stop token id; null for end of sequence and length. */
  readonly stopReason: number | null
}

/**
 * Whether a choice ends with its newest token.
 *
 * @param outputCount output tokens including the newest
 * @returns null to go on
 */
export function checkStop(rules: StopRules, tokenId: number, outputCount: number): StopResult | null {
  if (outputCount >= rules.minTokens) {
    if (!rules.ignoreEos && rules.eosTokenIds.has(tokenId)) return { finishReason: 'stop', stopReason: null }
    if (rules.stopTokenIds.has(tokenId)) return { finishReason: 'stop', stopReason: tokenId }
  }
  return outputCount >= rules.maxTokens ? { finishReason: 'length', stopReason: null } : null
}
