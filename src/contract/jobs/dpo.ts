/**
 * Preference jobs (direct preference optimization and its kin): their options, and what follows from them. Names and values are
 * those of TRL (`DPOConfig`, `ORPOConfig`, `CPOConfig`), but for the strength of SimPO, which is its authors' (arXiv:2405.14734,
 * section 4: 2 to 2.5; TRL's 0.1 is DPO's). The rate is for an adapter.
 */
import { assertScheduleFits, defineJobKind, keepsBest, refuse } from './kind.js'
import { resolveLora } from './lora-options.js'
import { defineOptions, fillByChoice, type OptionValues } from './option.js'
import { COMMON_OPTIONS, epochOptions, FORMULA, LEARNING_RATE, TINY } from './shared-options.js'

/** Losses on the two answers of a pair; formulas in `numerics/nn/preference-loss.ts`. */
const PREFERENCE_LOSSES = ['sigmoid', 'hinge', 'ipo', 'orpo', 'simpo', 'kto', 'custom'] as const
type PreferenceLossName = (typeof PREFERENCE_LOSSES)[number]

/** Losses that need no second policy. */
const WITHOUT_REFERENCE: ReadonlySet<PreferenceLossName> = new Set(['orpo', 'simpo'])
/** Losses whose pairs may be taken to be labelled wrongly. */
const SMOOTHED: ReadonlySet<PreferenceLossName> = new Set(['sigmoid', 'simpo'])
/** Of `simpo_gamma`, which clients of TRL always send. */
const MARGIN = 0.5

const options = defineOptions({
  loss_type: {
    type: 'choice',
    default: 'sigmoid',
    choices: PREFERENCE_LOSSES,
    others: {
      dpo: 'sigmoid',
      cpo: 'sigmoid with reference_free',
      bco: 'bco_pair',
      nca: 'nca_pair',
      sppo: 'sppo_hard',
      exo: 'exo_pair',
      aot_pair: 'aot',
    },
    flag: { spelling: '--loss-type <name|file>', isCommon: true, file: 'loss_formula' },
    summary: `loss on the two answers of a pair: ${PREFERENCE_LOSSES.join(', ')}; kto takes single answers with a label`,
  },
  loss_formula: FORMULA,
  beta: {
    type: 'number',
    default: null,
    byChoice: { of: 'loss_type', values: { sigmoid: 0.1, hinge: 0.1, ipo: 0.1, orpo: 0.1, simpo: 2, kto: 0.1 } },
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
  rpo_alpha: {
    type: 'number',
    default: null,
    byChoice: { of: 'loss_type', values: { sigmoid: 0, hinge: 0, ipo: 0, orpo: 1, simpo: 0, kto: 0 } },
    bounds: { min: 0, max: 100 },
    flag: {},
    summary: 'weight of cross-entropy on the chosen answer, added to the loss',
  },
  simpo_gamma: {
    type: 'number',
    default: MARGIN,
    bounds: { min: 0, max: 100 },
    flag: {},
    summary: 'reward margin that simpo asks for',
  },
  desirable_weight: {
    type: 'number',
    default: 1,
    bounds: { min: 0, max: 1000 },
    flag: {},
    summary: 'weight of good answers in kto',
  },
  undesirable_weight: {
    type: 'number',
    default: 1,
    bounds: { min: 0, max: 1000 },
    flag: {},
    summary: 'weight of bad answers in kto',
  },
  ...COMMON_OPTIONS,
})
export type DpoOptions = OptionValues<typeof options>

export const DPO = defineJobKind({
  root: 'config',
  row: { noun: 'pair', limit: 'the context of the model' },
  options,
  loss: {
    option: 'loss_type',
    inputs: ['chosen', 'rejected', 'chosenReference', 'rejectedReference'],
    reductions: ['batchSort'],
    like: 'hinge',
  },
  derive(given) {
    assertScheduleFits('config', given)
    const { loss_type: loss } = given
    const isReferenceFree = given.reference_free || WITHOUT_REFERENCE.has(loss)
    if (isReferenceFree && given.reference_step !== null) {
      const path = 'config.reference_step'
      const reason = given.reference_free ? 'reference_free is true' : `loss_type ${loss} compares with none`
      refuse(path, `${path} names a reference, but ${reason}.`)
    }
    refuseUnread(given)
    return {
      ...fillByChoice(options, resolveLora('config', given)),
      reference_free: isReferenceFree,
      keep_best: keepsBest(given),
    }
  },
  referenceOf: ({ reference_step: step }) => (step === null ? null : { kind: 'step', step, option: 'reference_step' }),
})

/** An option that the loss does not read would be accepted without effect. */
function refuseUnread(given: DpoOptions): void {
  const { loss_type: loss, label_smoothing: smoothing, simpo_gamma: margin } = given
  const unread = (name: string, readers: string): never =>
    refuse(`config.${name}`, `config.${name} has no effect with loss_type ${loss}: ${readers} read it.`)
  if (smoothing !== 0 && !SMOOTHED.has(loss)) unread('label_smoothing', [...SMOOTHED].join(' and '))
  if (margin !== MARGIN && loss !== 'simpo') unread('simpo_gamma', 'jobs with loss_type simpo')
  if (loss === 'kto') refuseBesideKto(given)
  else if (given.desirable_weight !== 1) unread('desirable_weight', 'jobs with loss_type kto')
  else if (given.undesirable_weight !== 1) unread('undesirable_weight', 'jobs with loss_type kto')
}

/** Its answers are compared with a reference, and with those of other prompts in their batch. */
function refuseBesideKto({ reference_free: isReferenceFree, rpo_alpha: alpha, batch_size: size }: DpoOptions): void {
  const wrong = (name: string, reason: string): never => refuse(`config.${name}`, `config.${name} ${reason}.`)
  if (isReferenceFree) wrong('reference_free', 'has no effect with loss_type kto, which compares with a reference')
  if (alpha !== null && alpha !== 0) wrong('rpo_alpha', 'has no effect with loss_type kto: no answer is a chosen one')
  if (size === 1) {
    wrong('batch_size', 'is 1, but loss_type kto measures on answers to the other prompts of a batch: give 2 or more')
  }
}
