/**
 * Which modules the configuration of an adapter names: PEFT leaves out tensors of all others, so that an adapter that has some
 * means less than its tensors say.
 *
 * Source: PEFT's `check_target_module_exists` (0.17): `target_modules` and `exclude_modules` are lists of ends of paths or one regular
 * expression for the whole path, `layers_to_transform` are numbers of layers, below a name of `layers_pattern`.
 */
import { runInNewContext } from 'node:vm'
import { WeightsError } from '#base/errors/errors.js'
import type { JsonObject, JsonValue } from '#base/util/json.js'

/** Every linear module but the head, in PEFT's word. */
const ALL_LINEAR = 'all-linear'
const OUTSIDE_OF_ALL = /(?:^|\.)(?:lm_head|embed_tokens)$/
const MAX_PATTERN = 1000
/** Of one pattern on all paths: one that backtracks comes to no end by itself. */
const PATTERN_MS = 5000

/** A module as its tensors name it: in the file, without what wraps the model, and here. */
export interface NamedModule {
  readonly given: string
  readonly path: string
}

/**
 * Checks that the configuration names every module that has tensors.
 *
 * @returns sentences: what it names without tensors
 * @throws {WeightsError} `invalid_adapter` naming the field and the module
 */
export function checkAdaptedModules(config: JsonObject, modules: readonly NamedModule[]): readonly string[] {
  const targets = namesOrPattern(config, 'target_modules')
  const excluded = namesOrPattern(config, 'exclude_modules')
  const layers = layersOf(config)
  const isTarget = targets === null ? () => true : matcherOf('target_modules', targets, modules)
  const isExcluded = excluded === null ? () => false : matcherOf('exclude_modules', excluded, modules)
  for (const module of modules) {
    const refuse = (why: string): WeightsError => invalid(`has tensors of "${module.path}", which ${why}`)
    if (isExcluded(module)) throw refuse('its exclude_modules exclude')
    if (!isTarget(module)) throw refuse('its target_modules do not name')
    // in PEFT a path that is named as a whole counts in every layer, and an expression says the layers itself
    const isWhole = Array.isArray(targets) && targets.some((name) => name === module.given || name === module.path)
    if (!isWhole && Array.isArray(targets) && !layers(module)) throw refuse('its layers_to_transform leave out')
  }
  if (!Array.isArray(targets)) return []
  const idle = targets.filter((name) => !modules.some((module) => endsWith(module, name)))
  return idle.length === 0 ? [] : [`its target_modules name ${idle.join(', ')}, of which it has no tensors`]
}

const endsWith = ({ given, path }: NamedModule, name: string): boolean =>
  [given, path].some((each) => each === name || each.endsWith(`.${name}`))

function namesOrPattern(config: JsonObject, field: string): readonly string[] | string | null {
  const value = config[field] ?? null
  if (value === null || value === '' || (Array.isArray(value) && value.length === 0)) return null
  if (typeof value === 'string') return value
  if (Array.isArray(value) && value.every((name) => typeof name === 'string')) return value
  throw invalid(`has ${field} ${shown(value)}, expected a list of names or one regular expression`)
}

function matcherOf(
  field: string,
  named: readonly string[] | string,
  modules: readonly NamedModule[],
): (module: NamedModule) => boolean {
  if (typeof named !== 'string') return (module) => named.some((name) => endsWith(module, name))
  if (named.toLowerCase() === ALL_LINEAR) return ({ path }) => !OUTSIDE_OF_ALL.test(path)
  const found = fullMatches(field, named, [...new Set(modules.flatMap(({ given, path }) => [given, path]))])
  return ({ given, path }) => found.has(given) || found.has(path)
}

/** Python's `re.fullmatch`, under a limit, because the pattern is a stranger's. */
function fullMatches(field: string, pattern: string, paths: readonly string[]): ReadonlySet<string> {
  if (pattern.length > MAX_PATTERN) throw invalid(`has ${field} with a pattern of ${pattern.length} characters`)
  try {
    const found: unknown = runInNewContext(
      'const whole = new RegExp(source); JSON.stringify(JSON.parse(paths).filter((path) => whole.test(path)))',
      { source: `^(?:${pattern.replaceAll('(?P<', '(?<')})$`, paths: JSON.stringify(paths) },
      { timeout: PATTERN_MS },
    )
    return new Set(JSON.parse(String(found)) as string[])
  } catch (cause) {
    throw new WeightsError('invalid_adapter', `adapter has ${field} "${pattern}", which cannot be matched`, {
      hint: 'write names of modules instead, for example ["q_proj", "v_proj"]',
      cause,
    })
  }
}

/** Whether a module lies in a layer that the adapter changes. */
function layersOf(config: JsonObject): (module: NamedModule) => boolean {
  const given = config['layers_to_transform'] ?? null
  const listed = Array.isArray(given) ? given : given === null ? [] : [given]
  if (!listed.every((layer) => Number.isInteger(layer) && Number(layer) >= 0)) {
    throw invalid(`has layers_to_transform ${shown(given)}, expected numbers of layers`)
  }
  const under = config['layers_pattern'] ?? null
  const names = Array.isArray(under) ? under : under === null || under === '' ? [] : [under]
  if (!names.every((name) => typeof name === 'string' && /^\w+$/.test(name))) {
    throw invalid(`has layers_pattern ${shown(under)}, expected names as "layers"`)
  }
  if (listed.length === 0) return () => true
  const name = names.length === 0 ? '[^.]*' : names.join('|')
  const place = new RegExp(`^.*\\.(?:${name})\\.(\\d+)\\.`)
  return ({ given: key, path }) =>
    [key, path].some((each) => {
      const [, layer] = place.exec(each) ?? []
      return layer !== undefined && listed.includes(Number(layer))
    })
}

const shown = (value: JsonValue): string => JSON.stringify(value).slice(0, 100)

function invalid(problem: string): WeightsError {
  return new WeightsError('invalid_adapter', `adapter ${problem}`)
}
