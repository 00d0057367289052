/** Defaults by mode, aliases, null as absent, ranges with the path of the field. */
import { describe, expect, it } from 'vitest'
import type { JsonObject } from '#base/util/json.js'
import { readOptions } from '#contract/jobs/kinds.js'
import { resolveOptions } from '#contract/jobs/resolve.js'
import { RL } from '#contract/jobs/rl.js'
import defaultConfig from '../../../fixtures/trajectories/client-default-config.json' with { type: 'json' }
import { resolveDpoConfig, resolveRlConfig, resolveSftConfig } from '../../../support/model/job-options.js'

describe('resolveRlConfig', () => {
  it('has the defaults of CISPO', () => {
    expect(resolveRlConfig({})).toMatchObject({
      learningRate: 5e-6,
      policyLoss: {
        loss: 'cispo',
        epsilon: 1,
        epsilonHigh: 4,
        ratioLevel: 'token',
        maxRatio: null,
        isMaskedOutsideClip: false,
        tau: null,
        kl: null,
        truncation: null,
      },
      scaleRewards: true,
      advantageBalance: 0,
      precalculateLogprobs: false,
      allowTrainingWithoutLogprobs: false,
      logprobCalculationChunkSize: 1024,
      packedSequenceLength: null,
      tokensPerStep: null,
      gradAccumulationSequences: 1,
      numTrajectoriesLearningRateMultiplierPower: 0,
      lossAggregation: 'trajectory',
      maskTruncated: false,
      targetKl: null,
      precision: 'f32',
      seed: null,
      lora: null,
    })
  })

  it('takes what the published client sends by default, nulls included, as nothing but the learning rate', () => {
    expect(resolveRlConfig(defaultConfig)).toEqual(resolveRlConfig({}))
  })

  it('has the defaults of PPO, epsilon_high following epsilon', () => {
    expect(resolveRlConfig({ ppo: true }).policyLoss).toMatchObject({ loss: 'ppo', epsilon: 0.2, epsilonHigh: 0.2 })
    expect(resolveRlConfig({ ppo: true, epsilon: 0.1 }).policyLoss).toMatchObject({ epsilon: 0.1, epsilonHigh: 0.1 })
    expect(resolveRlConfig({ loss_fn: 'ppo', ppo: false, epsilon_high: 0.28 }).policyLoss).toMatchObject({
      loss: 'ppo',
      epsilon: 0.2,
      epsilonHigh: 0.28,
    })
  })

  it('keeps CISPO bounds independent of each other', () => {
    expect(resolveRlConfig({ epsilon: 0.3 }).policyLoss).toMatchObject({ epsilon: 0.3, epsilonHigh: 4 })
  })

  it.each([
    ['epsilon', { loss_fn: 'dro', epsilon: 0.2 }],
    ['mask_prob_ratio', { loss_fn: 'importance_sampling', mask_prob_ratio: true }],
    ['importance_sampling_level', { loss_fn: 'dro', importance_sampling_level: 'sequence' }],
    ['dro_beta', { dro_beta: 0.1 }],
    ['max_completion_length', { max_completion_length: 100 }],
    ['soft_overlength_buffer', { soft_overlength_limit: 10, soft_overlength_buffer: 20 }],
  ])('refuses %s where nothing reads it', (name, config) => {
    expect(() => resolveRlConfig(config)).toThrow(expect.objectContaining({ param: `experimental_config.${name}` }))
  })

  it('reads both names of tau, and refuses two different values', () => {
    expect(resolveRlConfig({ kimi_k2_tau: 0.1 }).policyLoss.tau).toBe(0.1)
    expect(resolveRlConfig({ alt_k2_tau: 0.1, kimi_k2_tau: 0.1 }).policyLoss.tau).toBe(0.1)
    expect(() => resolveRlConfig({ alt_k2_tau: 0.1, kimi_k2_tau: 0.2 })).toThrow(
      expect.objectContaining({ param: 'experimental_config.alt_k2_tau' }),
    )
  })

  it('lets normalize_advantages false force scale_rewards false, and truncation force precalculation', () => {
    expect(resolveRlConfig({ normalize_advantages: false, scale_rewards: true }).scaleRewards).toBe(false)
    expect(resolveRlConfig({ precision: 'int8' }).precalculateLogprobs).toBe(false)
    expect(resolveRlConfig({ truncated_importance_sampling: 2 })).toMatchObject({
      precalculateLogprobs: true,
      policyLoss: { truncation: { limit: 2, source: 'precalculated' } },
    })
  })

  it('counts a weight bound or a truncation of 0 as unset', () => {
    expect(resolveRlConfig({ max_negative_advantage_importance_sampling_weight: 0 }).policyLoss.maxRatio).toBeNull()
    expect(resolveRlConfig({ truncated_importance_sampling: 0 })).toMatchObject({
      precalculateLogprobs: false,
      policyLoss: { truncation: null },
    })
  })

  it('reads the extensions and fills in half a lora', () => {
    const config = resolveRlConfig({
      loss_aggregation: 'token',
      mask_truncated: true,
      target_kl: 0.05,
      seed: 7,
      lora: { rank: 4, alpha: null },
      grad_accumulation_sequences: 2,
    })
    expect(config).toMatchObject({
      lossAggregation: 'token',
      maskTruncated: true,
      targetKl: 0.05,
      seed: 7,
      lora: { rank: 4, alpha: 16 },
      gradAccumulationSequences: 2,
    })
  })

  it('reads which modules a lora covers, by name, by group and behind commas', () => {
    const targetsOf = (asked: unknown) =>
      resolveRlConfig({ lora: { target_modules: asked } } as JsonObject).lora?.target_modules
    expect(targetsOf('v_proj, q_proj')).toEqual(['q_proj', 'v_proj'])
    expect(targetsOf(['mlp', 'o_proj', 'up_proj'])).toEqual(['o_proj', 'gate_proj', 'up_proj', 'down_proj'])
    expect(targetsOf('all-linear')).toHaveLength(7)
    expect(targetsOf(['attention', 'mlp'])).toEqual(targetsOf('all-linear'))
    for (const asked of ['lm_head', 'q_proj;v_proj', [], ['q_proj', 3], '']) {
      expect(() => targetsOf(asked)).toThrow(expect.objectContaining({ code: 'invalid_value' }))
    }
  })

  it('reads ranks by module, of modules that are covered', () => {
    const lora = { rank: 4, target_modules: 'attention', rank_pattern: { q_proj: 16, 'layers.0.self_attn.v_proj': 2 } }
    const once = resolveOptions('sft', { lora, batch_size: 1 })
    expect(once['lora']).toMatchObject({ rank: 4, rank_pattern: lora.rank_pattern })
    expect(resolveOptions('sft', once)).toEqual(once)
    const wrong: [JsonObject, string][] = [
      [{ up_proj: 4 }, 'names "up_proj", expected a covered module as q_proj, k_proj, v_proj, o_proj'],
      [{ 'q_.*': 4 }, 'names "q_.*"'],
      [{ 'encoder.q_proj': 4 }, 'names "encoder.q_proj"'],
      [{ q_proj: 0 }, 'has "q_proj": 0, expected an integer from 1 to 256'],
      [{ q_proj: '4' }, 'has "q_proj": "4"'],
    ]
    for (const [rank_pattern, message] of wrong) {
      expect(() => resolveOptions('dpo', { lora: { ...lora, rank_pattern } })).toThrow(
        expect.objectContaining({ param: 'config.lora.rank_pattern', message: expect.stringContaining(message) }),
      )
    }
  })

  it('names every wrong option at once, with what was given', () => {
    expect(() => resolveRlConfig({ learning_rate: 2, lora: { rank: 0 }, seed: 'x' })).toThrow(
      expect.objectContaining({
        code: 'invalid_value',
        message: [
          'experimental_config.learning_rate: input should be less than or equal to 1, got 2',
          'experimental_config.seed: input should be a valid integer, unable to parse string as an integer, got "x"',
          'experimental_config.lora.rank: input should be greater than or equal to 1, got 0',
        ].join('; '),
        problems: [
          expect.objectContaining({ loc: ['body', 'experimental_config', 'learning_rate'] }),
          expect.objectContaining({ loc: ['body', 'experimental_config', 'seed'] }),
          expect.objectContaining({ loc: ['body', 'experimental_config', 'lora', 'rank'] }),
        ],
      }),
    )
  })

  it('reads scalars as leniently as every other field', () => {
    expect(resolveRlConfig({ learning_rate: '1e-4', ppo: 'true', seed: '7' })).toMatchObject({
      learningRate: 1e-4,
      policyLoss: { loss: 'ppo' },
      seed: 7,
    })
  })

  it('ignores unknown fields', () => {
    expect(resolveRlConfig({ moe_routing_replay_path: 'x', future: { deep: [1] } })).toEqual(resolveRlConfig({}))
  })

  const refused: [Record<string, unknown>, string][] = [
    [{ learning_rate: -1 }, 'experimental_config.learning_rate'],
    [{ learning_rate: 'small' }, 'experimental_config.learning_rate'],
    [{ learning_rate: Number.NaN }, 'experimental_config.learning_rate'],
    [{ learning_rate: Number.POSITIVE_INFINITY }, 'experimental_config.learning_rate'],
    [{ learning_rate: 2 }, 'experimental_config.learning_rate'],
    [{ advantage_balance: 1.5 }, 'experimental_config.advantage_balance'],
    [{ epsilon: -0.1 }, 'experimental_config.epsilon'],
    [{ importance_sampling_level: 'word' }, 'experimental_config.importance_sampling_level'],
    [{ ppo: 'maybe' }, 'experimental_config.ppo'],
    [{ packed_sequence_length: 1e9 }, 'experimental_config.packed_sequence_length'],
    [{ packed_sequence_length: 100.5 }, 'experimental_config.packed_sequence_length'],
    [{ grad_accumulation_sequences: 0 }, 'experimental_config.grad_accumulation_sequences'],
    [{ kl_penalty_coef: -1 }, 'experimental_config.kl_penalty_coef'],
    [{ lora: { rank: 0 } }, 'experimental_config.lora.rank'],
    [{ lora: { rank: 100_000 } }, 'experimental_config.lora.rank'],
    [{ lora: 8 }, 'experimental_config.lora'],
    [{ seed: 1.5 }, 'experimental_config.seed'],
    [{ seed: 2 ** 60 }, 'experimental_config.seed'],
  ]
  for (const [config, param] of refused) {
    it(`refuses ${JSON.stringify(config)} naming ${param}`, () => {
      expect(() => resolveRlConfig(config as Parameters<typeof resolveRlConfig>[0])).toThrow(
        expect.objectContaining({
          category: 'invalid_request',
          code: 'invalid_value',
          param,
          message: expect.stringContaining(param),
        }),
      )
    })
  }

  it('takes numbers as large as float32 holds, and no larger ones', () => {
    const most = 3.4028234663852886e38
    const bounded = [
      ...['epsilon', 'epsilon_high', 'kl_penalty_coef', 'alt_k2_tau', 'kimi_k2_tau', 'truncated_importance_sampling'],
      'max_negative_advantage_importance_sampling_weight',
    ]
    for (const name of bounded) {
      const { policyLoss } = resolveRlConfig({ [name]: most })
      for (const value of [1 + policyLoss.epsilon, 1 + policyLoss.epsilonHigh, policyLoss.kl?.coefficient ?? 0]) {
        expect(Math.fround(value), name).toBeLessThan(Number.POSITIVE_INFINITY)
      }
      const param = `experimental_config.${name}`
      for (const value of [3.5e38, 1e39, '1e300'])
        expect(() => resolveRlConfig({ [name]: value })).toThrow(expect.objectContaining({ param }))
    }
    expect(resolveRlConfig({ lora: { alpha: most } }).lora).toEqual({ rank: 8, alpha: most })
    for (const [resolve, root] of [
      [resolveRlConfig, 'experimental_config'],
      [resolveSftConfig, 'config'],
      [resolveDpoConfig, 'config'],
    ] as const) {
      expect(() => resolve({ lora: { alpha: 1e39 } })).toThrow(
        expect.objectContaining({ code: 'invalid_value', param: `${root}.lora.alpha` }),
      )
    }
    for (const resolve of [resolveSftConfig, resolveDpoConfig]) {
      expect(() => resolve({ early_stopping_min_delta: 1e39 })).toThrow(
        expect.objectContaining({ param: 'config.early_stopping_min_delta' }),
      )
    }
  })

  it('knows one KL reference at a time, and no file of the training machine', () => {
    const referenceOf = (config: JsonObject) =>
      RL.referenceOf(readOptions('rl', resolveOptions('rl', { kl_penalty_coef: 0.1, ...config })))
    expect(referenceOf({})).toBeNull()
    const step = { kl_penalty_reference_step: 0 }
    expect(referenceOf(step)).toEqual({ kind: 'step', step: 0, option: 'kl_penalty_reference_step' })
    expect(referenceOf({ ...step, kl_penalty_coef: 0 })).toBeNull()
    expect(referenceOf({ kl_penalty_step_lag: 2 })).toEqual({ kind: 'lag', lag: 2, option: 'kl_penalty_step_lag' })
    const address = 'wandb-artifact:///entity/project/name:step3'
    expect(referenceOf({ kl_ref_adapter_path: address })).toEqual({
      kind: 'adapter',
      address,
      option: 'kl_ref_adapter_path',
    })
    for (const [config, param] of [
      [{ kl_penalty_reference_step: 1, kl_penalty_step_lag: 2 }, 'kl_penalty_step_lag'],
      [{ kl_ref_adapter_path: '/x' }, 'kl_ref_adapter_path'],
      [{ kl_ref_adapter_path: 'project/name' }, 'kl_ref_adapter_path'],
      [{ kl_penalty_step_lag: 0 }, 'kl_penalty_step_lag'],
    ] as [JsonObject, string][]) {
      expect(() => resolveRlConfig(config)).toThrow(
        expect.objectContaining({ code: 'invalid_value', param: `experimental_config.${param}` }),
      )
    }
  })
})

