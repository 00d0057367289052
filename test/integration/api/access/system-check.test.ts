/**
 * The system check tries every part for real, says how long each took, and shares its work between callers.
 */
import { rm } from 'node:fs/promises'
import { join } from 'node:path'
import { afterEach, describe, expect, it } from 'vitest'
import type { SystemCheckResponse } from '#contract/wire/health.js'
import {
  createTestService,
  type TestService,
  type TestServiceOptions,
} from '../../../support/service/create-test-service.js'
import { runCli } from '../../../support/service/run-cli.js'

let service: TestService
afterEach(() => service.dispose())

/** With an engine that runs: a busy machine may take longer to start it than the check waits for it. */
async function start(options: TestServiceOptions = {}): Promise<void> {
  service = await createTestService(options)
  const json = { messages: [{ role: 'user', content: 'hi' }], max_tokens: 1 }
  expect((await service.json('/v1/chat/completions', { json })).status).toBe(200)
}
const check = () => service.json<SystemCheckResponse>('/v1/system-check', { headers: { authorization: '' } })

describe('the system check', () => {
  it('goes through database, blobs, queue, engine and a worker, each with its time', async () => {
    await start()
    const { status, body } = await check()
    expect([status, body.database]).toEqual([200, true])
    expect(body.checks?.map(({ name, success }) => [name, success])).toEqual([
      ['database', true],
      ['blob_store', true],
      ['cpu_queue', true],
      ['gpu_queue', true],
      ['base_models', true],
      ['worker', true],
    ])
    for (const each of body.checks ?? []) expect(each.duration_ms, each.name).toBeGreaterThanOrEqual(0)
    const names = body.checks?.filter((each) => each.is_slow).map((each) => each.name) ?? []
    expect(body.slow === null || names.includes(body.slow ?? '')).toBe(true)
    const { stdout } = await runCli(['system-check', '--server-only'], { fetch, env: { TRAINYARD_URL: service.url } })
    expect(stdout).toMatch(/\tworker\ta worker was started and loaded its runtime, \d+ ms/)
  })

  it('says which part fails, with 503, and goes on with the others', async () => {
    const standIn = { STAND_IN_PROBE_FAILS: '1', TRAINYARD_PASS_ENVIRONMENT: 'STAND_IN_PROBE_FAILS' }
    await start({ seams: { environment: { ...process.env, ...standIn } } })
    await rm(join(service.dataDir, 'blobs'), { recursive: true })
    const { status, body } = await check()
    expect(status).toBe(503)
    const failed = Object.fromEntries(body.checks?.map(({ name, errors }) => [name, errors[0]]) ?? [])
    expect(failed).toMatchObject({ database: undefined, cpu_queue: undefined, gpu_queue: undefined })
    expect(failed['blob_store']).toBeDefined()
    expect(failed['worker']).toBe('a worker ended with code 3 before it was ready')
    const cli = await runCli(['system-check', '--server-only'], { fetch, env: { TRAINYARD_URL: service.url } })
    expect([cli.exitCode, cli.stderr]).toEqual([1, expect.stringContaining('2 checks failed')])
  })

  it('is run once for many who ask at once', async () => {
    await start()
    const answers = await Promise.all(Array.from({ length: 20 }, check))
    // one that comes late on a busy machine may start the next run
    expect(new Set(answers.map(({ body }) => body.checks?.[0]?.duration_ms)).size).toBeLessThan(10)
  })
})
