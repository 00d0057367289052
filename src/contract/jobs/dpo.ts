/**
 * Preference jobs (direct preference optimization): their options, and what follows from them. Strength and label smoothing are
 * those of TRL, the rate is for an adapter.
 */
import { assertScheduleFits, defineJobKind, keepsBest, refuse } from './kind.js'
import { defineOptions, type OptionValues } from './option.js'
import { COMMON_OPTIONS, epochOptions, LEARNING_RATE, TINY } from './shared-options.js'

const options = defineOptions({
  beta: {
    type: 'number',
    default: 0.1,
    // at 0 every pair has the same loss, and nothing is learned
    bounds: { min: 1e-4, max: 100 },
    flag: { isCommon: true },
    summary: 'how much a difference counts',
  },
  learning_rate: {
    type: 'number',
    default: 5e-6,
    bounds: LEARNING_RATE,
    // Preferences push an answer away without end: at 1e-3 spark forgot to speak, at 1e-4 it learned eight pairs in twelve
    // steps and still answers.
    bySize: [{ below: TINY, value: 1e-4 }],
    flag: { isCommon: true },
    summary: 'step size of the optimizer',
  },
  ...epochOptions('pairs'),
  label_smoothing: {
    type: 'number',
    default: 0,
    bounds: { min: 0, max: 0.499 },
    flag: {},
    summary: 'share of pairs taken to be labelled wrongly',
  },
  reference_free: {
    type: 'boolean',
    default: false,
    flag: {},
    summary: 'compare the policy alone, without a reference',
  },
  reference_step: {
    type: 'integer',
    default: null,
    bounds: { min: 0 },
    flag: {},
    summary: 'step of the model that is the reference; 0 is the base model',
  },
  loss_type: {
    type: 'choice',
    default: 'sigmoid',
    choices: ['sigmoid'],
    isRecorded: false,
    summary: 'the one loss there is',
  },
  ...COMMON_OPTIONS,
})
export type DpoOptions = OptionValues<typeof options>

export const DPO = defineJobKind({
  root: 'config',
  row: { noun: 'pair', limit: 'the context of the model' },
  options,
  derive(given) {
    assertScheduleFits(given)
    if (given.reference_free && given.reference_step !== null) {
      const path = 'config.reference_step'
      refuse(path, `${path} names a reference, but reference_free is true.`)
    }
    return { ...given, keep_best: keepsBest(given) }
  },
  referenceOf: ({ reference_step: step }) => (step === null ? null : { kind: 'step', step, option: 'reference_step' }),
})
