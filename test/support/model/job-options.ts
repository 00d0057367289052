/** What a job of a kind is trained with for options of a request, as a test writes them. */
import type { JsonObject } from '#base/util/json.js'
import { readOptions } from '#contract/jobs/kinds.js'
import { resolveOptions } from '#contract/jobs/resolve.js'
import { dpoHyperparameters } from '#training/kinds/dpo/dpo-hyperparameters.js'
import { rlHyperparameters } from '#training/kinds/rl/rl-hyperparameters.js'
import { toHyperparameters } from '#training/trainer/hyperparameters.js'

export const resolveRlConfig = (config: JsonObject) =>
  rlHyperparameters(readOptions('rl', resolveOptions('rl', config)))
export const resolveSftConfig = (config: JsonObject) =>
  toHyperparameters(readOptions('sft', resolveOptions('sft', config)))
export const resolveDpoConfig = (config: JsonObject) =>
  dpoHyperparameters(readOptions('dpo', resolveOptions('dpo', config)))
