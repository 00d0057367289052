/**
 * Options that plugins add to a kind of job: one object under the plugin's name, whose rows stand in the kind's table as any
 * other's, so that requests, the command line, lists, forms and records have them. What they do is a function of the plugin
 * that the training worker calls; a job that has set one needs the plugin there.
 *
 * Of RL jobs a plugin changes rewards: advantages, which groups train, plan and findings follow from those, as from any other.
 */
import { assertNever } from '#base/util/assert-never.js'
import { isJsonObject, type JsonObject } from '#base/util/json.js'
import { JOB_KINDS, type JobKind } from '#contract/wire/job-words.js'
import { addOptions, isCoreOption } from './kinds.js'
import type { OptionRow, OptionTable, OptionValues } from './option.js'

/** Types of options inside an object, and what a row of each has beside its type, its default and its sentence. */
const MEMBERS = {
  number: ['bounds'],
  integer: ['bounds'],
  boolean: [],
  choice: ['choices'],
  names: ['choices'],
  text: ['maxLength'],
} as const satisfies Partial<Record<OptionRow['type'], readonly string[]>>
type Type = keyof typeof MEMBERS

type RowOfPlugin<R> = R extends { readonly type: infer T extends Type }
  ? Pick<R, Extract<keyof R, 'type' | 'default' | 'summary' | (typeof MEMBERS)[T][number]>>
  : never

/** One option: a row as the core's own. */
export type PluginOptionRow = RowOfPlugin<OptionRow>
export type PluginOptionRows = Readonly<Record<string, PluginOptionRow>>
/** Values by the names of their rows. */
export type PluginOptionValues<R extends PluginOptionRows> = R extends OptionTable ? OptionValues<R> : JsonObject

/** A message of a trajectory's main conversation. */
export interface ShownMessage {
  readonly role: string
  readonly text: string
  /** That were sampled; 0 where the message was given. */
  readonly tokens: number
}

/** A trajectory as it was sent. Frozen, with all that is in it. */
export interface ShownTrajectory {
  readonly reward: number
  readonly metrics: Readonly<Record<string, number>>
  readonly messages: readonly ShownMessage[]
}

/** What options do with rewards: a module that exports `shape`, or an object with it. */
export interface RewardShaping<Values = JsonObject> {
  /**
   * It must follow from what it is given alone: a job that goes on, and its plan, call it again.
   *
   * @param options every one, with its default where the job says nothing
   * @returns rewards by group, in the order of the groups and their trajectories
   */
  shape(groups: readonly (readonly ShownTrajectory[])[], options: Values): readonly (readonly number[])[]
}

/** What a plugin adds to kinds of jobs. */
export interface PluginJobOptions<R extends PluginOptionRows = PluginOptionRows> {
  readonly rl: {
    readonly rows: R
    /** Loaded by the training worker, for jobs that have set one of the options. */
    rewards(): Promise<RewardShaping<PluginOptionValues<R>>>
  }
}

/** A plugin, as far as jobs know it. */
interface WithJobOptions {
  readonly name: string
  readonly jobOptions?: PluginJobOptions | undefined
}

/** What the entry point `plugins/job-options.js` exports. */
export interface JobOptionsModule {
  /**
   * @param files of plugins that are no part of this package
   * @returns what all plugins of the process add to jobs, by their names
   */
  loadJobOptions(files: readonly string[]): Promise<ReadonlyMap<string, PluginJobOptions>>
}

/** Modules of plugins, a list of paths as JSON, of which a training worker loads those that a job needs. */
export const PLUGINS_VARIABLE = 'TRAINYARD_WORKER_PLUGINS'

const NAME = /^[a-z][a-z0-9]*(?:_[a-z0-9]+)*$/

/** @example optionOf('my-rewards') // 'my_rewards' */
export const optionOf = (plugin: string): string => plugin.replaceAll('-', '_')

