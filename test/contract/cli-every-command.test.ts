/**
 * What every command owes its users, without being asked: the right exit code for a typo, a missing server, a wrong key,
 * a missing thing, and a deletion nobody confirmed.
 */
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, describe, expect, test } from 'vitest'
import { commandTable } from '../../commands/program.js'
import { runCli, unreachable } from '../support/service/run-cli.js'
import { errorBody, JOB, MODEL, page, scriptedService } from '../support/service/scripted-service.js'

const folder = mkdtempSync(join(tmpdir(), 'trainyard-contract-'))
afterAll(() => rmSync(folder, { recursive: true, force: true, maxRetries: 20 }))
const groups = join(folder, 'groups.jsonl')
const rows = join(folder, 'rows.jsonl')
const pairs = join(folder, 'pairs.jsonl')
const prompts = join(folder, 'prompts.jsonl')
writeFileSync(prompts, '{"prompt":"2+2?","answer":"4"}\n')
const choice = { index: 0, finish_reason: 'stop', message: { role: 'assistant', content: 'a' }, token_ids: [1] }
const trajectories = [0, 1].map((reward) => ({ messages_and_choices: [choice], reward }))
writeFileSync(groups, `${JSON.stringify({ trajectories })}\n`)
writeFileSync(pairs, '{"prompt":"q","chosen":"a","rejected":"b"}\n')
writeFileSync(rows, '{"messages":[{"role":"user","content":"q"},{"role":"assistant","content":"a"}]}\n')

/** A complete command line of every command; a new command must be added here to pass. */
const complete: Readonly<Record<string, readonly string[]>> = {
  serve: [],
  demo: ['--server', 'http://127.0.0.1:8642'],
  chat: ['email-agent', 'hi'],
  rollout: ['email-agent', '--prompts', prompts],
  eval: ['email-agent', '--prompts', prompts],
  'train rl': ['email-agent', '--file', groups],
  'train dpo': ['email-agent', '--file', pairs],
  'train sft': ['email-agent', '--file', rows],
  log: ['email-agent', '--file', groups],
  'models list': [],
  'models create': ['new-model', '--base-model', 'trainyard/tiny-random'],
  'models get': ['email-agent'],
  'models delete': ['email-agent', '--yes'],
  'base-models list': [],
  'base-models add': ['org/name'],
  'base-models remove': ['org/name', '--yes'],
  'checkpoints list': ['email-agent'],
  'checkpoints delete': ['email-agent', '--steps', '1', '--yes'],
  'checkpoints download': ['email-agent', '-o', folder],
  'jobs list': [],
  'jobs get': [JOB.id],
  'jobs events': [JOB.id],
  'jobs watch': [JOB.id],
  'jobs wait': [JOB.id],
  'jobs cancel': [JOB.id, '--yes'],
  backup: [join(folder, 'backup.tar'), '--data-dir', join(folder, 'nowhere')],
  restore: [join(folder, 'no-backup.tar'), '--data-dir', join(folder, 'nowhere')],
  verify: [],
  'keys create': ['ci'],
  'keys list': [],
  'keys revoke': ['ci', '--yes'],
  'webhooks create': ['https://example.com/hook'],
  'webhooks list': [],
  'webhooks deliveries': ['wh-1'],
  'webhooks redeliver': ['wh-1', 'd-1'],
  'webhooks delete': ['wh-1'],
  usage: [],
  'system-check': ['--server-only'],
  whoami: [],
  'config list': [],
  'config get': ['server'],
  'config set': ['project', 'games'],
  'config unset': ['project'],
  'config path': [],
  open: [],
  completion: ['bash'],
  version: [],
}
/** Commands that never need the service, or say themselves what is wrong with it. */
const offline = new Set([
  'completion',
  'backup',
  'restore',
  'serve',
  'config list',
  'config get',
  'config set',
  'config unset',
  'config path',
  'version',
  'system-check',
])
const online = commandTable.map((entry) => entry.path.join(' ')).filter((name) => !offline.has(name))
/** Commands that name one thing, which may be missing. */
const naming = online.filter(
  (name) =>
    ![
      'keys create',
      'keys list',
      'usage',
      'webhooks create',
      'webhooks list',
      'models list',
      'models create',
      'base-models list',
      'jobs list',
      'whoami',
    ].includes(name),
)

