/** What a command line says that the service refuses for want of a key, or for the wrong one. */
import { expect, test } from 'vitest'
import { runCli } from '../../../support/service/run-cli.js'
import { errorBody, scriptedService } from '../../../support/service/scripted-service.js'

test('no key: where the command line takes keys from, not how a request carries one', async () => {
  const body = errorBody('missing_api_key', 'Not authenticated', { hint: 'send Authorization: Bearer <API key>' })
  const service = scriptedService({ 'GET /v1/preview/models': { status: 401, body } })
  const options = { fetch: service.fetch }
  const { exitCode, stderr } = await runCli(['models', 'list', '--server', 'http://127.0.0.1:1'], options)
  expect([exitCode, stderr]).toEqual([
    4,
    expect.stringContaining('error: Not authenticated\nhint: no API key was found'),
  ])
  for (const way of ['TRAINYARD_API_KEY', '--api-key-file', '$XDG_STATE_HOME/trainyard']) expect(stderr).toContain(way)
  expect(stderr).not.toContain('Bearer')
  const json = await runCli(['models', 'list', '--json'], options)
  expect(JSON.parse(json.stderr)).toMatchObject({ error: { hint: expect.stringContaining('TRAINYARD_API_KEY') } })
})

test('a key that is not accepted keeps the hint of the service', async () => {
  const body = errorBody('invalid_api_key', 'Invalid authentication credentials', { hint: 'trainyard whoami shows it' })
  const service = scriptedService({ 'GET /v1/preview/models': { status: 401, body } })
  const { exitCode, stderr } = await runCli(['models', 'list'], { fetch: service.fetch })
  expect([exitCode, stderr]).toEqual([4, expect.stringContaining('hint: trainyard whoami shows it')])
})