describe('resolveSftConfig', () => {
  it('has defaults, and auto means batches of two', () => {
    const defaults = {
      batchSize: 2,
      learningRate: 5e-5,
      assistantTurns: 'all',
      precision: 'f32',
      metricLogging: null,
      validationInterval: null,
      earlyStoppingPatience: null,
      earlyStoppingMinDelta: 0,
      keepBest: false,
      learningRateSchedule: 'constant',
      warmupSteps: 0,
      minLearningRate: 0,
      warmupRatio: 0,
      epochs: 1,
      shuffle: false,
      validationSplit: 0,
      weightDecay: 0,
      maxGradNorm: 1,
      loraplusLrRatio: 1,
      adamBeta1: 0.9,
      adamBeta2: 0.99,
      adamEpsilon: 1e-8,
      seed: null,
      lora: null,
      loraDropout: 0,
      chatTemplateKwargs: null,
      lossType: 'nll',
      lossFormula: null,
    }
    expect(resolveSftConfig({})).toEqual(defaults)
    expect(
      resolveSftConfig({ batch_size: 'auto', learning_rate: null, metric_logging: null, experimental_config: null }),
    ).toEqual(defaults)
  })

  it('reads a list of learning rates, metric logging and extensions', () => {
    const config = resolveSftConfig({
      learning_rate: [1e-4, 0],
      metric_logging: { enabled: true, target_training_step: 3 },
      experimental_config: { lora: { rank: 2 }, seed: 5, anything: 1 },
    })
    expect(config).toMatchObject({
      learningRate: [1e-4, 0],
      metricLogging: { enabled: true, target_training_step: 3 },
      lora: { rank: 2, alpha: 16 },
      seed: 5,
    })
  })

  it('takes any variable of a template, and an object without any', () => {
    const kwargs = { enable_thinking: false, thinking_budget: 512, style: { tone: ['dry'] } }
    expect(resolveSftConfig({ chat_template_kwargs: kwargs }).chatTemplateKwargs).toEqual(kwargs)
    expect(resolveSftConfig({ chat_template_kwargs: {} }).chatTemplateKwargs).toEqual({})
    const experimental_config = { chat_template_kwargs: kwargs }
    expect(resolveSftConfig({ experimental_config }).chatTemplateKwargs).toEqual(kwargs)
    expect(resolveDpoConfig({ chat_template_kwargs: kwargs }).chatTemplateKwargs).toEqual(kwargs)
  })

  const refused: [Record<string, unknown>, string][] = [
    [{ batch_size: 0 }, 'config.batch_size'],
    [{ chat_template_kwargs: 'enable_thinking' }, 'config.chat_template_kwargs'],
    [{ chat_template_kwargs: { tools: [] } }, 'config.chat_template_kwargs.tools'],
    [{ chat_template_kwargs: { chat_template: 'x' } }, 'config.chat_template_kwargs.chat_template'],
    [{ batch_size: 'many' }, 'config.batch_size'],
    [{ learning_rate: [] }, 'config.learning_rate'],
    [{ learning_rate: [1e-4, -1] }, 'config.learning_rate[1]'],
    [{ assistant_turns: 'first' }, 'config.assistant_turns'],
    [{ metric_logging: { enabled: true, target_training_step: -1 } }, 'config.metric_logging.target_training_step'],
  ]
  for (const [config, param] of refused) {
    it(`refuses ${JSON.stringify(config)} naming ${param}`, () => {
      expect(() => resolveSftConfig(config as Parameters<typeof resolveSftConfig>[0])).toThrow(
        expect.objectContaining({ code: 'invalid_value', param }),
      )
    })
  }
})
