/**
 * The numbers a preference step reports, under TRL's names: an answer's implicit reward is beta times its gain in
 * log-probability over the reference.
 */
import type { DpoHyperparameters } from './dpo-hyperparameters.js'
import type { AnswerLogps } from './dpo-rows.js'

/** Means over the pairs of a batch. */
export interface PreferenceMeasures {
  readonly loss: number
  readonly metrics: Readonly<Record<string, number>>
}

/**
 * Computes them.
 *
 * @param policy log-probabilities of the answers under the policy, `reference` under the reference (zeros without one)
 */
export function preferenceMeasures(
  policy: AnswerLogps,
  reference: AnswerLogps,
  { beta, labelSmoothing }: Pick<DpoHyperparameters, 'beta' | 'labelSmoothing'>,
): PreferenceMeasures {
  const count = policy.chosen.length
  const mean = (read: (pair: number) => number): number => {
    let sum = 0
    for (let pair = 0; pair < count; pair++) sum += read(pair)
    return sum / count
  }
  const chosen = (pair: number): number => beta * ((policy.chosen[pair] ?? 0) - (reference.chosen[pair] ?? 0))
  const rejected = (pair: number): number => beta * ((policy.rejected[pair] ?? 0) - (reference.rejected[pair] ?? 0))
  const margin = (pair: number): number => chosen(pair) - rejected(pair)
  return {
    loss: mean((pair) => (1 - labelSmoothing) * softplus(-margin(pair)) + labelSmoothing * softplus(margin(pair))),
    metrics: {
      'rewards/chosen': mean(chosen),
      'rewards/rejected': mean(rejected),
      'rewards/accuracies': mean((pair) => (margin(pair) > 0 ? 1 : 0)),
      'rewards/margins': mean(margin),
      'logps/chosen': mean((pair) => policy.chosen[pair] ?? 0),
      'logps/rejected': mean((pair) => policy.rejected[pair] ?? 0),
    },
  }
}

/** log(1 + exp(x)) without overflow: -logsigmoid(-x). */
function softplus(x: number): number {
  return Math.max(x, 0) + Math.log1p(Math.exp(-Math.abs(x)))
}
