/**
 * Faults: workers that start slowly or freeze, shutdown, a full disk. What is killed is in `kills.test.ts`.
 */
import { readdir, stat } from 'node:fs/promises'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { describe, expect, it } from 'vitest'
import { createTestService, type TestService } from '../../support/service/create-test-service.js'
import { isOnPostgres } from '../../support/service/database-kind.js'
import { checkPromise, eventsOf, HELD_AT_3, submit, useFaultyServers } from '../../support/service/faulty-servers.js'
import { until } from '../../support/until.js'

const { startServer, dataDir, atEnd } = useFaultyServers()

describe('a slow start', { timeout: 240_000 }, () => {
  it('of many leases costs the job nothing', async () => {
    const server = await startServer({
      tuning: { jobs: { leaseMs: 600 } },
      seams: { environment: { STAND_IN_START_MS: '4500', TRAINYARD_PASS_ENVIRONMENT: 'STAND_IN_START_MS' } },
    })
    const modelId = await server.createModel()
    const jobId = await submit(server, modelId, { steps: 2 })
    expect(await checkPromise(server, modelId, jobId)).toMatchObject({ status: 'completed', attempt: 1 })
  })

  it('past its own deadline is tried again, and the job completes', async () => {
    const standIn = { STAND_IN_START_MS: '600000', STAND_IN_START_ATTEMPT: '1' }
    const environment = { ...standIn, TRAINYARD_PASS_ENVIRONMENT: Object.keys(standIn).join() }
    const server = await startServer({ tuning: { jobs: { startMs: 8000 } }, seams: { environment } })
    const modelId = await server.createModel()
    const jobId = await submit(server, modelId, { steps: 2 })
    const job = await checkPromise(server, modelId, jobId)
    expect(job.status).toBe('completed')
    expect(job.attempt).toBeGreaterThan(1)
  })
})

describe('a frozen worker', { timeout: 240_000 }, () => {
  it('that wakes past its lease can change nothing', async () => {
    const server = await startServer({ tuning: { jobs: { leaseMs: 800 } } })
    const modelId = await server.createModel()
    const jobId = await submit(server, modelId, { steps: 3, freeze_at: 1, freeze_ms: 600_000, only_attempt: 1 })
    const job = await checkPromise(server, modelId, jobId)
    expect(job).toMatchObject({ status: 'completed', attempt: 2 })
    await sleep(500)
    expect(await checkPromise(server, modelId, jobId)).toEqual(job)
  })

  it('that sends heartbeats but makes no progress is given up', async () => {
    const server = await startServer({ tuning: { jobs: { stallMs: 8000 } } })
    const modelId = await server.createModel()
    const standIn = { steps: 3, freeze_at: 1, freeze_ms: 600_000, beats_while_frozen: true, only_attempt: 1 }
    const job = await checkPromise(server, modelId, await submit(server, modelId, standIn))
    expect(job).toMatchObject({ status: 'completed', attempt: 2 })
  })
})

describe('shutdown', { timeout: 240_000 }, () => {
  it('takes no new work, queues the running job again without counting it as lost, leaves one clean database file', async () => {
    const first = await startServer()
    const modelId = await first.createModel()
    const jobId = await submit(first, modelId, HELD_AT_3)
    await until(async () => (await eventsOf(first, jobId)).length > 2, 'some steps')
    await first.kill('SIGTERM')
    const files = (await readdir(dataDir())).filter((name) => name.startsWith('trainyard.sqlite3'))
    expect(files).toEqual(['trainyard.sqlite3'])
    const second = await startServer()
    expect(await checkPromise(second, modelId, jobId)).toMatchObject({ status: 'completed', attempt: 2 })
  })

  it('refuses what still comes, in words that a client retries by', async () => {
    const service = await createTestService({ dataDir: dataDir() })
    const headers = { authorization: `Bearer ${service.apiKey}` }
    expect((await service.app.request('/v1/preview/models', { headers })).status).toBe(200)
    const closing = service.close(10_000)
    const refused = await service.app.request('/v1/preview/models', { headers })
    expect([refused.status, await refused.json()]).toEqual([
      503,
      expect.objectContaining({ error: expect.objectContaining({ code: 'shutting_down' }) }),
    ])
    expect(Number(refused.headers.get('retry-after'))).toBeGreaterThan(0)
    await closing
  })
})

// the file is limited here; the disk of PostgreSQL is its own
describe.skipIf(isOnPostgres())('a disk that is full', { timeout: 240_000 }, () => {
  let service: TestService
  it('refuses writes with a clear error, goes on reading, and works again when space returns', async () => {
    // room for the tables, however many there are by now, and a little more
    const roomy = await createTestService({ dataDir: dataDir() })
    await roomy.close(500)
    const { size } = await stat(join(dataDir(), 'trainyard.sqlite3'))
    service = await roomy.restart({ seams: { maxDatabasePages: size / 4096 + 40 } })
    atEnd(() => service.close(500))
    const create = (name: string) =>
      service.json<{ id: string }>('/v1/preview/models', {
        json: { project: 'p'.repeat(200), name, base_model: 'trainyard/tiny-random' },
      })
    let made = 0
    let refused = await create('m0')
    while (refused.status === 200 && made < 3000) {
      made += 1
      refused = await create(`m${made}-${'x'.repeat(200)}`)
    }
    expect([refused.status, JSON.stringify(refused.body)]).toEqual([503, expect.stringContaining('disk_full')])
    expect((await service.json('/v1/preview/models?limit=5')).status).toBe(200)
    const again = await service.restart({ seams: { maxDatabasePages: 100_000 } })
    atEnd(() => again.close(500))
    const { status } = await again.json('/v1/preview/models', {
      json: { project: 'p', name: 'after', base_model: 'trainyard/tiny-random' },
    })
    expect(status).toBe(200)
  })
})
