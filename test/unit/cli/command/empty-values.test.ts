/** What a variable of a shell that was never set leaves behind: an empty text is no name, and nothing is asked of the service. */
import { expect, test } from 'vitest'
import { createClient } from '#sdk/client/client.js'
import { runCli } from '../../../support/service/run-cli.js'
import { MODEL, page, scriptedService } from '../../../support/service/scripted-service.js'

test.each([
  [['keys', 'revoke', '', '--yes'], '<key>'],
  [['webhooks', 'delete', ''], '<webhook>'],
  [['webhooks', 'create', ''], '<url>'],
  [['models', 'delete', 'email-agent', '', '--yes'], '<model>'],
  [['backup', '--out', ''], '--out'],
])('%j is refused', async (argv, name) => {
  const service = scriptedService({})
  const { stderr, exitCode } = await runCli(argv, { fetch: service.fetch })
  expect(stderr).toContain(`${name} must be text that is not empty, got "`)
  expect([exitCode, service.requests]).toEqual([2, []])
})

test('the client asks for no list where one thing was meant', async () => {
  const service = scriptedService({})
  const client = createClient({ baseUrl: 'http://127.0.0.1:1', apiKey: 'k', fetch: service.fetch })
  const expected = { code: 'missing_id', message: 'an id or name is empty, expected text that names one thing' }
  const calls = [
    () => client.models.delete(''),
    () => client.keys.delete(''),
    () => client.baseModels.delete(''),
    () => client.trainingJobs.get(''),
  ]
  for (const call of calls) await expect((async () => await call())()).rejects.toMatchObject(expected)
  expect(service.requests).toEqual([])
})

test('a key of another entity is not asked of a service, which makes keys of its own', async () => {
  const service = scriptedService({})
  const { stderr, exitCode } = await runCli(['keys', 'create', 'a', '--entity', 'b'], { fetch: service.fetch })
  expect(stderr).toContain('--entity takes --local')
  expect([exitCode, service.requests]).toEqual([2, []])
})

test('a backup is not written to a file called -', async () => {
  const { stderr, exitCode } = await runCli(['backup', '--out', '-'], {})
  expect(stderr).toContain('--out must be a file: a backup is not written to standard output')
  expect(exitCode).toBe(2)
})

const USAGE = { object: 'usage', entity: 'local', from: 'a', to: 'b', data: [], total: {}, is_truncated: false }
test.each([
  ['email-agent', `${MODEL.entity}/${MODEL.project}/email-agent`],
  [`${MODEL.project}/email-agent`, `${MODEL.entity}/${MODEL.project}/email-agent`],
  ['trainyard/spark', 'trainyard/spark'],
  ['local/default/deleted-long-ago', 'local/default/deleted-long-ago'],
])('usage --model %s asks for what was counted', async (model, counted) => {
  const total = { requests: 0, prompt_tokens: 0, completion_tokens: 0, training_seconds: 0 }
  const service = scriptedService({
    'GET /v1/preview/models': { body: page([MODEL]) },
    'GET /v1/usage': { body: { ...USAGE, total } },
  })
  const { exitCode, stderr } = await runCli(['usage', '--model', model], { fetch: service.fetch })
  expect([exitCode, stderr]).toEqual([0, expect.stringContaining('nothing used')])
  expect(service.requests.at(-1)?.query.get('model')).toBe(counted)
})

test.each([
  [['jobs', 'get', ''], 'an id or name is empty'],
  [['jobs', 'cancel', '', '--yes'], 'an id or name is empty'],
  [['usage', '--model', 'email-agent:step3'], 'names a checkpoint; expected a model, email-agent'],
  [['usage', '--from', '2026-02-31'], '--from must be a day as YYYY-MM-DD, got "2026-02-31"'],
])('%j is refused', async (argv, message) => {
  const service = scriptedService({})
  const { exitCode, stderr } = await runCli(argv, { fetch: service.fetch })
  expect([exitCode, stderr]).toEqual([2, expect.stringContaining(message)])
  expect(service.requests).toEqual([])
})
