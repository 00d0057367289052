/**
 * When a choice ends by its token ids: end of sequence, stop ids, length, repetition; in this order.
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
  /** Absent or null: repetitions may go on. */
  readonly repetition?: RepetitionRules | null
}

/** Ends a choice whose last tokens are `minCount` copies of one pattern. */
export interface RepetitionRules {
  /** Tokens of a pattern, both inclusive. */
  readonly minPatternSize: number
  readonly maxPatternSize: number
  readonly minCount: number
}

/** What stands as the reason of an answer that was ended for repeating itself. */
export const REPETITION_DETECTED = 'repetition_detected'

/** How a choice ended. */
export interface StopResult {
  readonly finishReason: 'stop' | 'length' | 'repetition'
  /** The stop token id, or that a repetition was found; null for end of sequence and length. */
  readonly stopReason: number | typeof REPETITION_DETECTED | null
}

/**
 * Whether a choice ends with its newest token, the last of `outputIds`.
 *
 * @returns null to go on
 */
export function checkStop(rules: StopRules, outputIds: readonly number[]): StopResult | null {
  const tokenId = outputIds[outputIds.length - 1] ?? -1
  const isLongEnough = outputIds.length >= rules.minTokens
  if (isLongEnough) {
    if (!rules.ignoreEos && rules.eosTokenIds.has(tokenId)) return { finishReason: 'stop', stopReason: null }
    if (rules.stopTokenIds.has(tokenId)) return { finishReason: 'stop', stopReason: tokenId }
  }
  if (outputIds.length >= rules.maxTokens) return { finishReason: 'length', stopReason: null }
  const repetition = rules.repetition ?? null
  if (repetition === null || !isLongEnough || !repeats(outputIds, repetition)) return null
  return { finishReason: 'repetition', stopReason: REPETITION_DETECTED }
}

function repeats(ids: readonly number[], { minPatternSize, maxPatternSize, minCount }: RepetitionRules): boolean {
  for (let size = Math.max(1, minPatternSize); size <= maxPatternSize; size++) {
    const span = size * minCount
    if (span > ids.length) return false
    // A run of copies equals itself moved by one copy.
    let at = ids.length - 1
    const end = ids.length - span + size
    while (at >= end && ids[at] === ids[at - size]) at--
    if (at < end) return true
  }
  return false
}
