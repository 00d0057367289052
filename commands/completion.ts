/**
 * `trainyard completion`: a script that lets a shell complete commands and flags.
 */
import { completionScript, SHELLS } from '#cli/command/completion.js'
import { defineCommand } from '#cli/command/define-command.js'
import { argument } from '#cli/command/flags.js'
import { UsageError } from '#cli/terminal/errors.js'
import { commandTable } from './program.js'

export const completion = defineCommand({
  path: ['completion'],
  summary: 'Print a completion script for a shell',
  details: 'Prints only; writes no file. Commands and flags are completed, without asking the service.',
  examples: [
    ['trainyard completion bash > ~/.local/share/bash-completion/completions/trainyard', 'for every bash from now on'],
    ['trainyard completion zsh > ~/.zfunc/_trainyard', 'for zsh, in a folder of $fpath'],
    ['trainyard completion fish > ~/.config/fish/completions/trainyard.fish', 'for fish'],
  ],
  args: { shell: argument.required(SHELLS.join(', ')) },
  flags: {},
  async run({ output, args }) {
    const shell = SHELLS.find((name) => name === args.shell)
    if (shell === undefined) {
      throw new UsageError('invalid_argument', `<shell> must be one of ${SHELLS.join(', ')}, got "${args.shell}"`)
    }
    output.raw(completionScript(shell, await Promise.all(commandTable.map((entry) => entry.load()))))
  },
})
