/**
 * A command as data: path, summary, examples, arguments, flags, exit codes and one function.
 *
 * Help, completion, the README table and the contract tests all read this. Flags and arguments carry their own parser, so
 * a command receives typed values and a bad one is the same usage error everywhere.
 */
import { ExpectedError } from '#cli/config/parse-value.js'
import { UsageError } from '../terminal/errors.js'
import type { ExitName } from '../terminal/exit-codes.js'
import type { CommandContext } from './context.js'
import { type Argument, type Flag, longName } from './flags.js'

export type Flags = Readonly<Record<string, Flag<unknown>>>
export type Arguments = Readonly<Record<string, Argument<unknown>>>
type FlagValues<F extends Flags> = { readonly [K in keyof F]: F[K] extends Flag<infer T> ? T : never }
type ArgumentValues<A extends Arguments> = { readonly [K in keyof A]: A[K] extends Argument<infer T> ? T : never }

/** Global flags that say whose things are meant. */
export type NamespaceKey = 'project' | 'entity'

/** What a person reads about a command; shared by the definition and the erased form. */
export interface CommandDescription {
  /** Words after `trainyard`: `['checkpoints', 'list']`. */
  readonly path: readonly string[]
  readonly summary: string
  /** More than one sentence, when one is not enough. */
  readonly details?: string
  /** At least two: command line and what it does. */
  readonly examples: readonly (readonly [string, string])[]
  /** Which of the global flags --project and --entity mean something here; the others are refused. Default none. */
  readonly namespace?: readonly NamespaceKey[]
  /** Exit codes beyond the common ones. */
  readonly exits?: readonly ExitName[]
  /** Environment variables that matter here beyond the global ones. */
  readonly environment?: readonly (readonly [string, string])[]
  /** Commands one usually runs next. */
  readonly next?: readonly string[]
}

/** What a command is handed when it runs. */
interface CommandInput<A extends Arguments, F extends Flags, P> extends CommandContext {
  readonly args: ArgumentValues<A>
  readonly flags: FlagValues<F>
  /** What `prepare` returned. */
  readonly prepared: P
}

interface CommandDefinition<A extends Arguments, F extends Flags, P> extends CommandDescription {
  readonly args: A
  readonly flags: F
  /**
   * Reads and checks what no argument is needed for, as files and flags that exclude each other: a person is asked for a missing
   * argument only after all of that is right.
   */
  prepare?(input: CommandContext & { readonly flags: FlagValues<F> }): P | Promise<P>
  /** Runs the command; every outcome but success is thrown, never printed. */
  run(input: CommandInput<A, F, P>): Promise<void>
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
   * @param check runs before anything is read for the command
   * @throws {UsageError} `invalid_argument` naming the flag or argument
   */
  invoke(context: CommandContext, raw: RawInput, check?: () => void): Promise<void>
}

/** Defines a command; the types of `args`, `flags` and what `prepare` returns flow into `run`. */
export function defineCommand<const A extends Arguments, const F extends Flags, P = undefined>(
  definition: CommandDefinition<A, F, P>,
): Command {
  return {
    ...definition,
    async invoke(context, raw, check) {
      // a wrong flag is said before anything is read or asked
      const flags: Record<string, unknown> = {}
      for (const [name, flag] of Object.entries(definition.flags)) {
        flags[name] = readInput(longName(flag.spelling), flag.read, raw.flags[name] ?? [])
      }
      const named = Object.entries(definition.args).map(([name, argument], i) => {
        const texts = raw.args[i] ?? []
        const isMissing = argument.isRequired && texts.length === 0
        if (isMissing && !canAskFor(argument, context)) throw missingArgument(name, definition.path)
        return { name, argument, texts: isMissing ? null : texts }
      })
      check?.()
      const prepared = await definition.prepare?.({ ...context, flags: flags as FlagValues<F> })
      const args: Record<string, unknown> = {}
      for (const { name, argument, texts } of named) {
        const given = texts ?? [await askFor(name, argument, { context, path: definition.path })]
        args[name] = readInput(`<${name}>`, argument.read, given)
      }
      await definition.run({
        ...context,
        args: args as ArgumentValues<A>,
        flags: flags as FlagValues<F>,
        prepared: prepared as P,
      })
    },
  }
}

function canAskFor({ asks }: Argument<unknown>, { prompts }: CommandContext): boolean {
  return asks !== undefined && prompts.canAsk
}

function missingArgument(name: string, path: readonly string[]): UsageError {
  return new UsageError('missing_argument', `missing required argument "${name}"`, {
    hint: ['trainyard', ...path, '--help'].join(' '),
  })
}

/** Asks a person for what is missing. @throws {UsageError} `missing_argument` where nobody can be asked */
async function askFor(
  name: string,
  { asks }: Argument<unknown>,
  { context, path }: { readonly context: CommandContext; readonly path: readonly string[] },
): Promise<string> {
  if (asks === undefined) throw missingArgument(name, path)
  const { askForArgument } = await import('../names/ask.js')
  return await askForArgument(context, asks)
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
