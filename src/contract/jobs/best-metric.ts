/**
 * Which way a checkpoint metric is better. Names are all there is to go by: metrics are the user's own.
 */

const LOWER_IS_BETTER = /loss|error|exception|perplexity|kl_div/i

/** Whether the lowest value is the best: losses, errors, exceptions, perplexity and divergence; of everything else the highest is. */
export function isLowerBetter(metric: string): boolean {
  return LOWER_IS_BETTER.test(metric)
}
