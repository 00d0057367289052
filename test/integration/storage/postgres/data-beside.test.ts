/** A database that is not the one that a data directory's blobs belong to: the start is refused, nothing is deleted, and the right one goes on. */
import { readdir } from 'node:fs/promises'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest'
import { hasPostgres, type LocalPostgres, NO_POSTGRES, startPostgres } from '../../../support/local-postgres.js'
import { createTestService, sampleGroup } from '../../../support/service/create-test-service.js'

describe.skipIf(!hasPostgres())(hasPostgres() ? 'data beside PostgreSQL' : NO_POSTGRES, () => {
  let postgres: LocalPostgres
  beforeAll(async () => {
    postgres = await startPostgres()
  })
  afterAll(() => postgres?.stop())

  test('a database that is empty or another is refused, nothing is deleted, and the right one goes on', async () => {
    const database = await postgres.createDatabase()
    let service = await createTestService({ database })
    onTestFinished(() => service.dispose())
    const model = await service.createModel()
    const json = { model_id: model, trajectory_groups: [sampleGroup()] }
    const { body: job } = await service.json<{ id: string }>('/v1/preview/training-jobs', { json })
    await service.waitForJob(job.id)
    const blobs = async () => (await readdir(join(service.dataDir, 'blobs'), { recursive: true })).sort()
    await service.close(2000)
    const before = await blobs()
    const other = await postgres.createDatabase()
    const another = await createTestService({ database: other })
    await another.dispose()
    for (const wrong of [await postgres.createDatabase(), other]) {
      const start = createTestService({ database: wrong, dataDir: service.dataDir, apiKey: service.apiKey })
      await expect(start).rejects.toMatchObject({ code: 'database_unreadable', hint: expect.stringMatching(/./) })
    }
    expect(await blobs()).toEqual(before)
    service = await service.restart()
    expect((await service.json<{ status: string }>(`/v1/preview/training-jobs/${job.id}`)).body.status).toBe(
      'completed',
    )
  })
})
