/**
 * A job's options as the trainer calls them: the names of `contract/jobs/` in camelCase, so that an option is a row there and is
 * read here as `hyperparameters.<name>`.
 */

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
