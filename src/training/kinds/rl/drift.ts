/**
 * The distance of a sampler's log-probability from the trainer's, as reports and metrics use it.
 *
 * Bounded as the loss bounds it (`numerics/nn/policy-loss.ts`), so that its exponential is a number that JSON has.
 */
import { MAX_LOG_RATIO } from '#numerics/nn/policy-loss.js'

/** @param drift the trainer's minus the sampler's, nats; NaN stays NaN */
export function boundedDrift(drift: number): number {
  return Math.min(MAX_LOG_RATIO, Math.max(-MAX_LOG_RATIO, drift))
}
