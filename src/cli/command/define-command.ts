/**
 * A command as data: path, summary, examples, arguments, flags, exit codes and one function.
 *
 * Help, completion, the README table and the contract tests all read this. Flags and arguments carry their own parser, so
 * a command receives typed values and a bad one is the same usage error everywhere.
 */
import { ExpectedError } from '#cli/config/parse-value.js'
import type { CommandContext } from './context.js'
import { UsageError } from './errors.js'
import type { ExitName } from './exit-codes.js'
import type { Argument, Flag } from './flags.js'

export type Flags = Readonly<Record<string, Flag<unknown>>>
export type Arguments = Readonly<Record<string, Argument<unknown>>>
type FlagValues<F extends Flags> = { readonly [K in keyof F]: F[K] extends Flag<infer T> ? T : never }
type ArgumentValues<A extends Arguments> = { readonly [K in keyof A]: A[K] extends Argument<infer T> ? T : never }

/** What a person reads about a command; shared by the definition and the erased form. */
export interface CommandDescription {
  /** Words after `trainyard`: `['checkpoints', 'list']`. */
  readonly path: readonly string[]
  readonly summary: string
  /** More than one sentence, when one is not enough. */
  readonly details?: string
  /** At least two: command line and what it does. */
  readonly examples: readonly (readonly [string, string])[]
  /** Exit codes beyond the common ones. */
  readonly exits?: readonly ExitName[]
  /** Environment variables that matter here beyond the global ones. */
  readonly environment?: readonly (readonly [string, string])[]
  /** Commands one usually runs next. */
  readonly next?: readonly string[]
}

interface CommandDefinition<A extends Arguments, F extends Flags> extends CommandDescription {
  readonly args: A
  readonly flags: F
  /** Runs the command; every outcome but success is thrown, never printed. */
  run(input: CommandContext & { readonly args: ArgumentValues<A>; readonly flags: FlagValues<F> }): Promise<void>
}

/** Raw texts from the parser. */
export interface RawInput {
  readonly args: readonly (readonly string[])[]
  readonly flags: Readonly<Record<string, readonly string[]>>
}

/** A command whose argument and flag types are erased, for tables of commands. */
export interface Command extends CommandDescription {
  readonly args: Arguments
  readonly flags: Flags
  /**
   * Parses the raw input and runs.
   *
   * @throws {UsageError} `invalid_argument` naming the flag or argument
   */
  invoke(context: CommandContext, raw: RawInput): Promise<void>
}

/** Defines a command; the types of `args` and `flags` flow into `run`. */
export function defineCommand<const A extends Arguments, const F extends Flags>(
  definition: CommandDefinition<A, F>,
): Command {
  return {
    ...definition,
    async invoke(context, raw) {
      const args: Record<string, unknown> = {}
      const flags: Record<string, unknown> = {}
      for (const [name, flag] of Object.entries(definition.flags)) {
        flags[name] = readInput(longName(flag.spelling), flag.read, raw.flags[name] ?? [])
      }
      // after the flags: a wrong one is said before anything is asked
      for (const [i, [name, argument]] of Object.entries(definition.args).entries()) {
        const given = raw.args[i] ?? []
        const isMissing = argument.isRequired && given.length === 0
        const texts = isMissing ? [await askFor(name, argument, { context, path: definition.path })] : given
        args[name] = readInput(`<${name}>`, argument.read, texts)
      }
      await definition.run({
        ...context,
        args: args as ArgumentValues<A>,
        flags: flags as FlagValues<F>,
      })
    },
  }
}

/** Asks a person for what is missing. @throws {UsageError} `missing_argument` where nobody can be asked */
async function askFor(
  name: string,
  { asks }: Argument<unknown>,
  { context, path }: { readonly context: CommandContext; readonly path: readonly string[] },
): Promise<string> {
  if (asks === undefined || !context.prompts.canAsk) {
    throw new UsageError('missing_argument', `missing required argument "${name}"`, {
      hint: ['trainyard', ...path, '--help'].join(' '),
    })
  }
  const { askForArgument } = await import('../input/ask.js')
  return await askForArgument(context, asks)
}

/** `--limit` of `-l, --limit <n>`; `--no-stream` keeps its prefix. */
export function longName(spelling: string): string {
  return /--[a-z0-9-]+/.exec(spelling)?.[0] ?? spelling
}

function readInput<T>(name: string, read: (texts: readonly string[]) => T, texts: readonly string[]): T {
  try {
    return read(texts)
  } catch (cause) {
    if (!(cause instanceof ExpectedError)) throw cause
    const got = texts.length === 0 ? '' : `, got "${texts.join(' ')}"`
    throw new UsageError('invalid_argument', `${name} must be ${cause.message}${got}`, { param: name, cause })
  }
}
