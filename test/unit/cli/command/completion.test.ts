/** Completion scripts: a real bash completes from its own. */
import { execFileSync } from 'node:child_process'
import { describe, expect, test } from 'vitest'
import { commandTable } from '../../../../commands/program.js'
import { completionScript } from '../../../../src/cli/command/completion.js'
import { runCli } from '../../../support/service/run-cli.js'
import { JOB, MODEL, page, scriptedService } from '../../../support/service/scripted-service.js'

const commands = await Promise.all(commandTable.map((entry) => entry.load()))

/** What bash offers after these words, where the service names `names`. */
function completeWith(names: readonly string[], ...words: string[]): string[] {
  const script = `${completionScript('bash', commands)}
trainyard() { [ "$1" = __complete ] && printf '%s-of-%s\\n' ${names.map((name) => `${name} "$2"`).join(' ')}; }
COMP_WORDS=(trainyard "$@"); COMP_CWORD=$#; _trainyard; printf '%s\\n' "\${COMPREPLY[@]}"`
  return execFileSync('bash', ['-c', script, 'bash', ...words], { encoding: 'utf8' })
    .trim()
    .split('\n')
}

const complete = (...words: string[]) => completeWith(['none'], ...words)

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
test('bash asks the service where a command names a model or a job, and there alone', () => {
  const names = ['orders', 'other', 'mails']
  expect(completeWith(names, 'train', 'rl', 'o')).toEqual(['orders-of-model', 'other-of-model'])
  expect(completeWith(names, 'chat', 'm')).toEqual(['mails-of-served'])
  expect(completeWith(names, 'jobs', 'get', '')).toEqual(['orders-of-job', 'other-of-job', 'mails-of-job'])
  expect(completeWith(names, 'jobs', 'wa')).toEqual(['watch', 'wait'])
  expect(completeWith(names, 'models', 'create', 'o')).not.toContain('orders-of-model')
  // a name that looks like a command is none
  expect(completeWith(["'$(echo danger)'"], 'chat', '$')).toEqual(['$(echo danger)-of-served'])
})
test('fish asks for the same', () => {
  const fish = completionScript('fish', commands)
  expect(fish).toContain(
    "-n '__fish_seen_subcommand_from train; and __fish_seen_subcommand_from rl' -a '(trainyard __complete model 2>/dev/null)'",
  )
})
describe('__complete', () => {
  // what a busy machine may take for an answer that is there
  const env = { TRAINYARD_TIMEOUT: '60s' }
  const { fetch } = scriptedService({
    'GET /v1/preview/models': { body: page([MODEL, { ...MODEL, name: '$(rm -rf x)' }]) },
    'GET /v1/preview/base-models': { body: ['org/base'] },
    'GET /v1/preview/training-jobs': { body: page([JOB]) },
  })
  test.each([
    ['model', 'email-agent\n'],
    ['served', 'email-agent\norg/base\n'],
    ['job', `latest\n${JOB.id.slice(-8)}\n`],
    ['anything', ''],
  ])('%s', async (kind, stdout) => {
    expect(await runCli(['__complete', kind], { fetch, env })).toEqual({ stdout, stderr: '', exitCode: 0 })
  })
  test('is silent where no service answers', async () => {
    expect(await runCli(['__complete', 'model'])).toEqual({ stdout: '', stderr: '', exitCode: 0 })
    const never = { fetch: (_: unknown, init?: RequestInit) => untilAborted(init?.signal) }
    expect(await runCli(['__complete', 'model'], never)).toEqual({ stdout: '', stderr: '', exitCode: 0 })
  })
})

function untilAborted(signal: AbortSignal | null | undefined): Promise<never> {
  return new Promise((_, reject) => signal?.addEventListener('abort', () => reject(signal.reason), { once: true }))
}
