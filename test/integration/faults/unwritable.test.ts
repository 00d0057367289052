/**
 * A database that another program holds, and a data directory that cannot be written: said as such, and over when it is.
 */
import { execFileSync } from 'node:child_process'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, afterEach, beforeEach, describe, expect, it } from 'vitest'
import { openSqlite, type Sqlite } from '#service/storage/sqlite.js'
import { STAND_INS } from '../../support/service/create-test-service.js'
import { type KillableServer, startKillableServer } from '../../support/service/killable-server.js'
import { until } from '../../support/until.js'

const folder = mkdtempSync(join(tmpdir(), 'trainyard-unwritable-'))
let dataDir: string
let holder: Sqlite | null = null
let server: KillableServer | null = null
let count = 0

beforeEach(() => {
  count += 1
  dataDir = join(folder, `data ${count}`)
})
afterEach(async () => {
  holder?.close()
  holder = null
  await server?.kill('SIGKILL')
  server = null
})
afterAll(() => rmSync(folder, { recursive: true, force: true, maxRetries: 20 }))

/** Begins to write in the server's database, as a shell that was left open does. */
function holdDatabase(): Sqlite {
  holder = openSqlite(join(dataDir, 'trainyard.sqlite3'))
  holder.exec('BEGIN IMMEDIATE')
  return holder
}

describe('a database that another program writes to', { timeout: 280_000 }, () => {
  it('refuses writes by name and goes on reading; the job that runs waits for it', async () => {
    const started = await startKillableServer({ dataDir, threads: 1 })
    server = started
    const modelId = await started.createModel()
    const jobId = await started.submitRows(modelId, 150)
    await until(async () => (await started.eventsOf(jobId)).length > 0, 'the start of the job')
    const held = holdDatabase()
    const create = () =>
      started.fetch('/v1/preview/models', { project: 'p', name: 'late', base_model: 'trainyard/tiny-random' })
    const refused = await create()
    expect([refused.status, await refused.json()]).toEqual([
      503,
      expect.objectContaining({ error: expect.objectContaining({ code: 'database_locked' }) }),
    ])
    expect(Number(refused.headers.get('retry-after'))).toBeGreaterThan(0)
    expect((await started.fetch(`/v1/preview/models/${modelId}`)).status).toBe(200)
    expect((await started.fetch('/v1/health')).status).toBe(200)
    held.exec('ROLLBACK')
    expect((await create()).status).toBe(200)
    expect(await started.untilEnd(jobId)).toMatchObject({ status: 'completed', attempt: 1, num_gradient_steps: 150 })
  })

  it('is named when a server would start on it, and is as it was', async () => {
    const options = { dataDir, seams: { entryPaths: STAND_INS } }
    const first = await startKillableServer(options)
    const modelId = await first.createModel()
    await first.kill('SIGTERM')
    const held = holdDatabase()
    await expect(startKillableServer(options)).rejects.toThrow('database_locked')
    held.exec('ROLLBACK')
    held.close()
    server = await startKillableServer({ ...options, apiKey: first.apiKey })
    expect((await server.fetch(`/v1/preview/models/${modelId}`)).status).toBe(200)
  })
})

it.skipIf(process.platform === 'win32')(
  'a directory that is removed while it is served is named to who writes, and not to be tried again',
  async () => {
    server = await startKillableServer({ dataDir, seams: { entryPaths: STAND_INS } })
    await server.createModel()
    rmSync(dataDir, { recursive: true })
    const refused = await server.fetch('/v1/preview/models', {
      project: 'p',
      name: 'lost',
      base_model: 'trainyard/tiny-random',
    })
    expect([refused.status, refused.headers.get('x-should-retry'), await refused.json()]).toEqual([
      500,
      'false',
      expect.objectContaining({
        error: expect.objectContaining({ code: 'data_dir_removed', hint: expect.stringContaining('restore') }),
      }),
    ])
  },
)

/** Makes what is there unwritable, also for an administrator. @returns how to undo it; null where this user may not */
function mountReadOnly(path: string): (() => void) | null {
  try {
    execFileSync('mount', ['--bind', path, path], { stdio: 'ignore' })
    execFileSync('mount', ['-o', 'remount,ro,bind', path], { stdio: 'ignore' })
    return () => execFileSync('umount', ['-l', path])
  } catch {
    return null
  }
}

describe('what cannot be written', { timeout: 280_000 }, () => {
  it.for([
    ['the data directory', '', 'data_dir_unusable'],
    ['its database', 'trainyard.sqlite3', 'data_dir_unusable'],
    ['its blobs', 'blobs', 'disk_full'],
  ] as const)(
    '%s: the server does not start, says so, and starts when it can be again',
    async ([, name, code], { skip }) => {
      const options = { dataDir, seams: { entryPaths: STAND_INS } }
      const first = await startKillableServer(options)
      await first.createModel()
      await first.kill('SIGTERM')
      const undo = mountReadOnly(join(dataDir, name))
      if (undo === null) return skip('this user may not mount')
      try {
        await expect(startKillableServer(options)).rejects.toThrow(code)
      } finally {
        undo()
      }
      server = await startKillableServer({ ...options, apiKey: first.apiKey })
      expect((await server.fetch('/v1/preview/models')).status).toBe(200)
    },
  )
})
