/**
 * What a job runs with, in the words of the API: every option of its request with its default, and what follows from others.
 *
 * Resolving what was resolved changes nothing. Known only when the job runs, and null here: an adapter's shape that nobody chose is the
 * model's, a seed is the job's id, rows are as long as the data asks for.
 */

import { type JsonObject, type JsonValue, withoutNulls } from '#base/util/json.js'
import type { JobKind } from '#contract/wire/job-words.js'
import { dpoOptionsSchema, parseOptions, rlOptionsSchema, sftOptionsSchema } from '#contract/wire/training-options.js'
import { flatSftConfig, resolveDpoConfig, resolveRlConfig, resolveSftConfig } from './hyperparameters.js'

const RESOLVE: Readonly<Record<JobKind, (config: JsonObject) => JsonObject>> = {
  rl: (config) => {
    const { policyLoss, ...hyperparameters } = resolveRlConfig(config)
    const options = parseOptions(rlOptionsSchema, config, 'experimental_config')
    return {
      ...allOf(rlOptionsSchema.shape, options),
      loss_fn: policyLoss.loss,
      epsilon: policyLoss.epsilon,
      epsilon_high: policyLoss.epsilonHigh,
      alt_k2_tau: policyLoss.tau,
      max_negative_advantage_importance_sampling_weight: policyLoss.maxRatio,
      truncated_importance_sampling: policyLoss.truncation?.limit ?? null,
      scale_rewards: hyperparameters.scaleRewards,
      precalculate_logprobs: hyperparameters.precalculateLogprobs,
    }
  },
  sft: (config) => {
    const options = parseOptions(sftOptionsSchema, flatSftConfig(config), 'config')
    return { ...allOf(sftOptionsSchema.shape, options), ...rowDefaults(resolveSftConfig(config)) }
  },
  dpo: (config) => {
    const options = parseOptions(dpoOptionsSchema, config, 'config')
    return { ...allOf(dpoOptionsSchema.shape, options), ...rowDefaults(resolveDpoConfig(config)) }
  },
}

/** Names that mean the same as another one, or that only refuse. */
const LEFT_OUT = new Set(['ppo', 'kimi_k2_tau', 'scale_learning_rate_by_reward_std_dev', 'plot_tensors', 'loss_type'])

/**
 * @param config of the request, nulls allowed; `experimental_config` of an SFT job stands inside
 * @throws {RequestValidationError} `invalid_value` naming every wrong option
 * @example resolvedConfig('rl', { ppo: true }) // { learning_rate: 5e-6, loss_fn: 'ppo', epsilon: 0.2, … }
 */
export function resolvedConfig(kind: JobKind, config: JsonObject): JsonObject {
  return RESOLVE[kind](withoutNulls(config))
}

function rowDefaults({
  batchSize,
  isBestKept,
}: {
  readonly batchSize: number
  readonly isBestKept: boolean
}): JsonObject {
  return { batch_size: batchSize, keep_best: isBestKept }
}

/** Every option there is; null for one that is not set. */
function allOf(shape: Readonly<Record<string, unknown>>, options: Readonly<Record<string, unknown>>): JsonObject {
  const names = Object.keys(shape).filter((name) => !LEFT_OUT.has(name))
  return Object.fromEntries(names.map((name) => [name, (options[name] ?? null) as JsonValue]))
}
