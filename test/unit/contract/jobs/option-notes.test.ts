/**
 * Options that do nothing are found by name, at every depth; options that cannot be honoured are refused by name.
 */
import { describe, expect, it } from 'vitest'
import { assertNoUnusedOptions, assertSupportedOptions, optionWarnings } from '#contract/jobs/option-notes.js'
import { findUnusedOptions } from '#contract/jobs/unused-options.js'

const messages = (kind: 'rl' | 'sft' | 'dpo', config: Parameters<typeof findUnusedOptions>[1]) =>
  findUnusedOptions(kind, config).map(({ message }) => message)

describe('options without effect', () => {
  it('are named with the word that was meant', () => {
    expect(
      messages('rl', { learing_rate: 0.1, learning_rate: 0.1, lora: { rank: 4, alhpa: 8 }, frobnicate: 1 }),
    ).toEqual([
      'experimental_config.learing_rate is not a known option and has no effect; did you mean "learning_rate"?',
      'experimental_config.lora.alhpa is not a known option and has no effect; did you mean "alpha"?',
      'experimental_config.frobnicate is not a known option and has no effect',
    ])
    const sft = { batch_sise: 4, metric_logging: { enable: true }, experimental_config: { seed: 1, batch_size: 2 } }
    expect(messages('sft', sft)).toEqual([
      'config.batch_sise is not a known option and has no effect; did you mean "batch_size"?',
      'config.metric_logging.enable is not a known option and has no effect; did you mean "enabled"?',
      'experimental_config.batch_size has no effect there: it is an option of config',
    ])
  })

  it('are named with our word where TRL has another', () => {
    const said = (kind: 'rl' | 'sft' | 'dpo', name: string) => messages(kind, { [name]: 2 })[0]
    expect(said('rl', 'num_iterations')).toContain('did you mean "num_passes"?')
    expect(said('rl', 'vllm_importance_sampling_cap')).toContain('did you mean "truncated_importance_sampling"?')
    expect(said('sft', 'num_train_epochs')).toContain('did you mean "epochs"?')
    expect(said('dpo', 'lr_scheduler_type')).toContain('did you mean "learning_rate_schedule"?')
  })

  it('are those of experimental_config that config says otherwise', () => {
    const message = 'experimental_config.epochs has no effect beside config.epochs, which says otherwise'
    expect(messages('sft', { epochs: 1, experimental_config: { epochs: 2, seed: 1 } })).toEqual([message])
    expect(messages('sft', { epochs: 2, experimental_config: { epochs: 2 } })).toEqual([])
    expect(messages('sft', { epochs: null, experimental_config: { epochs: 2 } })).toEqual([])
    expect(() => assertNoUnusedOptions('sft', { epochs: 1, experimental_config: { epochs: 2 } })).toThrow(message)
  })

  it('are not what the ART client sends when its user changes nothing', () => {
    const sent = {
      learning_rate: 5e-6,
      ppo: false,
      logprob_calculation_chunk_size: 1024,
      plot_tensors: false,
      epsilon: null,
    }
    expect(messages('rl', { ...sent, scale_learning_rate_by_reward_std_dev: false })).toEqual([])
    expect(
      messages('sft', { learning_rate: [1e-4], metric_logging: { enabled: true, target_training_step: 3 } }),
    ).toEqual([])
  })

  it('are known ones too, where the option that they belong to is left out', () => {
    const needsCoefficient =
      'experimental_config.kl_penalty_reference_step has no effect without kl_penalty_coef or beta'
    expect(messages('rl', { kl_penalty_reference_step: 0 })).toEqual([needsCoefficient])
    expect(messages('rl', { kl_penalty_reference_step: 2, kl_penalty_coef: 0 })).toEqual([needsCoefficient])
    expect(messages('rl', { kl_penalty_reference_step: 0, kl_penalty_coef: 0.1 })).toEqual([])
    expect(messages('rl', { kl_penalty_reference_step: null })).toEqual([])
    expect(messages('sft', { min_learning_rate: 1e-5, learning_rate_schedule: 'constant' })).toEqual([
      'config.min_learning_rate has no effect without learning_rate_schedule linear or cosine, warmup_steps or warmup_ratio',
    ])
    for (const scheduled of [{ learning_rate_schedule: 'linear' }, { warmup_steps: 1 }]) {
      expect(messages('sft', { min_learning_rate: 1e-5, ...scheduled })).toEqual([])
      expect(messages('sft', { min_learning_rate: 1e-5, experimental_config: scheduled })).toEqual([])
    }
    expect(messages('sft', { min_learning_rate: 0 })).toEqual([])
    const source = 'experimental_config.kl_penalty_source has no effect without kl_penalty_coef'
    expect(messages('rl', { kl_penalty_source: 'sample' })).toEqual([source])
    expect(messages('rl', { kl_penalty_source: 'sample', kl_penalty_coef: 0.1 })).toEqual([])
    // openpipe-art sends its defaults with every request
    expect(messages('rl', { kl_penalty_source: 'current_learner' })).toEqual([])
    for (const kind of ['sft', 'dpo'] as const) {
      expect(messages(kind, { early_stopping_min_delta: 0.1 })).toEqual([
        'config.early_stopping_min_delta has no effect without early_stopping_patience',
      ])
      expect(messages(kind, { early_stopping_min_delta: 0.1, early_stopping_patience: 2 })).toEqual([])
      expect(messages(kind, { early_stopping_min_delta: 0 })).toEqual([])
    }
  })

  it('include a step for metrics that the job did not make', () => {
    const config = { metric_logging: { enabled: true, target_training_step: '5' } }
    expect(optionWarnings('sft', config, null)).toEqual([])
    expect(optionWarnings('sft', config, 5)).toEqual([])
    expect(optionWarnings('sft', config, 3)).toEqual([
      'config.metric_logging.target_training_step is 5, but the job made step 3: its metrics stand there',
    ])
  })

  it('are refused all at once when asked', () => {
    expect(() => assertNoUnusedOptions('rl', { seed: 1 })).not.toThrow()
    expect(() => assertNoUnusedOptions('rl', { a: 1, b: 2 })).toThrow(
      expect.objectContaining({
        code: 'unknown_option',
        problems: [
          expect.objectContaining({ loc: ['body', 'experimental_config', 'a'], type: 'extra_forbidden' }),
          expect.objectContaining({ loc: ['body', 'experimental_config', 'b'] }),
        ],
      }),
    )
  })
})

