/**
 * The first key of a data directory: shown by the first start that succeeds, and there before a request is answered.
 */
import { existsSync } from 'node:fs'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, expect, it } from 'vitest'
import { createTestService } from '../../support/service/create-test-service.js'

let dataDir: string
beforeEach(async () => {
  dataDir = await mkdtemp(join(tmpdir(), 'trainyard-first-key-'))
})
afterEach(() => rm(dataDir, { recursive: true, force: true, maxRetries: 20 }))

it('is not made by a start whose port is in use: the next one makes and shows it', async () => {
  const other = await createTestService()
  try {
    const port = Number(new URL(other.url).port)
    await expect(createTestService({ dataDir, port })).rejects.toMatchObject({ code: 'port_in_use' })
    expect(existsSync(join(dataDir, 'api-key'))).toBe(false)
  } finally {
    await other.dispose()
  }
  const service = await createTestService({ dataDir })
  try {
    expect(service.createdApiKey).toMatch(/^ty_/)
    expect((await service.fetch('/v1/preview/models')).status).toBe(200)
  } finally {
    await service.close(500)
  }
})
