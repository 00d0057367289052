/**
 * Jobs of reinforcement learning: their options, and what follows from them. Names, defaults and meanings are those of OpenPipe
 * ART; `src/docs/reference/how-training-works.md` has the formulas. Options of our own are the last ones.
 */
import { assertScheduleFits, defineJobKind, type PolicyReference, refuse } from './kind.js'
import { resolveLora } from './lora-options.js'
import { defineOptions, fillByChoice, MAX_FLOAT32, type OptionValues } from './option.js'
import {
  COMMON_OPTIONS,
  FORMULA,
  LEARNING_RATE,
  MEASURED,
  optimizerOptions,
  scheduleOptions,
  TINY,
} from './shared-options.js'

/** Clip ranges, caps of importance weights, coefficients: dimensionless. */
const AMOUNT = { min: 0, max: MAX_FLOAT32 } as const
/** Tokens. */
const LENGTH = { min: 2, max: 131_072 } as const

/**
 * Policy losses. `gspo` is PPO on the ratio of sequences (arXiv:2507.18071), `dr_grpo` PPO without the divisions by deviation and
 * length (arXiv:2503.20783); formulas of all in `numerics/nn/policy-loss.ts`.
 */
const POLICY_LOSSES = ['cispo', 'ppo', 'gspo', 'dr_grpo', 'importance_sampling', 'dro', 'custom'] as const
type PolicyLossName = (typeof POLICY_LOSSES)[number]
/** Losses that clip nothing. */
const UNCLIPPED: ReadonlySet<PolicyLossName> = new Set(['importance_sampling', 'dro'])
/** Of `dro_beta`: the value of Tinker's documentation. */
const DRO_BETA = 0.05

/** Of `soft_overlength_limit` (DAPO, arXiv:2503.14476, section 4.1: 4,096 of 20,480 tokens are a fifth). */
const OVERLENGTH_SHARE = 0.2

const needsPenalty = { any: ['kl_penalty_coef', 'beta'], said: 'kl_penalty_coef or beta' } as const
const needsCoefficient = { any: ['kl_penalty_coef'], said: 'kl_penalty_coef' } as const

