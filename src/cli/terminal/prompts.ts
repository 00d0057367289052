/**
 * Questions to a person, only where one can answer: stdin and stderr are terminals and nothing forbids asking.
 *
 * Elsewhere a question is an error that names the flag (exit 2), never a default answer. `@inquirer/prompts` is loaded
 * on the first question only. Questions are drawn on stderr.
 */
import { InterruptedError, UsageError } from '../command/errors.js'
import type { Io } from './io.js'

export interface Prompts {
  readonly canAsk: boolean
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

  return {
    canAsk,
    async confirm(question, flag) {
      requireTerminal(flag, 'go on')
      const { confirm } = await import('@inquirer/prompts')
      return await confirm({ message: question, default: false }, context).catch(rethrow)
    },
    async confirmByName(question, expected, flag) {
      requireTerminal(flag, 'delete')
      const { input } = await import('@inquirer/prompts')
      const typed = await input({ message: question }, context).catch(rethrow)
      return typed.trim() === expected
    },
    async secret(question, flag) {
      requireTerminal(flag, 'read a secret')
      const { password } = await import('@inquirer/prompts')
      return await password({ message: question }, context).catch(rethrow)
    },
  }
}

/** Ctrl-C at a question arrives as an error of the prompt library, not as a signal. */
function rethrow(error: unknown): never {
  const isInterruption = error instanceof Error && ['ExitPromptError', 'AbortPromptError'].includes(error.name)
  throw isInterruption ? new InterruptedError('SIGINT') : error
}
