/**
 * Options of the adapter that a job trains, by PEFT's names where it has them, and the rule that a model's adapter keeps its shape.
 *
 * A shape is chosen where an adapter begins, by the model's first job. A later job keeps it: what it asks for must be the same, and what
 * it leaves out is the adapter's own. Source: PEFT's `LoraConfig` (0.17).
 */
import { InvalidRequestError } from '#base/errors/errors.js'
import type { JsonObject } from '#base/util/json.js'
import { defineOptions, MAX_FLOAT32, type OptionValues } from './option.js'

/** Inner dimensions. */
const RANKS = { min: 1, max: 256 } as const

const ATTENTION = ['q_proj', 'k_proj', 'v_proj', 'o_proj'] as const
const MLP = ['gate_proj', 'up_proj', 'down_proj'] as const
/** What can be adapted, in the order of a layer. */
export const LORA_TARGETS: readonly string[] = [...ATTENTION, ...MLP]
/** Names for several of them. */
const GROUPS: Readonly<Record<string, readonly string[]>> = {
  'all-linear': LORA_TARGETS,
  attention: ATTENTION,
  mlp: MLP,
}

/** Shape of a model's first adapter. */
export const LORA_DEFAULTS = { rank: 8, alpha: 16 } as const

export const LORA_OPTIONS = defineOptions({
  rank: {
    type: 'integer',
    default: LORA_DEFAULTS.rank,
    bounds: RANKS,
    flag: {},
    summary: 'inner dimension of a new adapter',
  },
  alpha: {
    type: 'number',
    default: LORA_DEFAULTS.alpha,
    bounds: { min: 1e-6, max: MAX_FLOAT32 },
    flag: {},
    summary: "the adapter's output is scaled by alpha / rank",
  },
  target_modules: {
    type: 'names',
    default: null,
    choices: [...Object.keys(GROUPS), ...LORA_TARGETS],
    flag: { whenAbsent: 'all-linear' },
    summary: `layers that a new adapter covers: all-linear, attention, mlp, or names such as q_proj,v_proj`,
  },
  use_rslora: {
    type: 'boolean',
    default: null,
    flag: { spelling: '--use-rslora' },
    summary: 'scale by alpha / sqrt(rank) instead (rsLoRA)',
  },
  rank_pattern: {
    type: 'fields',
    default: null,
    reserved: [],
    flag: {},
    summary: 'ranks of modules by the end of their path, as {"q_proj": 16, "layers.0.mlp.down_proj": 4}',
  },
  alpha_pattern: {
    type: 'unread',
    default: null,
    summary: 'scales of modules by the end of their path',
    unsupported: {
      reason:
        "is not supported: alpha is the same for every module, and rank_pattern changes a module's scale, alpha / rank",
      isHarmless: isEmpty,
    },
  },
  dropout: {
    type: 'unread',
    default: null,
    summary: 'share of inputs left out while training',
    unsupported: {
      reason: 'is not part of the shape: set lora_dropout beside lora',
      isHarmless: (value) => Number(value) === 0,
    },
  },
})

function isEmpty(value: unknown): boolean {
  return value === null || (typeof value === 'object' && Object.keys(value).length === 0)
}

type LoraValues = OptionValues<typeof LORA_OPTIONS>
/** As a job runs with it; an option without a default that nobody gave is absent. */
export type LoraOptions = Pick<LoraValues, 'rank' | 'alpha'> &
  Partial<Pick<LoraValues, 'target_modules' | 'use_rslora' | 'rank_pattern'>>

/**
 * Names of several modules become theirs, and ranks by module are checked. What was resolved stays as it is.
 *
 * @param root where options stand in the request
 * @throws {InvalidRequestError} `invalid_value`
 */
