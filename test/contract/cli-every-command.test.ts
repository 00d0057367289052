/**
 * What every command owes its users, without being asked: the right exit code for a typo, a missing server, a wrong key,
 * a missing thing, and a deletion nobody confirmed.
 */
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { commandTable } from '../../commands/program.js'
import { completeLines, lineOf, removeInputs, writeInputs } from '../support/complete-lines.js'
import { runCli, unreachable } from '../support/service/run-cli.js'
import { errorBody, MODEL, page, scriptedService } from '../support/service/scripted-service.js'

beforeAll(writeInputs)
afterAll(removeInputs)

/** Commands that never need the service, or say themselves what is wrong with it. */
const offline = new Set([
  'init',
  'completion',
  'backup',
  'move',
  'restore',
  'serve',
  'config list',
  'config get',
  'config set',
  'config unset',
  'config path',
  'version',
  'system-check',
  'devices',
  'data convert',
  'env check',
  'env list',
  'grader check',
  'check openai',
  'skills add',
  'gateway',
])
const online = commandTable.map((entry) => entry.path.join(' ')).filter((name) => !offline.has(name))
/** Commands that name one thing, which may be missing. */
const naming = online.filter(
  (name) =>
    ![
      'audit list',
      'keys create',
      'keys list',
      'usage',
      'webhooks create',
      'webhooks list',
      'models list',
      'models create',
      'base-models list',
      'jobs list',
      'loops list',
      'routes create',
      'routes list',
      'sessions list',
      'whoami',
      'mcp',
      'train options',
    ].includes(name),
)

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
  test.each([
    ['models delete'],
    ['checkpoints delete'],
    ['jobs cancel'],
    ['keys revoke'],
    ['sessions end'],
    ['marks delete'],
    ['routes delete'],
  ])('%s: without a terminal and without --yes it is exit 2 and nothing is sent', async (name) => {
    const service = scriptedService({ 'GET /v1/preview/models': { body: page([MODEL]) } })
    const line = lineOf(name).filter((word) => word !== '--yes')
    const { stderr, exitCode } = await runCli(line, { fetch: service.fetch })
    expect(exitCode).toBe(2)
    expect(stderr).toContain('--yes is required')
    expect(service.requests).toEqual([])
  })
  test('the tables above know every command', () => {
    expect(Object.keys(completeLines).sort()).toEqual(commandTable.map((entry) => entry.path.join(' ')).sort())
  })
})
