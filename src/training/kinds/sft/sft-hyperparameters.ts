/**
 * What a supervised job needs to know besides its examples: its options.
 */
import type { OptionsOf } from '#contract/jobs/kinds.js'
import type { Hyperparameters } from '#training/trainer/hyperparameters.js'

export type SftHyperparameters = Hyperparameters<OptionsOf<'sft'>>