const options = defineOptions({
  learning_rate: {
    type: 'number',
    default: 5e-6,
    bounds: LEARNING_RATE,
    // spark learns at 1e-3 within a few jobs, and falls back at 4e-3; SmolLM2-135M learned at 3e-4
    bySize: [
      { below: TINY, value: 1e-3 },
      { below: MEASURED, value: 3e-4 },
    ],
    flag: { isCommon: true },
    summary: 'step size of the optimizer',
  },
  ppo: { type: 'boolean', default: false, isRecorded: false, summary: 'the same as loss_fn ppo' },
  loss_fn: {
    type: 'choice',
    default: 'cispo',
    choices: POLICY_LOSSES,
    others: {
      grpo: 'ppo',
      dapo: 'ppo with loss_aggregation token',
      bnpo: 'ppo with loss_aggregation token',
      vanilla: 'ppo',
      geo_mean: 'gmpo',
      reinforce: 'importance_sampling',
    },
    flag: { spelling: '--loss <name|file>', file: 'loss_formula' },
    summary: `policy loss: ${POLICY_LOSSES.join(', ')}`,
  },
  epsilon: {
    type: 'number',
    default: null,
    // of GSPO: its paper, section 5.1
    byChoice: { of: 'loss_fn', values: { cispo: 1, ppo: 0.2, gspo: 3e-4, dr_grpo: 0.2 } },
    bounds: AMOUNT,
    flag: {},
    summary: 'clip below',
  },
  epsilon_high: {
    type: 'number',
    default: null,
    byChoice: { of: 'loss_fn', values: { cispo: 4, gspo: 4e-4 } },
    bounds: AMOUNT,
    flag: { whenAbsent: 'epsilon with ppo, dr_grpo' },
    summary: 'clip above',
  },
  loss_formula: FORMULA,
  dro_beta: {
    type: 'number',
    default: DRO_BETA,
    bounds: AMOUNT,
    summary: 'weight of the squared log ratio in dro',
  },
  importance_sampling_level: {
    type: 'choice',
    default: 'token',
    choices: ['token', 'sequence', 'average', 'geometric_average'],
    summary: 'over which tokens the importance ratio is taken',
  },
  advantage_estimator: {
    type: 'choice',
    default: 'group',
    choices: ['group', 'leave_one_out', 'batch', 'custom'],
    others: {
      grpo: 'group',
      rloo: 'leave_one_out',
      reinforce_plus_plus: 'batch',
      none: 'group with scale_rewards false',
    },
    flag: { spelling: '--advantage <name|file>', file: 'advantage_formula' },
    summary:
      'what a reward is compared with: the mean of its group (group), of the others of it (leave_one_out), of all (batch)',
  },
  advantage_formula: FORMULA,
  scale_batch: {
    type: 'boolean',
    default: null,
    summary: 'divide advantages by their mean size over the job; without a word on, off with dr_grpo and leave_one_out',
  },
  soft_overlength_limit: {
    type: 'integer',
    default: null,
    bounds: LENGTH,
    flag: {},
    summary: 'tokens of an answer from which on its reward is lowered by 1',
  },
  soft_overlength_buffer: {
    type: 'integer',
    default: null,
    bounds: { min: 1, max: LENGTH.max },
    flag: {},
    needs: { any: ['soft_overlength_limit'], said: 'soft_overlength_limit' },
    summary: 'tokens below the limit over which the reward falls; without a word a fifth of it',
  },
  entropy_coef: {
    type: 'number',
    default: 0,
    bounds: AMOUNT,
    flag: {},
    summary: 'weight of the entropy that is added to the objective',
  },
  scale_rewards: {
    type: 'boolean',
    default: true,
    others: { group: 'true', batch: 'true with advantage_estimator group_batch_std', none: 'false' },
    flag: {},
    summary: "divide advantages by the group's deviation",
  },
  normalize_advantages: { type: 'boolean', default: true, summary: 'false switches scale_rewards off as well' },
  advantage_balance: {
    type: 'number',
    default: 0,
    bounds: { min: -1, max: 1 },
    // What is pushed down has no floor: of a tiny model that is nearly always right, one wrong answer in a hundred took most of what it
    // had (`src/docs/internals/learning.md`). Without it untrained ones learn as soon.
    bySize: [{ below: TINY, value: 1 }],
    flag: {},
    summary: 'from -1 (only negative advantages train) over 0 to 1 (only positive ones)',
  },
  max_negative_advantage_importance_sampling_weight: {
    type: 'number',
    default: null,
    bounds: AMOUNT,
    summary: "upper bound of every token's importance ratio before clipping; 0 is none",
  },
  mask_prob_ratio: {
    type: 'boolean',
    default: false,
    summary: 'tokens with a ratio outside the clip range do not train',
  },
  alt_k2_tau: {
    type: 'number',
    default: null,
    bounds: AMOUNT,
    summary: 'this times the log ratio is taken from advantages; 0 is none',
  },
  kimi_k2_tau: {
    type: 'number',
    default: null,
    bounds: AMOUNT,
    isRecorded: false,
    summary: 'another name of alt_k2_tau',
  },
  precalculate_logprobs: {
    type: 'boolean',
    default: false,
    summary: "old log-probabilities come from a forward pass before the first step instead of the sampler's",
  },
  sampling_ratio: {
    type: 'choice',
    default: 'sampled',
    choices: ['sampled', 'raw'],
    flag: { spelling: '--sampling-ratio <name>' },
    summary:
      'distribution that ratio, loss and divergences are taken of: the one that answers say they were sampled from (sampled), or the raw logits whatever they say (raw)',
  },
  truncated_importance_sampling: {
    type: 'number',
    default: null,
    bounds: AMOUNT,
    summary:
      'upper bound of the weight that corrects sampler against trainer; implies precalculate_logprobs; 0 is none',
  },
  allow_training_without_logprobs: {
    type: 'boolean',
    default: false,
    summary: 'answers without log-probabilities train too, as if sampled from the current policy',
  },
  kl_penalty_coef: {
    type: 'number',
    default: 0,
    bounds: AMOUNT,
    flag: { spelling: '--kl-coef <x>' },
    summary: 'weight of the KL penalty',
  },
  beta: {
    type: 'number',
    default: 0,
    bounds: AMOUNT,
    flag: {},
    summary: 'weight of the divergence from the reference (k3) that is added to the loss',
  },
  kl_penalty_reference_step: {
    type: 'integer',
    default: null,
    bounds: { min: 0 },
    needs: needsPenalty,
    summary: 'step of the model that the penalty is measured to; without a reference the base model',
  },
  kl_penalty_step_lag: {
    type: 'integer',
    default: null,
    bounds: { min: 1 },
    needs: needsPenalty,
    summary: 'steps back from the start that the penalty is measured to',
  },
  kl_ref_adapter_path: {
    type: 'text',
    default: null,
    maxLength: 4096,
    needs: needsPenalty,
    summary: 'a checkpoint that the penalty is measured to, such as project/name:step3',
  },
  kl_penalty_source: {
    type: 'choice',
    default: 'current_learner',
    choices: ['current_learner', 'sample'],
    needs: needsCoefficient,
    summary: 'whose log-probabilities the penalty takes',
  },
  packed_sequence_length: {
    type: 'integer',
    default: null,
    bounds: LENGTH,
    summary: 'tokens of a packed row, which an optimizer step covers; longer sequences are dropped',
  },
  num_trajectories_learning_rate_multiplier_power: {
    type: 'number',
    default: 0,
    bounds: { min: -8, max: 8 },
    summary: 'p in learning rate * (answers of the step)^p',
  },
  logprob_calculation_chunk_size: {
    type: 'integer',
    default: 1024,
    bounds: { min: 1 },
    summary: 'most positions whose logits exist at once; changes memory, no result',
  },
  scale_learning_rate_by_reward_std_dev: {
    type: 'boolean',
    default: false,
    isRecorded: false,
    summary: 'not available',
    unsupported: {
      reason: 'is not supported: learning rates do not follow the history of rewards',
      isHarmless: isOff,
    },
  },
  plot_tensors: {
    type: 'boolean',
    default: false,
    isRecorded: false,
    summary: 'not available',
    unsupported: { reason: 'is not supported: no plots are made here', isHarmless: isOff },
  },
  target_kl: {
    type: 'number',
    default: null,
    bounds: { min: 1e-6, max: 100 },
    // At the rate above tiny models fall without a limit, and come back within a few jobs with this one. Larger ones were not seen
    // to fall at their rate, and would pay for the measurement.
    bySize: [{ below: TINY, value: 0.2 }],
    flag: { whenAbsent: '--set target_kl=null for none' },
    summary: 'nats per token an update may move the policy, longer ones are shortened',
  },
  tokens_per_step: {
    type: 'integer',
    default: null,
    bounds: LENGTH,
    // Rows of 2,048 tokens are right for models of billions of parameters on thousands of answers; small ones learn from a few
    // hundred short answers in more, smaller steps.
    bySize: [
      { below: 50_000_000, value: 384 },
      { below: 1_000_000_000, value: 1024 },
    ],
    bySizeUnless: ['packed_sequence_length', 'grad_accumulation_sequences'],
    flag: { whenAbsent: null },
    summary: 'tokens an optimizer step covers; drops nothing',
  },
  num_passes: {
    type: 'integer',
    default: 1,
    bounds: { min: 1, max: 64 },
    flag: { spelling: '--passes <n>' },
    summary: 'passes over the optimizer steps of the job, each in an order of its own; target_kl ends them early',
  },
  grad_accumulation_sequences: {
    type: 'integer',
    default: 1,
    bounds: { min: 1, max: 4096 },
    summary: 'packed rows of an optimizer step',
  },
  loss_aggregation: {
    type: 'choice',
    default: 'trajectory',
    choices: ['trajectory', 'token', 'constant'],
    summary: 'how tokens share the loss: equal trajectories, equal tokens within a row, or equal tokens everywhere',
  },
  max_completion_length: {
    type: 'integer',
    default: null,
    bounds: LENGTH,
    needs: { any: ['loss_aggregation', 'loss_fn'], said: 'loss_aggregation constant or loss_fn dr_grpo' },
    summary: 'tokens that constant aggregation divides an answer by; without a word their mean number',
  },
  mask_truncated: { type: 'boolean', default: false, summary: 'answers that ended by length do not train' },
  ...scheduleOptions('optimizer steps'),
  ...optimizerOptions({ weightDecay: 0.1, maxGradNorm: 0.1 }),
  ...COMMON_OPTIONS,
})
export type RlOptions = OptionValues<typeof options>