describe('options that cannot be honoured', () => {
  it('are refused by name, all at once', () => {
    const config = {
      scale_learning_rate_by_reward_std_dev: 'true',
      lora: { rank: 8, dropout: 0.1 },
    }
    expect(() => assertSupportedOptions('rl', config)).toThrow(
      expect.objectContaining({
        code: 'unsupported_option',
        param: 'experimental_config.scale_learning_rate_by_reward_std_dev',
        message: expect.stringMatching(/reward_std_dev is not.*lora\.dropout is not/),
      }),
    )
    expect(() => assertSupportedOptions('rl', { plot_tensors: true })).toThrow('plot_tensors is not supported')
    expect(() => assertSupportedOptions('sft', { experimental_config: { lora: { dropout: 0.5 } } })).toThrow(
      'lora.dropout',
    )
    expect(() => assertSupportedOptions('dpo', { lora: { alpha_pattern: { q_proj: 4 } } })).toThrow(
      expect.objectContaining({
        code: 'unsupported_option',
        message: expect.stringContaining('lora.alpha_pattern is not'),
      }),
    )
  })

  it('may be given with the value that is used anyway', () => {
    const targets = ['down_proj', 'q_proj', 'k_proj', 'v_proj', 'o_proj', 'gate_proj', 'up_proj']
    const lora = { rank: 4, dropout: 0, alpha_pattern: {}, target_modules: targets }
    expect(() => assertSupportedOptions('rl', { lora, scale_learning_rate_by_reward_std_dev: false })).not.toThrow()
    expect(() => assertSupportedOptions('sft', { lora: { target_modules: 'all-linear' } })).not.toThrow()
  })
})
