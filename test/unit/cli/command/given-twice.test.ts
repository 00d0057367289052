/** Nothing is accepted without effect: a flag given twice, a namespace that a command is not about, a job named twice. */
import { expect, test } from 'vitest'
import { runCli } from '../../../support/service/run-cli.js'
import { JOB, MODEL, page, scriptedService } from '../../../support/service/scripted-service.js'

const completed = { ...JOB, status: 'completed', result: { status: 'success', details: { step: 13 } } }
const jobs = {
  'GET /v1/preview/training-jobs': { body: page([completed]) },
  [`GET /v1/preview/training-jobs/${JOB.id}`]: { body: completed },
}

test.each([
  [['jobs', 'list', '--limit', '5', '--limit', '6'], '--limit takes one value, got "5" and "6"'],
  [['models', 'list', '--project', 'a', '--project=b'], '--project takes one value, got "a" and "b"'],
  [['--server', 'http://a', 'whoami', '--server', 'http://b'], '--server takes one value'],
  [['serve', '--port', '1', '--port', '2'], '--port takes one value, got "1" and "2"'],
  [['chat', 'm', 'hi', '-n', '1', '-n', '2'], '-n takes one value'],
])('%j gives one flag two values', async (argv, message) => {
  const service = scriptedService({})
  const { exitCode, stderr } = await runCli(argv, { fetch: service.fetch })
  expect([exitCode, stderr]).toEqual([2, expect.stringContaining(message)])
  expect(service.requests).toEqual([])
})

test('what may be repeated, switches, and one flag over a variable and the config file stay', async () => {
  const service = scriptedService({ 'GET /v1/preview/models': { body: page([]) } })
  const env = { TRAINYARD_PROJECT: 'from-variable' }
  const options = { fetch: service.fetch, env }
  const argv = ['models', 'list', '--json', '--json', '--project', 'from-flag']
  expect((await runCli(argv, options)).exitCode).toBe(0)
  expect(service.requests.at(-1)?.query.get('project')).toBe('from-flag')
  const repeated = ['checkpoints', 'delete', 'm', '--keep', 'latest', '--keep', 'last:2', '--dry-run']
  expect((await runCli(repeated, options)).exitCode).toBe(3)
})

test.each([
  [['jobs', 'get', JOB.id, '--project', 'games'], '--project has no effect on "trainyard jobs get"'],
  [['base-models', 'list', '--project', 'games'], '--project has no effect'],
  [['usage', '--entity', 'others'], '--entity has no effect on "trainyard usage"'],
  [['keys', 'list', '--entity', 'others'], '--entity has no effect'],
  [['version', '--entity', 'others'], '--entity has no effect'],
])('%j is about no project or entity', async (argv, message) => {
  const service = scriptedService(jobs)
  const { exitCode, stderr } = await runCli(argv, { fetch: service.fetch })
  expect([exitCode, stderr]).toEqual([2, expect.stringContaining(message)])
  expect(service.requests).toEqual([])
  const { stdout } = await runCli([...argv.slice(0, -2), '--help'])
  expect(stdout).not.toContain(`  ${argv.at(-2)} <name>`)
})

test.each([
  ['models', '/v1/preview/models'],
  ['jobs', '/v1/preview/training-jobs'],
  ['keys', '/v1/preview/keys'],
  ['webhooks', '/v1/preview/webhooks'],
])('%s list asks for the project it was given, and for all otherwise', async (noun, path) => {
  const service = scriptedService({ [`GET ${path}`]: { body: page([], true) } })
  const env = { TRAINYARD_PROJECT: 'games' }
  const asked = await runCli([noun, 'list', '--project', 'games'], { fetch: service.fetch })
  expect(asked.stderr).toContain(`more: trainyard ${noun} list --project games --after`)
  await runCli([noun, 'list'], { fetch: service.fetch, env })
  expect(service.requests.map(({ query }) => query.get('project'))).toEqual(['games', null])
})

test.each([
  ['models', '/v1/preview/models'],
  ['jobs', '/v1/preview/training-jobs'],
  ['keys', '/v1/preview/keys'],
  ['webhooks', '/v1/preview/webhooks'],
])('%s list says at a terminal that a configured project does not limit it', async (noun, path) => {
  const service = scriptedService({ [`GET ${path}`]: { body: page([]) } })
  const options = { fetch: service.fetch, tty: true, env: { TRAINYARD_PROJECT: 'games' } }
  const hint = 'hint: of every project, also beside games (from TRAINYARD_PROJECT); --project games shows that one'
  expect((await runCli([noun, 'list'], options)).stderr).toContain(hint)
  expect((await runCli([noun, 'list', '--project', 'games'], options)).stderr).not.toContain('hint: of every project')
  expect((await runCli([noun, 'list'], { ...options, env: {} })).stderr).not.toContain('hint: of every project')
  expect((await runCli([noun, 'list', '--help'])).stdout).toContain('Of every project, whichever is configured')
})

test('a job named twice, also by two names, is waited for and shown once', async () => {
  const service = scriptedService({ ...jobs, 'GET /v1/preview/models': { body: page([MODEL]) } })
  const { stdout, exitCode } = await runCli(['jobs', 'wait', JOB.id, JOB.id.slice(-8), 'latest'], {
    fetch: service.fetch,
  })
  expect([exitCode, stdout]).toEqual([0, expect.stringMatching(/^[^\n]+\n$/)])
})

test('a bare noun under --json is one document, as every error', async () => {
  const { stdout, stderr, exitCode } = await runCli(['models', '--json'])
  expect([exitCode, stdout]).toEqual([2, ''])
  expect(JSON.parse(stderr)).toMatchObject({ error: { code: 'missing_command', hint: 'trainyard models --help' } })
})

test('a webhook named twice is deleted once', async () => {
  const path = `/v1/preview/webhooks/${JOB.id}`
  const service = scriptedService({ [`DELETE ${path}`]: { body: { id: JOB.id, object: 'webhook', deleted: true } } })
  const { exitCode, stdout } = await runCli(['webhooks', 'delete', JOB.id, JOB.id], { fetch: service.fetch })
  expect([exitCode, stdout, service.requests.length]).toEqual([0, 'Deleted 1 webhook\n', 1])
})
