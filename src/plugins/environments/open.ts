/**
 * Opens an environment by its address, for commands and for programs.
 */
import { resolve } from 'node:path'
import { readEnvironment } from '#base/environment.js'
import { InvalidRequestError } from '#base/errors/errors.js'
import type { JsonObject } from '#base/util/json.js'
import { closest } from '#base/util/suggest.js'
import { resolvePaths } from '#cli/config/paths.js'
import type { EnvironmentSource, SourceKind, SourceOption, SourceSetup } from './source.js'
import { SOURCES } from './sources/table.js'
import { assertWalls } from './walls.js'

/**
 * The address of an environment: `<scheme>:<what>`, or the path of a module of one's own.
 */
interface EnvironmentAddress {
  readonly kind: SourceKind
  readonly target: string
}

/** @throws {InvalidRequestError} `unknown_environment` for another scheme or nothing behind it */
function parseAddress(text: string, kinds: readonly SourceKind[]): EnvironmentAddress {
  const own = kinds.find((kind) => kind.isAddress?.(text) === true)
  if (own !== undefined) return { kind: own, target: text }
  const at = text.indexOf(':')
  const scheme = at < 0 ? text : text.slice(0, at)
  const target = at < 0 ? '' : text.slice(at + 1)
  const kind = kinds.find((each) => each.scheme === scheme)
  if (kind === undefined) {
    const schemes = kinds.map((each) => each.scheme)
    const near = closest(scheme, schemes)
    const meant = near === undefined ? '' : `did you mean ${near}:…? `
    throw new InvalidRequestError('unknown_environment', `"${text}" is no address of an environment`, {
      hint: `${meant}an address is one of ${kinds.map((each) => each.example).join(', ')}; trainyard env list says what each is`,
    })
  }
  if (target.trim() === '') {
    throw new InvalidRequestError('unknown_environment', `"${text}" names no environment: ${scheme}:${kind.target}`, {
      hint: `for example ${kind.example}`,
    })
  }
  return { kind, target }
}

export const ENVIRONMENT_DEFAULTS = { maxTurns: 10, stepTimeoutMs: 60_000, episodeTimeoutMs: 600_000, seed: 0 }

export interface EnvironmentOptions {
  /** Arguments of the environment. */
  readonly settings?: JsonObject
  /** Which tasks there are, where they are made. Default 0. */
  readonly seed?: number
  /** Turns of the model at most. Default 10. */
  readonly maxTurns?: number
  /** Whether each turn is compared by what was still to be earned, not by the whole episode's reward. Default false. */
  readonly turnRewards?: boolean
  /** For each question to the environment. Default 60 s. */
  readonly stepTimeoutMs?: number
  /** Rows of tasks, where the environment takes them. */
  readonly tasksFile?: string
  /** A Python interpreter that has the package. */
  readonly python?: string
  /** Fetches packages into the data folder where they are missing. Default false. */
  readonly install?: boolean
  /** Walls around its processes: no network but recorded rollouts, no other process, none of our folders. Default false. */
  readonly isolate?: boolean
  /** Variables that its processes see beside PATH, HOME and LANG. */
  readonly variables?: Readonly<Record<string, string>>
  /** Whether another reward than its own judges. Default false. */
  readonly isJudgedElsewhere?: boolean
  /** Default: that of `trainyard serve`. */
  readonly dataDir?: string
  /** Told what a person should know. Default: nobody. */
  readonly say?: (sentence: string) => void
}

/** Flags of options that only some kinds heed. */
const FLAGS: Readonly<Record<SourceOption, string>> = {
  settings: '--set',
  maxTurns: '--max-turns',
  turnRewards: '--turn-rewards',
  tasksFile: '--tasks-file',
  python: '--python',
  install: '--install',
  isolate: '--isolate',
  variables: '--env',
}

/**
 * Opens an environment: nothing of it runs before it is asked.
 *
 * @throws {InvalidRequestError} `unknown_environment`; `option_without_effect` for an option that this kind cannot heed;
 *   `isolation_missing`
 * @example
 * const letters = await openEnvironment('reasoning-gym:letter_counting', { settings: { max_words: 3 } })
 * const tasks = await letters.tasks('train', 0, 8)
 */
export async function openEnvironment(address: string, options: EnvironmentOptions = {}): Promise<EnvironmentSource> {
  const { kind, target } = parseAddress(address, SOURCES)
  const { settings = {}, variables = {}, install = false, isolate = false, turnRewards = false } = options
  const given: Readonly<Record<SourceOption, boolean>> = {
    settings: Object.keys(settings).length > 0,
    maxTurns: options.maxTurns !== undefined,
    turnRewards,
    tasksFile: options.tasksFile !== undefined,
    python: options.python !== undefined,
    install,
    isolate,
    variables: Object.keys(variables).length > 0,
  }
  for (const [name, isGiven] of Object.entries(given) as [SourceOption, boolean][]) {
    if (!isGiven || kind.takes.includes(name)) continue
    throw new InvalidRequestError(
      'option_without_effect',
      `${FLAGS[name]} has no effect on ${kind.scheme}: ${kind.summary}`,
      {
        param: FLAGS[name],
        hint: 'leave it out',
      },
    )
  }
  if (turnRewards && options.isJudgedElsewhere === true) {
    throw new InvalidRequestError(
      'conflicting_options',
      '--turn-rewards are the environment’s: nobody else judges turns',
      {
        param: '--turn-rewards',
        hint: 'leave out --reward and --grader, or --turn-rewards',
      },
    )
  }
  const environment = readEnvironment()
  const setup: SourceSetup = {
    target,
    settings,
    seed: options.seed ?? ENVIRONMENT_DEFAULTS.seed,
    maxTurns: options.maxTurns ?? ENVIRONMENT_DEFAULTS.maxTurns,
    turnRewards,
    stepTimeoutMs: options.stepTimeoutMs ?? ENVIRONMENT_DEFAULTS.stepTimeoutMs,
    tasksFile: options.tasksFile === undefined ? null : resolve(options.tasksFile),
    isJudgedElsewhere: options.isJudgedElsewhere ?? false,
    python: options.python ?? null,
    install,
    isolate,
    variables,
    environment,
    dataDir: options.dataDir ?? resolvePaths(environment).dataDir,
    say: options.say ?? (() => undefined),
  }
  await assertWalls(setup)
  return await kind.open(setup)
}
