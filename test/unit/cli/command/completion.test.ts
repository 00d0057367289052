/** Completion scripts: a real bash completes from its own. */
import { execFileSync } from 'node:child_process'
import { expect, test } from 'vitest'
import { commandTable } from '../../../../commands/program.js'
import { completionScript } from '../../../../src/cli/command/completion.js'

const commands = await Promise.all(commandTable.map((entry) => entry.load()))

/** What bash offers after these words. */
function complete(...words: string[]): string[] {
  const script = `${completionScript('bash', commands)}
COMP_WORDS=(trainyard "$@"); COMP_CWORD=$#; _trainyard; printf '%s\\n' "\${COMPREPLY[@]}"`
  return execFileSync('bash', ['-c', script, 'bash', ...words], { encoding: 'utf8' })
    .trim()
    .split('\n')
}

test('bash: nouns, verbs and flags', () => {
  expect(complete('mod')).toEqual(['models'])
  expect(complete('jobs', 'ca')).toEqual(['cancel'])
  expect(complete('train', 'rl', '--lea')).toEqual(['--learning-rate'])
  expect(complete('train', 'rl', 'my-model', '--wat')).toEqual(['--watch'])
  expect(complete('chat', 'my-model', '--no-st')).toEqual(['--no-stream'])
  expect(complete('models', 'list', '--js')).toEqual(['--json'])
})
test('zsh and fish name every command', () => {
  expect(completionScript('zsh', commands)).toMatch(/^#compdef trainyard\n/)
  const fish = completionScript('fish', commands)
  for (const { path } of commands) expect(fish).toContain(`-a '${path.at(-1)}'`)
})