export const RL = defineJobKind({
  root: 'experimental_config',
  row: { noun: 'sequence', limit: 'packed_sequence_length or the context of the model' },
  options,
  loss: {
    option: 'loss_fn',
    inputs: ['logp', 'old', 'ratio', 'logRatio', 'advantage'],
    reductions: ['sequenceMean'],
    like: 'importance_sampling',
  },
  derive(given) {
    const loss = given.ppo && given.loss_fn === 'cispo' ? 'ppo' : given.loss_fn
    const truncation = given.truncated_importance_sampling || null
    namedReference(given)
    assertScheduleFits('experimental_config', given)
    const filled = fillByChoice(options, { ...given, ...ofVariant({ ...given, loss_fn: loss }), loss_fn: loss })
    refuseUnread(filled)
    const { soft_overlength_limit: limit, soft_overlength_buffer: buffer } = filled
    return {
      ...resolveLora('experimental_config', filled),
      epsilon_high: filled.epsilon_high ?? filled.epsilon,
      soft_overlength_buffer: limit === null ? null : (buffer ?? Math.ceil(limit * OVERLENGTH_SHARE)),
      alt_k2_tau: tauOf(given) || null,
      max_negative_advantage_importance_sampling_weight:
        given.max_negative_advantage_importance_sampling_weight || null,
      truncated_importance_sampling: truncation,
      precalculate_logprobs: given.precalculate_logprobs || truncation !== null || isUnknownOnceMoved(given),
    }
  },
  referenceOf: (given) => (given.kl_penalty_coef === 0 && given.beta === 0 ? null : namedReference(given)),
})