function lineOf(name: string): readonly string[] {
  const rest = complete[name]
  if (rest === undefined) throw new Error(`add a complete command line for "${name}" to this test`)
  return [...name.split(' '), ...rest]
}

describe('every command', () => {
  test.each(commandTable.map((entry) => [entry.path.join(' ')]))(
    '%s: an unknown flag is exit 2, named, stdout empty',
    async (name) => {
      const { stdout, stderr, exitCode } = await runCli([...lineOf(name), '--no-such-flag'])
      expect({ stdout, exitCode }).toEqual({ stdout: '', exitCode: 2 })
      expect(stderr).toMatch(/^error: unknown option "--no-such-flag"\n/)
      expect(stderr).toContain(`hint: trainyard ${name} --help`)
    },
  )
  test.each(online.map((name) => [name]))('%s: no service is exit 6 with what to do', async (name) => {
    const { stdout, stderr, exitCode } = await runCli(lineOf(name), { fetch: unreachable })
    expect(exitCode).toBe(6)
    if (name !== 'whoami') expect(stdout).toBe('')
    expect(stderr).toContain('error: cannot reach http://127.0.0.1:8642 (connection refused)')
    expect(stderr).toContain('trainyard serve')
  })
  test.each(online.map((name) => [name]))('%s: a wrong key is exit 4', async (name) => {
    const fetch = () =>
      Promise.resolve(Response.json(errorBody('invalid_api_key', 'the API key is not known'), { status: 401 }))
    const { stderr, exitCode } = await runCli(lineOf(name), { fetch, env: { TRAINYARD_API_KEY: 'wrong' } })
    expect(exitCode).toBe(4)
    expect(stderr).toContain('error: the API key is not known')
    expect(stderr).not.toContain('wrong')
  })
  test.each(naming.map((name) => [name]))('%s: a missing thing is exit 3', async (name) => {
    const { fetch } = scriptedService({
      'GET /v1/preview/models': { body: page([]) },
      'GET /v1/models': { body: { data: [] } },
      'GET /v1/preview/keys': { body: page([]) },
    })
    const { stdout, stderr, exitCode } = await runCli(lineOf(name), { fetch })
    expect({ stdout, exitCode }).toEqual({ stdout: '', exitCode: 3 })
    expect(stderr).toMatch(/^error: /)
  })
  test.each(online.map((name) => [name]))('%s: with --json an error is one JSON line on stderr', async (name) => {
    const { stderr } = await runCli([...lineOf(name), '--json'], { fetch: unreachable })
    expect(stderr.trimEnd().split('\n')).toHaveLength(1)
    expect(JSON.parse(stderr)).toMatchObject({
      error: { type: 'unavailable', code: 'connection_failed', status: null },
    })
  })
  test.each([['models delete'], ['checkpoints delete'], ['jobs cancel'], ['keys revoke']])(
    '%s: without a terminal and without --yes it is exit 2 and nothing is sent',
    async (name) => {
      const service = scriptedService({ 'GET /v1/preview/models': { body: page([MODEL]) } })
      const line = lineOf(name).filter((word) => word !== '--yes')
      const { stderr, exitCode } = await runCli(line, { fetch: service.fetch })
      expect(exitCode).toBe(2)
      expect(stderr).toContain('--yes is required')
      expect(service.requests).toEqual([])
    },
  )
  test('the tables above know every command', () => {
    expect(Object.keys(complete).sort()).toEqual(commandTable.map((entry) => entry.path.join(' ')).sort())
  })
})
