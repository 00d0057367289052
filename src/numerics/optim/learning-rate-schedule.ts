/**
 * Learning rate over a training run: linear warm-up, the peak for a while if wanted, then half a cosine down to a floor.
 *
 * Sources: cosine without restarts, Loshchilov and Hutter (arXiv:1608.03983, equation 5); warm-up, Goyal et al.
 * (arXiv:1706.02677, section 2.2); a long stable phase before a short decay, Hu et al. (arXiv:2404.06395, section 4): the
 * length of the run need not be known until the decay begins.
 */

export interface WarmupCosineOptions {
  /** Highest rate, reached at the end of the warm-up. */
  readonly peak: number
  /** Rate of the last step, as a share of `peak`; default 0. */
  readonly floor?: number
  readonly warmupSteps: number
  /** Steps of the whole run, warm-up included. */
  readonly totalSteps: number
  /** Steps at the end over which the rate falls; the peak holds before them. Default: all that follow the warm-up. */
  readonly decaySteps?: number
}

/**
 * The rate of one step.
 *
 * @param step counted from 0; steps after the last keep its rate
 * @returns if only one step follows the warm-up, it gets the peak, not the floor: a run of one step should learn
 */
export function warmupCosine(step: number, options: WarmupCosineOptions): number {
  const { peak, floor = 0, warmupSteps, totalSteps } = options
  const at = Math.min(step, totalSteps - 1)
  if (at < warmupSteps) return (peak * (at + 1)) / warmupSteps
  const decaySteps = Math.min(options.decaySteps ?? Infinity, totalSteps - warmupSteps)
  const progress = Math.max(0, at - (totalSteps - decaySteps)) / Math.max(1, decaySteps - 1)
  return peak * (floor + ((1 - floor) * (1 + Math.cos(Math.PI * progress))) / 2)
}
