/**
 * The numbers a preference step reports, under TRL's names: an answer's implicit reward is beta times its gain in
 * log-probability over the reference. Log-probabilities are those of the loss: sums over tokens, or means where it averages.
 */
import { evaluateFormula } from '#base/formula/evaluate.js'
import { assertNever } from '#base/util/assert-never.js'
import { isAveraged, MAX_MEAN_LOGP, type PreferenceLossOptions } from '#numerics/nn/preference-loss.js'
import { type AnswerLogps, meanLogps } from './dpo-rows.js'

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
  options: PreferenceLossOptions,
): PreferenceMeasures {
  const { loss, beta, sftWeight } = options
  const count = policy.chosen.length
  const mean = (read: (pair: number) => number): number => {
    let sum = 0
    for (let pair = 0; pair < count; pair++) sum += read(pair)
    return sum / count
  }
  const [own, other] = isAveraged(loss) ? [meanLogps(policy), meanLogps(reference)] : [policy, reference]
  const logps = (pair: number) => ({ chosen: own.chosen[pair] ?? 0, rejected: own.rejected[pair] ?? 0 })
  const chosen = (pair: number): number => logps(pair).chosen - (other.chosen[pair] ?? 0)
  const rejected = (pair: number): number => logps(pair).rejected - (other.rejected[pair] ?? 0)
  const margin = (pair: number): number => chosen(pair) - rejected(pair)
  const sft = -sum(policy.chosen) / sum(policy.tokens.chosen)
  const column = (read: (pair: number) => number) => Float64Array.from({ length: count }, (_, pair) => read(pair))
  const ofFormula = formulaLosses(
    {
      chosen: column(chosen),
      rejected: column(rejected),
      chosenReference: column((pair) => other.chosen[pair] ?? 0),
      rejectedReference: column((pair) => other.rejected[pair] ?? 0),
    },
    options,
  )
  const lossOf = (pair: number): number => ofFormula?.[pair] ?? pairLoss(margin(pair), logps(pair), options)
  return {
    loss: mean(lossOf) + (sftWeight === 0 ? 0 : sftWeight * sft),
    metrics: {
      'rewards/chosen': beta * mean(chosen),
      'rewards/rejected': beta * mean(rejected),
      'rewards/accuracies': mean((pair) => (margin(pair) > 0 ? 1 : 0)),
      'rewards/margins': beta * mean(margin),
      'logps/chosen': mean((pair) => logps(pair).chosen),
      'logps/rejected': mean((pair) => logps(pair).rejected),
      ...(sftWeight === 0 ? {} : { nll_loss: sft }),
    },
  }
}

/** The loss of each pair where it is a formula; else null. */
function formulaLosses(
  inputs: Readonly<Record<'chosen' | 'rejected' | 'chosenReference' | 'rejectedReference', Float64Array>>,
  { formula = null }: PreferenceLossOptions,
): Float64Array | null {
  return formula === null ? null : evaluateFormula(formula, { inputs, length: inputs.chosen.length })
}

/** As `numerics/nn/preference-loss.ts` has it, in float64. */
function pairLoss(
  margin: number,
  logps: { readonly chosen: number; readonly rejected: number },
  { loss, beta, labelSmoothing, gamma }: PreferenceLossOptions,
): number {
  const smoothed = (z: number): number => (1 - labelSmoothing) * softplus(-z) + labelSmoothing * softplus(z)
  switch (loss) {
    case 'sigmoid':
      return smoothed(beta * margin)
    case 'hinge':
      return Math.max(0, 1 - beta * margin)
    case 'ipo':
      return (margin - 1 / (2 * beta)) ** 2
    case 'orpo':
      return beta * softplus(logOdds(logps.rejected) - logOdds(logps.chosen))
    case 'simpo':
      return smoothed(beta * margin - gamma)
    case 'formula':
      throw new Error('the loss "formula" comes with its formula')
    case 'kto':
      throw new Error('answers without a pair are measured by `unpaired/kto-measures.ts`')
    default:
      return assertNever(loss)
  }
}

function logOdds(logp: number): number {
  const x = Math.min(logp, MAX_MEAN_LOGP)
  return x - Math.log(-Math.expm1(x))
}

/** log(1 + exp(x)) without overflow: -logsigmoid(-x). */
function softplus(x: number): number {
  return Math.max(x, 0) + Math.log1p(Math.exp(-Math.abs(x)))
}

function sum(values: Float64Array): number {
  return values.reduce((total, value) => total + value, 0)
}
