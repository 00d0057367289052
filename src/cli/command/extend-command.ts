/**
 * A command that a plugin adds flags to: a line with some of them runs what the plugin has, any other the command itself.
 */
import type { Command } from './define-command.js'

/** What a plugin adds to a command. */
export interface CommandPart {
  /** What such a line runs, with the arguments of the command. Its details and examples are added to the command's. */
  readonly command: Command
  /** Flags of the command that the added ones stand before, in help. */
  readonly beforeFlag: string
  /** Examples of the command that the added ones stand behind. */
  readonly behindExamples: number
  /**
   * Whether a line asks for this.
   *
   * @param given names of the flags that the line has
   */
  isAsked(given: ReadonlySet<string>): boolean
  /** Checks what excludes what. @throws {UsageError} `missing_option`, `conflicting_options` */
  check(given: ReadonlySet<string>): void
}

/** The command with the part. Details of the part stand behind the first sentence of the command's. */
export function extendCommand(command: Command, part: CommandPart): Command {
  const { command: added, beforeFlag, behindExamples } = part
  const own = Object.entries(command.flags)
  const more = Object.entries(added.flags).filter(([name]) => !(name in command.flags))
  const place = own.findIndex(([name]) => name === beforeFlag)
  const [first = '', ...others] = (command.details ?? '').split(/(?<=\.) /)
  return {
    ...command,
    details: [first, added.details, ...others].join(' '),
    examples: [
      ...command.examples.slice(0, behindExamples),
      ...added.examples,
      ...command.examples.slice(behindExamples),
    ],
    flags: Object.fromEntries([...own.slice(0, place), ...more, ...own.slice(place)]),
    async invoke(context, raw) {
      const given = new Set(Object.keys(raw.flags).filter((name) => (raw.flags[name]?.length ?? 0) > 0))
      const chosen = part.isAsked(given) ? added : command
      await chosen.invoke(context, raw, () => part.check(given))
    },
  }
}
