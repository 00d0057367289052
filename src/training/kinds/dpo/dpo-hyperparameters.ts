/**
 * What a preference job needs to know besides its pairs: its options.
 */
import type { OptionsOf } from '#contract/jobs/kinds.js'
import type { Hyperparameters } from '#training/trainer/hyperparameters.js'

export type DpoHyperparameters = Hyperparameters<OptionsOf<'dpo'>>
