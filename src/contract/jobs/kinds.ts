/**
 * The definitions of all kinds of jobs, a file each, and what is asked of any of them. A new word in `JOB_KINDS`
 * (`contract/wire/job-words.ts`) compiles only when its definition is here, its trainer in `training/kinds/kinds.ts` and its
 * checks in `service/operations/training/`.
 */
import type { JsonObject } from '#base/util/json.js'
import type { JobKind } from '#contract/wire/job-words.js'
import { DPO } from './dpo.js'
import type { JobKindDefinition } from './kind.js'
import { defaultOf, namesOf, type OptionRow, type OptionValues } from './option.js'
import { RL } from './rl.js'
import { SFT } from './sft.js'

const DEFINITIONS = { rl: RL, sft: SFT, dpo: DPO } satisfies Readonly<Record<JobKind, JobKindDefinition>>

type Definitions = typeof DEFINITIONS
/** The table of a kind. */
export type OptionsTable<K extends JobKind> = Definitions[K]['options']
/** Every option that a job of a kind runs with. */
export type OptionsOf<K extends JobKind> = OptionValues<OptionsTable<K>>

const known: Record<JobKind, JobKindDefinition> = { ...DEFINITIONS }
/** Of any kind, whichever, with what plugins of this process add. */
export const JOB_DEFINITIONS: Readonly<Record<JobKind, JobKindDefinition>> = known

/**
 * Adds an option to a kind of job, for all that this process does. Tables are never changed, for schemas are made of each once.
 */
export function addOptions(kind: JobKind, name: string, row: OptionRow): void {
  extendKind(kind, (before) => ({ ...before, options: { ...before.options, [name]: row } }))
}

/** Changes what this process knows of a kind of job. */
export function extendKind(kind: JobKind, change: (before: JobKindDefinition) => JobKindDefinition): void {
  known[kind] = change(known[kind])
}

/** Whether an option is no plugin's. */
export function isCoreOption(kind: JobKind, name: string): boolean {
  return Object.hasOwn(DEFINITIONS[kind].options, name)
}

/** Names of the options of a kind of job, in the order of its table. */
export function optionNames(kind: JobKind): readonly string[] {
  return namesOf(JOB_DEFINITIONS[kind].options)
}

/**
 * Options that a job runs with, as its record holds them. What it lacks, because the version that stored it did not know the
 * option, is as the table has it.
 *
 * @param resolved by `resolveOptions`
 */
export function readOptions<K extends JobKind>(kind: K, resolved: JsonObject): OptionsOf<K> {
  const { options } = JOB_DEFINITIONS[kind]
  const defaults = Object.fromEntries(Object.entries(options).map(([name, row]) => [name, defaultOf(row)]))
  return { ...defaults, ...resolved } as OptionsOf<K>
}
