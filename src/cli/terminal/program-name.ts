/**
 * How this program is called in what it tells a person to type: `trainyard`, or with the words of npx, `pnpm dlx` or bunx where one
 * of them started it, for there the plain name is not found. Texts everywhere name commands as `trainyard …`; outputs and help
 * pass them through here.
 *
 * Does not know `yarn dlx` and older versions of pnpm, which leave no such trace.
 */
import type { Environment } from '#base/environment.js'

/** Writes the commands in a text as this reader has to type them. */
export type SpellCommands = (text: string) => string

/** @param nouns first words of commands: what follows the name where a command is meant, and not the program in a sentence */
export function commandSpelling(environment: Environment, nouns: Iterable<string>): SpellCommands {
  const launcher = findLauncher(environment)
  if (launcher === null) return (text) => text
  const words = [...new Set([...nouns, 'help', '--help', '<command>'])].join('|')
  const command = new RegExp(`(?<![\\w/.@-]|(?:npx|dlx|bunx) )trainyard(?= (?:${words})(?![\\w-]))`, 'g')
  return (text) => text.replace(command, `${launcher} trainyard`)
}

/**
 * Launchers say so to what they start. Whatever that starts inherits it, so the script must be ours where it is named: `npx vitest` is
 * not. npm quotes its first word or does not, by version.
 */
function findLauncher(environment: Environment): string | null {
  const { npm_command: command, npm_lifecycle_event: event, npm_lifecycle_script: script = '' } = environment
  if (command === 'dlx' && environment['npm_config_user_agent']?.startsWith('pnpm/') === true) return 'pnpm dlx'
  if (command !== 'exec' || !/^["']?trainyard\b/.test(script)) return null
  return event === 'bunx' ? 'bunx' : 'npx'
}
