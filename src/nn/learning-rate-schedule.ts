/**
 * Learning rate over a training run: linear warm-up, then half a cosine down to a floor.
 *
 * Sources: cosine without restarts, Loshchilov and Hutter (arXiv:1608.03983, equation 5); warm-up, Goyal et al.
 * (arXiv:1706.02677, section 2.2).
 */

export interface WarmupCosineOptions {
  /** Highest rate, reached at the end of the warm-up. */
  readonly peak: number
  /** Rate of the last step, as a share of `peak`; default 0. */
  readonly floor?: number
  readonly warmupSteps: number
  /** Steps of the whole run, warm-up included. */
  readonly totalSteps: number
}

/**
 * The rate of one step.
 *
 * @param step counted from 0; steps behind the last keep its rate
 * @returns where a single step follows the warm-up it has the peak, not the floor: a run of one step should learn
 */
export function warmupCosine(step: number, options: WarmupCosineOptions): number {
  const { peak, floor = 0, warmupSteps, totalSteps } = options
  const at = Math.min(step, totalSteps - 1)
  if (at < warmupSteps) return (peak * (at + 1)) / warmupSteps
  const span = Math.max(1, totalSteps - 1 - warmupSteps)
  const progress = (at - warmupSteps) / span
  return peak * (floor + ((1 - floor) * (1 + Math.cos(Math.PI * progress))) / 2)
}
