/**
 * Supervised jobs on example conversations: their options, and what follows from them. Options that the published API lacks
 * may stand in `config` or in `experimental_config`.
 */
import { assertScheduleFits, defineJobKind, keepsBest } from './kind.js'
import { resolveLora } from './lora-options.js'
import { defineOptions, type OptionValues } from './option.js'
import { COMMON_OPTIONS, epochOptions, FORMULA, LEARNING_RATE, MEASURED, TINY } from './shared-options.js'

const epochs = epochOptions('conversations')

const options = defineOptions({
  learning_rate: {
    type: 'number',
    default: 5e-5,
    bounds: LEARNING_RATE,
    takesList: true,
    // spark learns at 1e-3; SmolLM2-135M learned at rates up to 1e-3 that fall, and at 3e-4
    bySize: [
      { below: TINY, value: 1e-3 },
      { below: MEASURED, value: 3e-4 },
    ],
    flag: { isCommon: true },
    summary: 'step size of the optimizer',
  },
  loss_type: {
    type: 'choice',
    default: 'nll',
    choices: ['nll', 'custom'],
    isExtension: true,
    flag: { spelling: '--loss-type <name|file>', file: 'loss_formula' },
    summary: 'loss of a token: cross-entropy (nll)',
  },
  loss_formula: { ...FORMULA, isExtension: true },
  ...epochs,
  epochs: {
    ...epochs.epochs,
    flag: { isCommon: true, whenAbsent: 'of small base models until held-out conversations get no better' },
  },
  assistant_turns: {
    type: 'choice',
    default: 'all',
    choices: ['all', 'last'],
    flag: {},
    summary: 'turns to learn from',
  },
  metric_logging: {
    type: 'object',
    default: null,
    summary: "means of the job stand under sft/ among its checkpoint's metrics",
    rows: {
      enabled: { type: 'boolean', default: false, summary: 'whether they do' },
      target_training_step: {
        type: 'integer',
        default: null,
        bounds: { min: 0 },
        summary: 'the step that the client expects',
      },
    },
  },
  ...COMMON_OPTIONS,
})
export type SftOptions = OptionValues<typeof options>

export const SFT = defineJobKind({
  root: 'config',
  secondRoot: 'experimental_config',
  row: { noun: 'example', limit: 'the context of the model' },
  options,
  loss: { option: 'loss_type', inputs: ['logp'], reductions: [], like: 'nll' },
  derive(given) {
    assertScheduleFits('config', given)
    return { ...resolveLora('config', given), keep_best: keepsBest(given) }
  },
  referenceOf: () => null,
})
