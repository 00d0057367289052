/**
 * What the configuration of an adapter from elsewhere says of its tensors, for the two layouts in use: PEFT's `adapter_config.json` and
 * that of mlx-lm, whose file has the same name and other fields.
 *
 * Knows no tensors. Source: PEFT's `LoraConfig` and `get_pattern_key` (0.17), mlx-lm's `linear_to_lora_layers` (0.28).
 */
import { runInNewContext } from 'node:vm'
import { WeightsError } from '#base/errors/errors.js'
import { isJsonObject, type JsonObject } from '#base/util/json.js'
import { parsePeftConfig } from '../adapter-config.js'

/** How an adapter's tensors are meant. */
export interface AdapterSettings {
  readonly layout: 'peft' | 'mlx'
  /** Ranks that tensors may have. */
  readonly ranks: ReadonlySet<number>
  /** What the product of a module's B and A is multiplied with. */
  readonly scaleOf: (path: string, rank: number) => number
  /** Rows are brought to a trained length (DoRA, arXiv:2402.09353). */
  readonly isDora: boolean
  /** Sentences: what of it has no effect here. */
  readonly notes: readonly string[]
  readonly namedBaseModel: string | null
}

/** Fields that are folded into the tensors or have no effect, where an adapter as it is stored here has none. */
const FOLDED = ['alpha_pattern', 'fan_in_fan_out', 'modules_to_save', 'rank_pattern', 'use_dora', 'use_rslora'] as const
const MAX_PATTERN = 1000
/** Of one pattern on one path: one that backtracks comes to no end by itself. */
const PATTERN_MS = 5000

/**
 * Reads a configuration of either layout.
 *
 * @throws {WeightsError} `invalid_adapter`, `unsupported_adapter`
 */
export function readAdapterSettings(json: JsonObject): AdapterSettings {
  const isMlx =
    json['peft_type'] === undefined && (isJsonObject(json['lora_parameters']) || has(json, 'fine_tune_type'))
  return isMlx ? mlxSettings(json) : peftSettings(json)
}

function peftSettings(json: JsonObject): AdapterSettings {
  const { rank, alpha } = parsePeftConfig(json, FOLDED)
  const alphas = numberMap(json, 'alpha_pattern')
  const ranks = numberMap(json, 'rank_pattern')
  const isStabilized = json['use_rslora'] === true
  return {
    layout: 'peft',
    ranks: new Set([rank, ...ranks.values()]),
    scaleOf: (path, rankOfModule) => {
      const pattern = [...alphas.keys()].find((key) => matches(key, path))
      const own = (pattern === undefined ? undefined : alphas.get(pattern)) ?? alpha
      return own / (isStabilized ? Math.sqrt(rankOfModule) : rankOfModule)
    },
    isDora: json['use_dora'] === true,
    notes:
      json['fan_in_fan_out'] === true
        ? [
            'its fan_in_fan_out has no effect: the base model keeps linear weights as [out, in], where PEFT turns it off',
          ]
        : [],
    namedBaseModel: textOf(json['base_model_name_or_path']),
  }
}

function mlxSettings(json: JsonObject): AdapterSettings {
  const kind = json['fine_tune_type'] ?? (json['use_dora'] === true ? 'dora' : 'lora')
  if (kind !== 'lora' && kind !== 'dora' && kind !== 'full') {
    throw new WeightsError(
      'unsupported_adapter',
      `adapter has fine_tune_type ${JSON.stringify(kind)}, expected lora, dora or full`,
    )
  }
  const given = json['lora_parameters']
  const { rank, scale } = isJsonObject(given) ? given : {}
  if (kind !== 'full') {
    if (typeof rank !== 'number' || !Number.isInteger(rank) || rank < 1) {
      throw invalid(`has lora_parameters.rank ${JSON.stringify(rank)}, expected a whole number above zero`)
    }
    if (typeof scale !== 'number' || !Number.isFinite(scale)) {
      throw invalid(`has lora_parameters.scale ${JSON.stringify(scale)}, expected a number`)
    }
  }
  return {
    layout: 'mlx',
    ranks: new Set(typeof rank === 'number' ? [rank] : []),
    scaleOf: () => (typeof scale === 'number' ? scale : 0),
    isDora: kind === 'dora',
    notes: [],
    namedBaseModel: textOf(json['model']),
  }
}

/** Patterns with their numbers, in the order of the file, which decides. */
function numberMap(json: JsonObject, name: string): ReadonlyMap<string, number> {
  const given = json[name] ?? {}
  if (!isJsonObject(given)) throw invalid(`has ${name} that is no object of patterns`)
  return new Map(
    Object.entries(given).map(([pattern, value]) => {
      if (typeof value !== 'number' || !Number.isFinite(value)) {
        throw invalid(
          `has ${name} with ${JSON.stringify(pattern.slice(0, 100))}: ${JSON.stringify(value)}, expected a number`,
        )
      }
      if (pattern.length > MAX_PATTERN) throw invalid(`has ${name} with a pattern of ${pattern.length} characters`)
      return [pattern, value]
    }),
  )
}

/** PEFT: `re.match(rf"(.*\.)?({key})$", path)`. Under a limit, because the pattern is a stranger's. */
function matches(pattern: string, path: string): boolean {
  if (/^[\w.]+$/.test(pattern) && !pattern.includes('.')) return path === pattern || path.endsWith(`.${pattern}`)
  try {
    const source = `^(?:.*\\.)?(?:${pattern})$`
    return runInNewContext('new RegExp(source).test(path)', { source, path }, { timeout: PATTERN_MS }) === true
  } catch (cause) {
    throw new WeightsError('invalid_adapter', `adapter has alpha_pattern with "${pattern}", which cannot be matched`, {
      hint: 'write names of modules instead, for example "q_proj" or "layers.0.self_attn.q_proj"',
      cause,
    })
  }
}

function has(json: JsonObject, name: string): boolean {
  return (json[name] ?? null) !== null
}

function textOf(value: unknown): string | null {
  return typeof value === 'string' ? value : null
}

function invalid(problem: string): WeightsError {
  return new WeightsError('invalid_adapter', `adapter ${problem}`)
}
