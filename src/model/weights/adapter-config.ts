/**
 * The shape of an adapter (targets, ranks, scales), read from and written as PEFT's `adapter_config.json`. Knows no tensors.
 *
 * A module's change is scaled by alpha / rank, with rsLoRA (arXiv:2312.03732) by alpha / sqrt(rank), where the rank is the module's
 * own. Settings that give the same files another meaning (DoRA, trained biases, extra modules, initializations that change W) are
 * refused.
 * Source: PEFT's `LoraConfig` and `get_pattern_key` (0.17).
 */
import { WeightsError } from '#base/errors/errors.js'
import { isJsonObject, type JsonObject, type JsonValue } from '#base/util/json.js'

const MAX_RANK = 1024

/** Fields of PEFT's LoraConfig (0.21) that change what the same tensors mean. */
export const UNSUPPORTED_SWITCHES = [
  'use_dora',
  'use_qalora',
  'use_bdlora',
  'fan_in_fan_out',
  'lora_bias',
  'ensure_weight_tying',
]
/** Such that are more than a switch. */
export const UNSUPPORTED_SETTINGS = [
  'alora_invocation_tokens',
  'alpha_pattern',
  'arrow_config',
  'kasa_config',
  'layer_replication',
  'megatron_config',
  'modules_to_save',
  'target_parameters',
  'trainable_token_indices',
  'velora_config',
]

/**
 * Values of `init_lora_weights` that leave the base model as it is. The others (PiSSA, OLoRA, CorDA, LoftQ, LoRA-GA) take what A and B
 * begin with out of W, so such an adapter belongs to weights that are in no file.
 */
const PLAIN_BEGINNINGS: readonly (JsonValue | undefined)[] = [
  undefined,
  null,
  true,
  false,
  'gaussian',
  'eva',
  'orthogonal',
]

/** What of an adapter its graphs are made of. */
export interface AdapterForm {
  /** R of modules that no pattern names. */
  readonly rank: number
  readonly alpha: number
  /** Last names of the adapted modules: `q_proj`, `down_proj`. Absent: every projection. */
  readonly targets?: readonly string[]
  /** Absent: false. */
  readonly usesRslora?: boolean
  /** Ranks by the end of a module's path, whole names: `q_proj`, `layers.0.mlp.down_proj`; the first that fits counts. Absent: none. */
  readonly rankPattern?: Readonly<Record<string, number>>
}

/** The form of an adapter in memory. */
export interface AdapterConfig extends AdapterForm {
  readonly targets: readonly string[]
}

/** R of the module of this path. */
export function rankOf({ rank, rankPattern = {} }: AdapterForm, path: string): number {
  const own = Object.entries(rankPattern).find(([name]) => path === name || path.endsWith(`.${name}`))
  return own?.[1] ?? rank
}

/** What the product of the module's B and A is multiplied with. */
export function scaleOf(form: AdapterForm, path: string): number {
  const rank = rankOf(form, path)
  return form.alpha / (form.usesRslora === true ? Math.sqrt(rank) : rank)
}

/** Whether modules of this path's name are adapted. */
export function isAdapted({ targets }: AdapterForm, path: string): boolean {
  return targets === undefined || targets.includes(path.slice(path.lastIndexOf('.') + 1))
}

/** The fields PEFT writes for a LoRA, keys in alphabetical order as PEFT sorts them. */
export function peftConfig(
  { rank, alpha, targets, usesRslora = false, rankPattern = {} }: AdapterConfig,
  baseModelName: string,
): JsonObject {
  return {
    base_model_name_or_path: baseModelName,
    bias: 'none',
    fan_in_fan_out: false,
    inference_mode: true,
    init_lora_weights: true,
    layers_pattern: null,
    layers_to_transform: null,
    lora_alpha: alpha,
    lora_dropout: 0,
    modules_to_save: null,
    peft_type: 'LORA',
    r: rank,
    // without patterns the file is as it always was
    ...(Object.keys(rankPattern).length === 0 ? {} : { rank_pattern: rankPattern }),
    revision: null,
    target_modules: [...targets].sort(),
    task_type: 'CAUSAL_LM',
    use_dora: false,
    use_rslora: usesRslora,
  }
}

