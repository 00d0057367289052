/**
 * How a beam search ranks answers (`beam-search.ts`).
 */

export interface BeamRules {
  /** Exponent of the length by which the sum of log-probabilities is divided; above 0 longer answers gain. */
  readonly lengthPenalty: number
}