/** Adds the options of plugins to the tables of this process. */
export function addJobOptions(plugins: readonly WithJobOptions[]): void {
  for (const { name, jobOptions } of plugins) {
    if (jobOptions === undefined) continue
    const rows = Object.entries(jobOptions.rl.rows).map(([option, row]) => [option, { ...row, flag: {} } as OptionRow])
    addOptions('rl', optionOf(name), {
      type: 'object',
      default: null,
      summary: `options of the plugin "${name}"`,
      rows: Object.fromEntries(rows),
    })
  }
}

/**
 * Names of the plugins whose options a job has set: whoever trains it needs them.
 *
 * @param resolved the job's record
 */
export function pluginsNeeded(kind: JobKind, resolved: JsonObject | null): string[] {
  return Object.entries(resolved ?? {}).flatMap(([name, value]) =>
    isJsonObject(value) && !isCoreOption(kind, name) ? [name.replaceAll('_', '-')] : [],
  )
}

/** @returns what is wrong with a stranger's options, as the end of a sentence about the plugin; null for nothing */
export function problemOfJobOptions(name: string, given: unknown): string | null {
  const { rl, ...others } = given as Readonly<Record<string, unknown>>
  const [other] = Object.keys(others)
  if (other !== undefined) {
    const isKind = (JOB_KINDS as readonly string[]).includes(other)
    return `jobOptions has "${other}": ${isKind ? 'options can be added to jobs of kind rl alone' : 'no kind of job is called that'}`
  }
  if (isCoreOption('rl', optionOf(name))) return `jobs have an option "${optionOf(name)}" already: give it another name`
  const { rows, rewards } = (rl ?? {}) as { readonly rows?: unknown; readonly rewards?: unknown }
  if (typeof rows !== 'object' || rows === null || Object.keys(rows).length === 0) return 'jobOptions.rl needs rows'
  if (typeof rewards !== 'function') return 'jobOptions.rl needs a function "rewards", which loads what the options do'
  for (const [option, row] of Object.entries(rows)) {
    const problem = NAME.test(option) ? problemOfRow(row) : 'must be of small letters, digits and underscores'
    if (problem !== null) return `option "${option}" ${problem}`
  }
  return null
}

function problemOfRow(row: unknown): string | null {
  const { type, summary, default: otherwise, ...others } = (row ?? {}) as Readonly<Record<string, unknown>>
  if (typeof type !== 'string' || !Object.hasOwn(MEMBERS, type)) {
    return `has type ${JSON.stringify(type)}, expected one of ${Object.keys(MEMBERS).join(', ')}`
  }
  if (typeof summary !== 'string' || summary === '') return 'needs a summary'
  if (otherwise === undefined) return 'needs a default, which may be null'
  const members: readonly string[] = MEMBERS[type as Type]
  const unknown = Object.keys(others).find((member) => !members.includes(member))
  if (unknown !== undefined) return `has an unknown member "${unknown}"`
  const missing = members.find((member) => others[member] == null)
  if (missing !== undefined) return `needs ${missing}`
  return isSound(row as PluginOptionRow) ? null : 'has bounds, choices or a default that do not fit its type'
}

/** Rows without a number of their own to fall back on may say null. */
function isSound(row: PluginOptionRow): boolean {
  const isList = (texts: unknown): boolean =>
    Array.isArray(texts) && texts.length > 0 && texts.every((text) => typeof text === 'string')
  switch (row.type) {
    case 'number':
    case 'integer': {
      const { bounds, default: otherwise } = row
      const { min = Number.NEGATIVE_INFINITY, max = Number.POSITIVE_INFINITY } = bounds
      if (otherwise === null) return min <= max
      const isOfType = row.type === 'integer' ? Number.isSafeInteger(otherwise) : Number.isFinite(otherwise)
      return isOfType && Number(otherwise) >= min && Number(otherwise) <= max
    }
    case 'boolean':
      return row.default === null || typeof row.default === 'boolean'
    case 'choice':
      return isList(row.choices) && row.choices.includes(row.default)
    case 'names':
      return isList(row.choices) && row.default === null
    case 'text':
      return Number.isSafeInteger(row.maxLength) && row.maxLength > 0 && row.default === null
    default:
      return assertNever(row)
  }
}