export function resolveLora<Options extends { readonly lora: LoraOptions | null }>(
  root: string,
  options: Options,
): Options {
  const { lora } = options
  if (lora === null) return options
  const { target_modules: asked = null, rank_pattern: ranks = null } = lora
  const covered = new Set((asked ?? []).flatMap((name) => GROUPS[name] ?? [name]))
  const targets = asked === null ? LORA_TARGETS : LORA_TARGETS.filter((name) => covered.has(name))
  for (const [name, rank] of Object.entries(ranks ?? {}))
    assertRank(`${root}.lora.rank_pattern`, { name, rank, targets })
  return asked === null ? options : { ...options, lora: { ...lora, target_modules: targets } }
}

const MODULE = /^(?:(?:(?:model\.)?layers\.\d{1,4}\.)?(?:self_attn|mlp)\.)?(\w+)$/

function assertRank(
  param: string,
  { name, rank, targets }: { readonly name: string; readonly rank: unknown; readonly targets: readonly string[] },
): void {
  const shown = JSON.stringify(name.slice(0, 100))
  const module = MODULE.exec(name)?.[1]
  if (module === undefined || !targets.includes(module)) {
    throw new InvalidRequestError(
      'invalid_value',
      `${param} names ${shown}, expected a covered module as ${targets.join(', ')}, or the end of its path.`,
      { param, hint: 'for one layer write layers.0.self_attn.q_proj or layers.0.mlp.down_proj' },
    )
  }
  const isRank = typeof rank === 'number' && Number.isInteger(rank) && rank >= RANKS.min && rank <= RANKS.max
  if (isRank) return
  const got = JSON.stringify(rank).slice(0, 100)
  const problem = `${param} has ${shown}: ${got}, expected an integer from ${RANKS.min} to ${RANKS.max}.`
  throw new InvalidRequestError('invalid_value', problem, { param })
}

/** The shape of an adapter that exists. */
export interface LoraShape {
  readonly rank: number
  readonly alpha: number
  readonly targets: readonly string[]
  readonly usesRslora: boolean
  readonly rankPattern: Readonly<Record<string, number>>
}

/**
 * Compares what a job asks for with the adapter that it would go on with.
 *
 * @param owner for example `the adapter of model "m"`
 * @throws {InvalidRequestError} `adapter_shape_fixed`
 */
export function assertSameShape(asked: LoraOptions | null, shape: LoraShape, owner: string): void {
  if (asked === null) return
  const { target_modules: targets = null, use_rslora: usesRslora = null, rank_pattern: ranks = null } = asked
  const refuse = (wanted: string, has: string): never => {
    throw new InvalidRequestError('adapter_shape_fixed', `lora asks for ${wanted}, but ${owner} has ${has}`, {
      param: 'lora',
      hint: 'leave lora out, or create a new model',
    })
  }
  if (shape.rank !== asked.rank || shape.alpha !== asked.alpha) {
    refuse(`rank ${asked.rank} and alpha ${asked.alpha}`, `rank ${shape.rank} and alpha ${shape.alpha}`)
  }
  if (targets !== null && sorted(targets) !== sorted(shape.targets)) {
    refuse(`target_modules ${targets.join(', ')}`, shape.targets.join(', '))
  }
  if (usesRslora !== null && usesRslora !== shape.usesRslora) {
    refuse(`use_rslora ${usesRslora}`, `use_rslora ${shape.usesRslora}`)
  }
  if (ranks !== null && JSON.stringify(ranks) !== JSON.stringify(shape.rankPattern)) {
    refuse(`rank_pattern ${JSON.stringify(ranks)}`, `rank_pattern ${JSON.stringify(shape.rankPattern)}`)
  }
}

/**
 * What a stored `adapter_config.json` says of its shape; null where it says none.
 */
export function shapeOfConfig(config: JsonObject): LoraShape | null {
  const { r: rank, lora_alpha: alpha, target_modules: targets, use_rslora: usesRslora, rank_pattern: ranks } = config
  if (typeof rank !== 'number' || typeof alpha !== 'number') return null
  return {
    rank,
    alpha,
    targets: Array.isArray(targets) ? targets.map(String) : LORA_TARGETS,
    usesRslora: usesRslora === true,
    rankPattern: (ranks ?? {}) as Record<string, number>,
  }
}

function sorted(names: readonly string[]): string {
  return [...names].sort().join(' ')
}