/**
 * Checks PEFT's configuration, but for the modules that it names: `checkAdaptedModules` compares those with the tensors.
 *
 * @param folded fields that the caller folds into the tensors
 * @throws {WeightsError} `invalid_adapter`, `unsupported_adapter`
 */
export function parsePeftConfig(json: JsonObject, folded: readonly string[] = []): AdapterForm {
  const { r: rank, lora_alpha: alpha, peft_type: peftType } = json
  if (peftType !== 'LORA') throw unsupported(`has peft_type ${JSON.stringify(peftType)}, expected "LORA"`)
  if (typeof rank !== 'number' || !Number.isInteger(rank) || rank < 1 || rank > MAX_RANK) {
    throw invalid(`has r ${JSON.stringify(rank)}, expected an integer from 1 to ${MAX_RANK}`)
  }
  if (typeof alpha !== 'number' || !Number.isFinite(alpha)) {
    throw invalid(`has lora_alpha ${JSON.stringify(alpha)}, expected a number`)
  }
  for (const key of [...UNSUPPORTED_SWITCHES, 'use_rslora']) checkSwitch(json, key)
  for (const key of UNSUPPORTED_SWITCHES) {
    if (json[key] === true && !folded.includes(key)) throw unsupported(`has ${key} true, expected false`)
  }
  for (const key of UNSUPPORTED_SETTINGS) {
    if (!isEmpty(json[key]) && !folded.includes(key)) throw unsupported(`has ${key}, expected none`)
  }
  const beginning = json['init_lora_weights']
  if (!PLAIN_BEGINNINGS.includes(beginning)) {
    throw unsupported(
      `has init_lora_weights ${JSON.stringify(beginning)}, which changes the base model's weights too, expected a plain LoRA`,
      'convert it in PEFT: save_pretrained(..., path_initial_model_for_weight_conversion=...), or merge it into its base model',
    )
  }
  if (json['bias'] !== undefined && json['bias'] !== 'none') {
    throw unsupported(`has bias ${JSON.stringify(json['bias'])}, expected "none"`)
  }
  return {
    rank,
    alpha,
    ...(json['use_rslora'] === true ? { usesRslora: true } : {}),
    ...(isEmpty(json['rank_pattern']) || folded.includes('rank_pattern')
      ? {}
      : { rankPattern: readRankPattern(json['rank_pattern']) }),
  }
}

/** PEFT takes whatever Python takes for true, the text "false" among it: what is no switch is not guessed at. */
function checkSwitch(json: JsonObject, key: string): void {
  const value = json[key] ?? null
  if (value === null || typeof value === 'boolean') return
  throw invalid(`has ${key} ${JSON.stringify(value).slice(0, 100)}, expected true or false`)
}

/** Whole names only: PEFT's patterns are regular expressions, of which jobs here write none. */
function readRankPattern(given: JsonValue | undefined): Readonly<Record<string, number>> {
  if (!isJsonObject(given)) throw invalid('has rank_pattern that is no object of names')
  return Object.fromEntries(
    Object.entries(given).map(([name, rank]) => {
      if (!/^\w+(\.\w+)*$/.test(name)) {
        throw unsupported(`has rank_pattern with "${name.slice(0, 100)}", expected whole names of modules as "q_proj"`)
      }
      if (typeof rank !== 'number' || !Number.isInteger(rank) || rank < 1 || rank > MAX_RANK) {
        const got = JSON.stringify(rank)
        throw invalid(`has rank_pattern with "${name}": ${got}, expected an integer from 1 to ${MAX_RANK}`)
      }
      return [name, rank]
    }),
  )
}

function isEmpty(value: JsonValue | undefined): boolean {
  if (value === undefined || value === null) return true
  if (Array.isArray(value)) return value.length === 0
  return isJsonObject(value) && Object.keys(value).length === 0
}

function invalid(problem: string): WeightsError {
  return new WeightsError('invalid_adapter', `adapter ${problem}`)
}

function unsupported(problem: string, hint?: string): WeightsError {
  return new WeightsError('unsupported_adapter', `adapter ${problem}`, { hint })
}
