/** The options a job runs with: all of them, with what follows from others, and resolved once for ever. */
import { describe, expect, test } from 'vitest'
import type { JsonObject } from '#base/util/json.js'
import { JOB_DEFINITIONS, readOptions } from '#contract/jobs/kinds.js'
import { recordOptions, resolveOptions } from '#contract/jobs/resolve.js'
import type { JobKind } from '#contract/wire/job-words.js'

const recorded = (kind: JobKind, config: JsonObject) => recordOptions(kind, resolveOptions(kind, config))

describe('the record of a job', () => {
  test('has every option with its default, and what follows from others', () => {
    expect(recorded('rl', {})).toMatchObject({
      learning_rate: 5e-6,
      loss_fn: 'cispo',
      epsilon: 1,
      epsilon_high: 4,
      target_kl: null,
      tokens_per_step: null,
      scale_rewards: true,
    })
    expect(recorded('rl', { ppo: true, target_kl: null })).toMatchObject({ loss_fn: 'ppo', epsilon_high: 0.2 })
    expect(recorded('rl', { loss_fn: 'gspo' })).toMatchObject({
      epsilon: 3e-4,
      epsilon_high: 4e-4,
      importance_sampling_level: 'sequence',
    })
    expect(recorded('rl', { loss_fn: 'dr_grpo' })).toMatchObject({
      epsilon: 0.2,
      epsilon_high: 0.2,
      scale_rewards: false,
      scale_batch: false,
      loss_aggregation: 'constant',
    })
    expect(recorded('rl', { loss_fn: 'dro' })).toMatchObject({ epsilon: null, epsilon_high: null, scale_batch: true })
    expect(recorded('rl', { advantage_estimator: 'leave_one_out' })).toMatchObject({ scale_batch: false })
    expect(recorded('rl', { soft_overlength_limit: 100 })).toMatchObject({ soft_overlength_buffer: 20 })
    expect(recorded('sft', {})).toMatchObject({ learning_rate: 5e-5, batch_size: 2, epochs: 1, keep_best: false })
    expect(recorded('dpo', { early_stopping_patience: 2 })).toMatchObject({ beta: 0.1, keep_best: true })
    expect(recorded('rl', {})).not.toHaveProperty('ppo')
    expect(recorded('dpo', {})).toMatchObject({ loss_type: 'sigmoid', rpo_alpha: 0, reference_free: false })
    expect(recorded('dpo', { loss_type: 'orpo' })).toMatchObject({ beta: 0.1, rpo_alpha: 1, reference_free: true })
    expect(recorded('dpo', { loss_type: 'simpo', rpo_alpha: 0.5 })).toMatchObject({ beta: 2, rpo_alpha: 0.5 })
  })

  test.each<[JobKind, JsonObject]>([
    ['rl', {}],
    ['rl', { ppo: true, kimi_k2_tau: 0.1, lora: { rank: 2 }, seed: 3 }],
    ['rl', { truncated_importance_sampling: 2, normalize_advantages: false, mask_prob_ratio: true }],
    ['rl', { truncated_importance_sampling: 0, max_negative_advantage_importance_sampling_weight: 0 }],
    ['rl', { loss_fn: 'gspo' }],
    ['rl', { num_passes: 3, allow_training_without_logprobs: true }],
    ['rl', { loss_fn: 'dr_grpo', max_completion_length: 512 }],
    ['rl', { loss_fn: 'dro', dro_beta: 0.1 }],
    ['rl', { loss_fn: 'importance_sampling', advantage_estimator: 'leave_one_out', scale_batch: true }],
    ['rl', { soft_overlength_limit: 100, entropy_coef: 0.01, beta: 0.1, advantage_estimator: 'batch' }],
    ['rl', { kl_penalty_coef: 0.1, kl_penalty_step_lag: 2, tokens_per_step: 64, target_kl: 0.2 }],
    ['sft', {}],
    ['sft', { learning_rate: [1e-3, 1e-4], metric_logging: { enabled: true, target_training_step: 3 } }],
    ['sft', { experimental_config: { epochs: 3, seed: 5, lora: { rank: 4 } }, warmup_steps: 2 }],
    ['sft', { early_stopping_patience: 2, validation_interval: 4 }],
    ['dpo', {}],
    ['dpo', { loss_type: 'kto', undesirable_weight: 2, batch_size: 4 }],
    ['dpo', { reference_free: true, batch_size: 3, learning_rate_schedule: 'cosine' }],
    ['dpo', { reference_step: 0, label_smoothing: 0.1 }],
    ['dpo', { loss_type: 'orpo', beta: 0.2 }],
    ['dpo', { loss_type: 'simpo', simpo_gamma: 1, label_smoothing: 0.1 }],
  ])('is what it runs with, read back from JSON, and resolving it again changes nothing: %s %j', (kind, config) => {
    const resolved = resolveOptions(kind, config)
    const stored = JSON.parse(JSON.stringify(recordOptions(kind, resolved))) as JsonObject
    const told = new Set(Object.keys(stored))
    const read: JsonObject = readOptions(kind, stored)
    for (const [name, value] of Object.entries(resolved)) if (told.has(name)) expect(read[name], name).toEqual(value)
    expect(recorded(kind, stored)).toEqual(stored)
    const { referenceOf } = JOB_DEFINITIONS[kind]
    expect(referenceOf(read)).toEqual(referenceOf(resolved))
  })

  test('of a version that did not know an option is read with its default', () => {
    const { weight_decay: _, ...older } = recorded('sft', { batch_size: 4 })
    expect(readOptions('sft', older)).toMatchObject({ batch_size: 4, weight_decay: 0 })
  })
})
