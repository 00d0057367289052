/**
 * The definition of a kind of job: what requests, the command line, the library and the server's record need to know of it.
 * How it trains is in `training/kinds/`. Knows no single kind.
 */
import { InvalidRequestError } from '#base/errors/errors.js'
import type { JsonObject } from '#base/util/json.js'
import type { OptionTable, OptionValues } from './option.js'

/** A frozen policy that a job is compared with: a step of its model (0: the base model), steps back from its start, or another's. */
export type PolicyReference = (
  | { readonly kind: 'step'; readonly step: number }
  | { readonly kind: 'lag'; readonly lag: number }
  | { readonly kind: 'adapter'; readonly address: string }
) & {
  /** The option that names it. */
  readonly option: string
}

/** What a formula of a kind's loss has to do with. */
interface LossPlace {
  /** The option that names the loss. */
  readonly option: string
  /** What it may read: of a token, or of a pair. */
  readonly inputs: readonly string[]
  /** Operators over the values of a sequence that it may use. */
  readonly reductions: readonly string[]
  /** The loss of the core that reads the other options as a formula of the request's own does. */
  readonly like: string
}

export interface JobKindDefinition<T extends OptionTable = OptionTable, Values = JsonObject> {
  /** Where its options stand in the request, as errors name them. */
  readonly root: 'config' | 'experimental_config'
  /** A second place inside it for those options that are extensions; what stands in both is taken from the first. */
  readonly secondRoot?: string
  /** What it counts in its data, and the limit that drops some whole. */
  readonly row: { readonly noun: string; readonly limit: string }
  readonly options: T
  /** How losses are added to it as formulas (`losses.ts`). */
  readonly loss: LossPlace
  /**
   * Fills in what follows from other options. Resolving what was resolved changes nothing.
   *
   * @throws {InvalidRequestError} `invalid_value` for options that exclude each other
   */
  derive(options: Values): Values
  /** The policy besides its start and the base model that it is compared with. */
  referenceOf(options: Values): PolicyReference | null
}

/** Takes the types of the options from their table. */
export function defineJobKind<T extends OptionTable>(
  definition: JobKindDefinition<T, OptionValues<T>>,
): JobKindDefinition<T, OptionValues<T>> {
  return Object.freeze(definition)
}

/** Refuses a value. @param path of the option, for example `config.reference_step` */
export function refuse(path: string, message: string, hint?: string): never {
  throw new InvalidRequestError('invalid_value', message, { param: path, ...(hint === undefined ? {} : { hint }) })
}

/** A list says every rate itself, and a rate cannot fall to more than its peak. */
export function assertScheduleFits(
  root: JobKindDefinition['root'],
  options: {
    readonly learning_rate: number | readonly number[]
    readonly learning_rate_schedule: string
    readonly warmup_steps: number
    readonly min_learning_rate: number
    readonly warmup_ratio: number
    readonly validation_split?: number
  },
): void {
  const { learning_rate: peak, min_learning_rate: least } = options
  const wrong = (name: string, reason: string): never => refuse(`${root}.${name}`, `${root}.${name} ${reason}.`)
  if (options.warmup_steps > 0 && options.warmup_ratio > 0) {
    wrong('warmup_ratio', 'says once more what warmup_steps says: give one of them')
  }
  if (typeof peak === 'number') {
    if (least > peak) wrong('min_learning_rate', `is ${least}, more than the learning rate of ${peak}`)
    return
  }
  if (options.learning_rate_schedule !== 'constant') {
    wrong('learning_rate_schedule', 'needs one learning rate, but a list was given')
  }
  if (options.warmup_steps > 0) wrong('warmup_steps', 'needs one learning rate, but a list was given')
  if (options.warmup_ratio > 0) wrong('warmup_ratio', 'needs one learning rate, but a list was given')
  if ((options.validation_split ?? 0) > 0) {
    wrong('validation_split', 'needs one learning rate: a list has a rate for each batch of all rows')
  }
}

/** Without a choice the best state is kept where a job may stop before its end. */
export function keepsBest(options: {
  readonly keep_best: boolean | null
  readonly early_stopping_patience: number | null
}): boolean {
  return options.keep_best ?? options.early_stopping_patience !== null
}
