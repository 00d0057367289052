/**
 * A job's options as the trainer calls them: the names of `contract/jobs/` in camelCase, so that an option is a row there and is
 * read here as `hyperparameters.<name>`.
 */
import type { Formula } from '#base/formula/formula.js'
import type { JsonObject } from '#base/util/json.js'

/** @example Camel<'target_kl'> // 'targetKl' */
type Camel<Name extends string> = Name extends `${infer Head}_${infer Tail}`
  ? `${Head}${Capitalize<Camel<Tail>>}`
  : Name

/** The same values by the trainer's names. */
export type Hyperparameters<Options> = {
  readonly [Name in keyof Options & string as Camel<Name>]: Options[Name]
}

/** @example toHyperparameters({ target_kl: 0.2 }) // { targetKl: 0.2 } */
export function toHyperparameters<Options extends object>(options: Options): Hyperparameters<Options> {
  const renamed = Object.entries(options).map(([name, value]) => [
    name.replaceAll(/_([a-z0-9])/g, (_, letter: string) => letter.toUpperCase()),
    value,
  ])
  return Object.fromEntries(renamed) as Hyperparameters<Options>
}

/** The formula of a job's loss, where the job has one: it was checked when the job was asked for. */
export function formulaOf({ loss_formula: formula }: { readonly loss_formula: JsonObject | null }): Formula | null {
  return formula as Formula | null
}
