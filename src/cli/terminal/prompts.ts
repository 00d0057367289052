/**
 * Questions to a person, only where one can answer: stdin and stderr are terminals and nothing forbids asking.
 *
 * Elsewhere a question is an error that names the flag (exit 2), never a default answer. `@inquirer/prompts` is loaded
 * on the first question only. Questions are drawn on stderr.
 */
import { InterruptedError, UsageError } from './errors.js'
import type { Io } from './io.js'
import { sanitizeLine } from './sanitize.js'

/** One line of a list to choose from. */
export interface Choice<T> {
  readonly value: T
  readonly name: string
  /** Shown while the line is chosen. */
  readonly description?: string
}

export interface Prompts {
  readonly canAsk: boolean
  /** One of a list. @throws {UsageError} `input_required` when nobody can be asked */
  select<T>(question: string, choices: readonly Choice<T>[], flag: string): Promise<T>
  /** Any of a list. @throws {UsageError} `input_required` when nobody can be asked */
  selectMany<T>(question: string, choices: readonly Choice<T>[], flag: string): Promise<readonly T[]>
  /** A line of text that is not empty. @throws {UsageError} `input_required` when nobody can be asked */
  text(question: string, flag: string): Promise<string>
  /**
   * y/N.
   *
   * @param flag what answers it without a terminal, for example `--yes`
   * @throws {UsageError} `input_required` when nobody can be asked
   */
  confirm(question: string, flag: string): Promise<boolean>
  /** Asks for `expected` to be typed; true when it was. */
  confirmByName(question: string, expected: string, flag: string): Promise<boolean>
  /** A secret, without echo. */
  secret(question: string, flag: string): Promise<string>
}

/** Creates the prompts of one run. */
export function createPrompts(io: Io, options: { readonly isAllowed: boolean; readonly signal: AbortSignal }): Prompts {
  const canAsk = options.isAllowed && io.stdin.isTerminal && io.stderr.isTerminal
  const context = { output: process.stderr, signal: options.signal }

  function requireTerminal(flag: string, purpose: string): void {
    if (canAsk) return
    throw new UsageError('input_required', `${flag} is required to ${purpose} without a terminal`, { param: flag })
  }

  /** Names and descriptions come from a server. */
  function lines<T>(choices: readonly Choice<T>[]) {
    return choices.map(({ value, name, description }) => ({
      value,
      name: sanitizeLine(name),
      ...(description === undefined ? {} : { description: sanitizeLine(description) }),
    }))
  }

  return {
    canAsk,
    async select(question, choices, flag) {
      requireTerminal(flag, 'choose')
      const { select } = await import('@inquirer/prompts')
      return await select(
        { message: sanitizeLine(question), choices: lines(choices), pageSize: 10, loop: false },
        context,
      ).catch(rethrow)
    },
    async selectMany(question, choices, flag) {
      requireTerminal(flag, 'choose')
      const { checkbox } = await import('@inquirer/prompts')
      const options = { message: sanitizeLine(question), choices: lines(choices), pageSize: 10, loop: false }
      return await checkbox(options, context).catch(rethrow)
    },
    async text(question, flag) {
      requireTerminal(flag, 'go on')
      const { input } = await import('@inquirer/prompts')
      return (await input({ message: sanitizeLine(question), required: true }, context).catch(rethrow)).trim()
    },
    async confirm(question, flag) {
      requireTerminal(flag, 'go on')
      const { confirm } = await import('@inquirer/prompts')
      return await confirm({ message: sanitizeLine(question), default: false }, context).catch(rethrow)
    },
    async confirmByName(question, expected, flag) {
      requireTerminal(flag, 'delete')
      const { input } = await import('@inquirer/prompts')
      const typed = await input({ message: sanitizeLine(question) }, context).catch(rethrow)
      return typed.trim() === expected
    },
    async secret(question, flag) {
      requireTerminal(flag, 'read a secret')
      const { password } = await import('@inquirer/prompts')
      return await password({ message: sanitizeLine(question) }, context).catch(rethrow)
    },
  }
}

/** Ctrl-C at a question arrives as an error of the prompt library, not as a signal. */
function rethrow(error: unknown): never {
  const isInterruption = error instanceof Error && ['ExitPromptError', 'AbortPromptError'].includes(error.name)
  throw isInterruption ? new InterruptedError('SIGINT') : error
}
