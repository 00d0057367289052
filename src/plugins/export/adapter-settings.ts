/**
 * What the configuration of an adapter from elsewhere says of its tensors, for the two layouts in use: PEFT's `adapter_config.json` and
 * that of mlx-lm, whose file has the same name and other fields.
 *
 * Knows no tensors. Source: PEFT's `LoraConfig` and `get_pattern_key` (0.17), mlx-lm's `linear_to_lora_layers` (0.28).
 */
import { runInNewContext } from 'node:vm'
import { WeightsError } from '#base/errors/errors.js'
import { isJsonObject, type JsonObject } from '#base/util/json.js'
import { checkAdaptedModules, type NamedModule } from '#model/weights/adapted-modules.js'
import { parsePeftConfig, UNSUPPORTED_SETTINGS, UNSUPPORTED_SWITCHES } from '#model/weights/adapter-config.js'

/** How an adapter's tensors are meant. */
export interface AdapterSettings {
  readonly layout: 'peft' | 'mlx'
  /** R of the module. */
  readonly rankOf: (module: NamedModule) => number
  /** What the product of a module's B and A is multiplied with. */
  readonly scaleOf: (module: NamedModule, rank: number) => number
  /** Rows are brought to a trained length (DoRA, arXiv:2402.09353). */
  readonly isDora: boolean
  /** Sentences: what of it has no effect here. */
  readonly notes: readonly string[]
  /**
   * Compares what it names with the modules that have tensors of low rank.
   *
   * @returns sentences, as `notes`
   * @throws {WeightsError} `invalid_adapter` for tensors that it does not name
   */
  readonly checkModules: (modules: readonly NamedModule[]) => readonly string[]
  readonly namedBaseModel: string | null
}

/** Fields that are folded into the tensors or have no effect, where an adapter as it is stored here has none. */
const FOLDED = ['alpha_pattern', 'fan_in_fan_out', 'modules_to_save', 'rank_pattern', 'use_dora', 'use_rslora'] as const
/** Fields of PEFT's LoraConfig (0.21) that change nothing of a trained adapter; those that do are checked by name. */
const IDLE = new Set([
  'auto_mapping',
  'base_model_name_or_path',
  'corda_config',
  'eva_config',
  'inference_mode',
  'init_lora_weights',
  'loftq_config',
  'lora_alpha',
  'lora_dropout',
  'lora_ga_config',
  'megatron_core',
  'peft_type',
  'peft_version',
  'qalora_group_size',
  'r',
  'revision',
  'runtime_config',
  'task_type',
  'bias',
])
const CHECKED = new Set([
  ...FOLDED,
  ...UNSUPPORTED_SWITCHES,
  ...UNSUPPORTED_SETTINGS,
  'target_modules',
  'exclude_modules',
  'layers_to_transform',
  'layers_pattern',
])
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
  checkSaved(json)
  const unknown = Object.keys(json).filter((name) => !IDLE.has(name) && !CHECKED.has(name) && !isOff(json[name]))
  return {
    layout: 'peft',
    rankOf: (module) => ofPattern('rank_pattern', ranks, module) ?? rank,
    scaleOf: (module, rankOfModule) => {
      const own = ofPattern('alpha_pattern', alphas, module) ?? alpha
      return own / (isStabilized ? Math.sqrt(rankOfModule) : rankOfModule)
    },
    isDora: json['use_dora'] === true,
    notes: [
      ...(json['fan_in_fan_out'] === true
        ? [
            'its fan_in_fan_out has no effect: the base model keeps linear weights as [out, in], where PEFT turns it off',
          ]
        : []),
      ...(unknown.length === 0
        ? []
        : [
            `its adapter_config.json has ${unknown.slice(0, 20).join(', ')}, which is not known here and has no effect`,
          ]),
    ],
    checkModules: (modules) => checkAdaptedModules(json, modules),
    namedBaseModel: textOf(json['base_model_name_or_path']),
  }
}

const isOff = (value: unknown): boolean => value === undefined || value === null || value === false

function checkSaved(json: JsonObject): void {
  const saved = json['modules_to_save'] ?? []
  if (Array.isArray(saved) && saved.every((name) => typeof name === 'string')) return
  throw invalid(`has modules_to_save ${JSON.stringify(saved).slice(0, 100)}, expected a list of names`)
}

/** Of the first pattern that fits, as in PEFT: its name of the module, and where none does, the one that it has here. */
function ofPattern(
  field: string,
  patterns: ReadonlyMap<string, number>,
  { given, path }: NamedModule,
): number | undefined {
  const fitting = (name: string) => [...patterns.keys()].find((key) => matches(field, key, name))
  const pattern = fitting(given) ?? (given === path ? undefined : fitting(path))
  return pattern === undefined ? undefined : patterns.get(pattern)
}

function mlxSettings(json: JsonObject): AdapterSettings {
  if (!isOff(json['use_dora']) && json['use_dora'] !== true) {
    throw invalid(`has use_dora ${JSON.stringify(json['use_dora']).slice(0, 100)}, expected true or false`)
  }
  const kind = json['fine_tune_type'] ?? (json['use_dora'] === true ? 'dora' : 'lora')
  if (kind !== 'lora' && kind !== 'dora' && kind !== 'full') {
    throw new WeightsError(
      'unsupported_adapter',
      `adapter has fine_tune_type ${JSON.stringify(kind)}, expected lora, dora or full`,
    )
  }
  const given = json['lora_parameters']
  const { rank, scale, keys = null } = isJsonObject(given) ? given : {}
  if (keys !== null && !(Array.isArray(keys) && keys.every((name) => typeof name === 'string'))) {
    throw invalid(`has lora_parameters.keys ${JSON.stringify(keys).slice(0, 100)}, expected a list of names`)
  }
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
    rankOf: () => (typeof rank === 'number' ? rank : 0),
    scaleOf: () => (typeof scale === 'number' ? scale : 0),
    isDora: kind === 'dora',
    notes: [],
    checkModules: (modules) => {
      const other =
        keys === null ? undefined : modules.find(({ path }) => !keys.some((name) => path.endsWith(`.${name}`)))
      if (other === undefined) return []
      throw invalid(`has tensors of "${other.path}", which its lora_parameters.keys do not name`)
    },
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
function matches(field: string, pattern: string, path: string): boolean {
  if (/^[\w.]+$/.test(pattern) && !pattern.includes('.')) return path === pattern || path.endsWith(`.${pattern}`)
  try {
    const source = `^(?:.*\\.)?(?:${pattern})$`
    return runInNewContext('new RegExp(source).test(path)', { source, path }, { timeout: PATTERN_MS }) === true
  } catch (cause) {
    throw new WeightsError('invalid_adapter', `adapter has ${field} with "${pattern}", which cannot be matched`, {
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