/** Where a later pass would take a ratio of 1 for answers that have no log-probability of their own. */
function isUnknownOnceMoved({ num_passes: passes, allow_training_without_logprobs: isAllowed }: RlOptions): boolean {
  return passes > 1 && isAllowed
}

/** What a loss or an estimator of advantages is by definition; what somebody says otherwise stays where it may. */
function ofVariant(given: RlOptions) {
  const isDrGrpo = given.loss_fn === 'dr_grpo'
  const isLeaveOneOut = given.advantage_estimator === 'leave_one_out'
  const isUnscaled = isDrGrpo || isLeaveOneOut
  const { importance_sampling_level: level, loss_aggregation: aggregation } = given
  return {
    importance_sampling_level: given.loss_fn === 'gspo' && level === 'token' ? 'sequence' : level,
    loss_aggregation: isDrGrpo && aggregation === 'trajectory' ? 'constant' : aggregation,
    scale_rewards: given.scale_rewards && given.normalize_advantages && !isUnscaled,
    scale_batch: given.scale_batch ?? !isUnscaled,
  } as const
}

/** An option that the loss does not read would be accepted without effect. */
function refuseUnread(given: RlOptions): void {
  const { loss_fn: loss, loss_aggregation: aggregation, soft_overlength_limit: limit } = given
  const refuseOption = (name: string, reason: string): never => {
    const path = `experimental_config.${name}`
    return refuse(path, `${path} ${reason}.`)
  }
  if (UNCLIPPED.has(loss)) {
    const clips = { epsilon: given.epsilon, epsilon_high: given.epsilon_high, mask_prob_ratio: given.mask_prob_ratio }
    const [name] = Object.entries(clips).find(([, value]) => value !== null && value !== false) ?? []
    if (name !== undefined) refuseOption(name, `has no effect with loss_fn ${loss}, which clips nothing`)
  }
  if (loss === 'dro') {
    if (given.importance_sampling_level !== 'token')
      refuseOption(
        'importance_sampling_level',
        'has no effect with loss_fn dro, which takes the log ratio of each token',
      )
    if (given.max_negative_advantage_importance_sampling_weight)
      refuseOption(
        'max_negative_advantage_importance_sampling_weight',
        'has no effect with loss_fn dro, which takes no ratio',
      )
  } else if (given.dro_beta !== DRO_BETA) refuseOption('dro_beta', `has no effect with loss_fn ${loss}: dro reads it`)
  if (given.max_completion_length !== null && aggregation !== 'constant') {
    refuseOption('max_completion_length', `has no effect with loss_aggregation ${aggregation}: constant reads it`)
  }
  const buffer = given.soft_overlength_buffer
  if (limit !== null && buffer !== null && buffer > limit) {
    refuseOption('soft_overlength_buffer', `is ${buffer}, more than the soft_overlength_limit of ${limit}`)
  }
}

function tauOf({ alt_k2_tau: ours, kimi_k2_tau: upstream }: RlOptions): number | null {
  if (ours !== null && upstream !== null && ours !== upstream) {
    const path = 'experimental_config.alt_k2_tau'
    refuse(path, `${path} is ${ours} but its alias kimi_k2_tau is ${upstream}.`)
  }
  return ours ?? upstream
}

/** At most one of the three names a reference; an address without a step would mean another policy with every job. */
function namedReference(given: RlOptions): PolicyReference | null {
  const { kl_penalty_reference_step: step, kl_penalty_step_lag: lag, kl_ref_adapter_path: address } = given
  const named = Object.entries({
    kl_penalty_reference_step: step,
    kl_penalty_step_lag: lag,
    kl_ref_adapter_path: address,
  }).flatMap(([name, value]) => (value === null ? [] : [name]))
  const [option, second] = named
  if (option === undefined) return null
  if (second !== undefined) {
    refuse(
      `experimental_config.${second}`,
      `experimental_config names several KL references: ${named.join(', ')}.`,
      'Leave all but one out; without any the reference is the base model.',
    )
  }
  if (step !== null) return { kind: 'step', step, option }
  if (lag !== null) return { kind: 'lag', lag, option }
  if (address !== null && /:(?:step|v)\d{1,9}$/.test(address)) return { kind: 'adapter', address, option }
  return refuse(
    `experimental_config.${option}`,
    `experimental_config.${option} must be a checkpoint of this service, such as project/name:step3, got "${address?.slice(0, 200)}".`,
    'Files of the training machine are not read. A model of the same base model and a step name the reference.',
  )
}

/** As a lax boolean reads it; what it would refuse has been refused before. */
function isOff(value: unknown): boolean {
  return !(value === true || value === 1 || (typeof value === 'string' && /^(1|on|t|true|y|yes)$/i.test(value)))
}
