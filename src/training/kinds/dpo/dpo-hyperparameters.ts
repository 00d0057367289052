/**
 * What a preference job needs to know besides its pairs: its options, and the loss that they describe.
 */
import { hasOperator } from '#base/formula/formula.js'
import type { OptionsOf } from '#contract/jobs/kinds.js'
import type { PreferenceLossOptions } from '#numerics/nn/preference-loss.js'
import { formulaOf, type Hyperparameters, toHyperparameters } from '#training/trainer/hyperparameters.js'

export interface DpoHyperparameters extends Hyperparameters<OptionsOf<'dpo'>> {
  /** The loss, as the train graph takes it. */
  readonly preferenceLoss: PreferenceLossOptions
  /** The loss compares the pairs of a batch, which therefore runs at once. */
  readonly isTogether: boolean
}

/** @param options resolved */
export function dpoHyperparameters(options: OptionsOf<'dpo'>): DpoHyperparameters {
  const { loss_type: loss, beta, label_smoothing: labelSmoothing, simpo_gamma: gamma, rpo_alpha: sftWeight } = options
  // of a version that knew one loss and stored what it read
  const { desirable_weight: desirableWeight, undesirable_weight: undesirableWeight } = options
  const weights = { desirableWeight, undesirableWeight }
  const formula = formulaOf(options)
  const name = formula === null && loss !== 'custom' ? loss : 'formula'
  const preferenceLoss: PreferenceLossOptions = {
    loss: name,
    formula,
    beta: beta ?? 0.1,
    labelSmoothing,
    gamma,
    sftWeight: sftWeight ?? 0,
    ...weights,
  }
  const isTogether = formula !== null && hasOperator(formula, 'batchSort')
  return { ...toHyperparameters(options), preferenceLoss, isTogether }
}
