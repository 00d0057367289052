/**
 * What a running job has settled and holds to, also when it goes on in another attempt.
 *
 * Kept in resume points. The report tells of them and is never asked for them.
 */

/** Sampler against trainer over some tokens. */
export interface Mismatch {
  readonly tokens: number
  /** Mean of exp(x) - x - 1 with x the trainer's minus the sampler's: an estimate of KL(sampler || trainer), nats. */
  readonly kl: number
  /** Percentiles of exp(x). */
  readonly ratioP01: number
  readonly ratioP50: number
  readonly ratioP99: number
  /** Share of tokens whose ratio lies outside the clip range of the loss. */
  readonly clippedShare: number
}

/** Whose log-probabilities an RL job takes as the old ones, settled by its first optimizer step. */
export interface SamplerDecision extends Mismatch {
  /** The trainer computed them again although nobody asked. */
  readonly isRecomputed: boolean
}

/** Changed in place by the job that makes them. */
export interface JobDecisions {
  /** Null before the first step, and where no token carries the sampler's log-probability. */
  sampler: SamplerDecision | null
}

/** Nothing settled yet. */
export function createDecisions(): JobDecisions {
  return { sampler: null }
}

/** The measurement as figures of the job's report. */
export function mismatchFacts(decision: SamplerDecision): Readonly<Record<string, number>> {
  return {
    tokens: decision.tokens,
    kl: decision.kl,
    ratio_p01: decision.ratioP01,
    ratio_p50: decision.ratioP50,
    ratio_p99: decision.ratioP99,
    clipped_share: decision.clippedShare,
    recomputed: decision.isRecomputed ? 1 : 0,
  }
}

/** The decision that figures of a report were written from, as resume points of earlier versions hold them. */
export function decisionOf(facts: Readonly<Record<string, number>>): SamplerDecision {
  const figure = (name: string): number => facts[name] ?? 0
  return {
    tokens: figure('tokens'),
    kl: figure('kl'),
    ratioP01: figure('ratio_p01'),
    ratioP50: figure('ratio_p50'),
    ratioP99: figure('ratio_p99'),
    clippedShare: figure('clipped_share'),
    isRecomputed: facts['recomputed'] === 1,
  }
}
