/**
 * A disk that is really full (a small file system of its own, where this user may mount one), and a database that the disk has
 * damaged.
 */
import { execFileSync } from 'node:child_process'
import { mkdtempSync, rmSync } from 'node:fs'
import { open, readdir, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { createLogger } from '#base/logging/logger.js'
import { reportError } from '#cli/terminal/errors.js'
import { createBackup, restoreBackup } from '#plugins/backup/data-directory.js'
import { createTestService, sampleGroup, type TestService } from '../../support/service/create-test-service.js'
import { until } from '../../support/until.js'

const folder = mkdtempSync(join(tmpdir(), 'trainyard-disk-'))

function mount(options: string, path = folder): boolean {
  try {
    execFileSync('mount', ['-t', 'tmpfs', '-o', options, 'tmpfs', path], { stdio: 'ignore' })
    return true
  } catch {
    return false
  }
}
const unmount = () => execFileSync('umount', ['-l', folder])
// only tried here: a file that is collected and not run would leave it mounted
const canMount = process.platform === 'linux' && process.getuid?.() === 0 && mount('size=12m,mode=700')
if (canMount) unmount()
afterAll(() => {
  rmSync(folder, { recursive: true, force: true, maxRetries: 20 })
})

describe.skipIf(!canMount)('a disk that is full', () => {
  beforeAll(() => void mount('size=12m,mode=700'))
  afterAll(() => void unmount())

  it('refuses what would be written, keeps and serves what was, and goes on when there is room', async () => {
    const service = await createTestService({ dataDir: join(folder, 'data') })
    const model = await service.createModel('kept')
    const submit = (reward: number) =>
      service.json<{ id: string; error?: { code: string } }>('/v1/preview/training-jobs', {
        json: { model_id: model, trajectory_groups: [sampleGroup([reward, 0])] },
      })
    const done = await submit(1)
    await service.waitForJob(done.body.id)
    const upload = (size: number) =>
      service.fetch(`/v1/files?filename=big`, {
        method: 'POST',
        body: Buffer.alloc(size, size % 251),
        headers: { 'content-type': 'application/octet-stream' },
      })
    const refused = await upload(16_000_000)
    expect(refused.status).toBe(503)
    expect(refused.headers.get('retry-after')).not.toBeNull()
    expect((await refused.json()) as object).toMatchObject({ error: { code: 'disk_full' } })
    // what it had written is gone: there is room for less
    expect((await upload(4_000_000)).status).toBe(200)
    // to the last block
    execFileSync('sh', ['-c', `cat /dev/zero > '${folder}/ballast' || true`], { stdio: 'ignore' })
    const answers = [await submit(2), await submit(3), await submit(4)]
    for (const { status, body } of answers) {
      if (status !== 200) expect([status, body.error?.code]).toEqual([503, 'disk_full'])
    }
    expect(answers.some(({ status }) => status === 503)).toBe(true)
    expect((await service.json<{ step: number }>(`/v1/preview/models/${model}`)).body.step).toBe(1)
    const files = await service.fetch(`/v1/preview/models/${model}/checkpoints/1/files/adapter_config.json`)
    expect([files.status, (await files.text()).length > 0]).toEqual([200, true])
    execFileSync('mount', ['-o', 'remount,size=64m', folder])
    const again = await submit(5)
    expect(again.status, JSON.stringify(again.body)).toBe(200)
    expect((await service.waitForJob(again.body.id)).status).toBe('completed')
    await service.close(1000)
  })

  it('is named by a backup, a restore and a command, whichever disk it is', async () => {
    execFileSync('mount', ['-o', 'remount,size=64m', folder])
    const dataDir = join(folder, 'saved')
    const service = await createTestService({ dataDir })
    await service.createModel('kept')
    await service.close(1000)
    const small = mkdtempSync(join(tmpdir(), 'trainyard-small-'))
    expect(mount('size=64k', small)).toBe(true)
    try {
      const file = join(small, 'backup.tar')
      const fullTarget = { code: 'disk_full', message: expect.stringContaining(`"${file}" cannot be written`) }
      await expect(createBackup(dataDir, file)).rejects.toMatchObject(fullTarget)
      expect(await readdir(small)).toEqual([])

      const whole = join(folder, 'whole.tar')
      await createBackup(dataDir, whole)
      const restored = join(small, 'restored')
      const fullRestore = { code: 'disk_full', message: expect.stringContaining('the disk is full') }
      await expect(restoreBackup(whole, restored)).rejects.toMatchObject(fullRestore)

      const full: unknown = await writeFile(join(small, 'downloaded'), Buffer.alloc(1e6)).catch((error) => error)
      expect(reportError(full).json.error).toMatchObject({ code: 'disk_full' })
      await rm(join(small, 'downloaded'))

      execFileSync('mount', ['-o', 'remount,size=16m', small])
      await restoreBackup(whole, restored)

      execFileSync('sh', ['-c', `cat /dev/zero > '${folder}/ballast' || true`], { stdio: 'ignore' })
      const fullData = { code: 'disk_full', message: expect.stringContaining('copy of the database') }
      await expect(createBackup(dataDir, file)).rejects.toMatchObject(fullData)
      expect((await readdir(dataDir)).filter((name) => name.startsWith('backup'))).toEqual([])
    } finally {
      execFileSync('umount', ['-l', small])
      rmSync(small, { recursive: true })
    }
  })
})

describe.skipIf(!canMount)('a disk without room for the weights of a base model', () => {
  const small = mkdtempSync(join(tmpdir(), 'trainyard-weights-'))
  beforeAll(() => void mount('size=12m,mode=700', small))
  afterAll(() => {
    execFileSync('umount', ['-l', small])
    rmSync(small, { recursive: true, force: true })
  })

  it('is what a chat is told, with what to do; when there is room the next one is answered', async () => {
    const log: string[] = []
    const service = await createTestService({
      dataDir: join(small, 'data'),
      scripted: false,
      baseModels: ['trainyard/spark'],
      logger: createLogger({ level: 'info', destination: { write: (line) => void log.push(line) } }),
    })
    try {
      const chat = () =>
        service.json('/v1/chat/completions', {
          json: { messages: [{ role: 'user', content: 'hi' }], max_tokens: 2 },
        })
      const refused = await chat()
      expect(refused).toMatchObject({
        status: 503,
        body: {
          error: {
            message: expect.stringContaining('its prepared weights cannot be written: the disk is full'),
            hint: expect.stringContaining('free some space on the disk of the data directory'),
          },
        },
      })
      const logged = (event: string) => log.map((line) => JSON.parse(line)).find((line) => line.event === event)
      expect(logged('engine.load_failed')).toMatchObject({ error: { code: 'disk_full' } })
      expect(logged('http.error')).toMatchObject({ code: 'disk_full' })
      execFileSync('mount', ['-o', 'remount,size=400m', small])
      await until(async () => (await chat()).status === 200, 'an answer')
    } finally {
      await service.close(1000)
    }
  })
})

describe('a database that is damaged', () => {
  it('in its pages: the server refuses to start, says what to do, and leaves the file as it is', async () => {
    const service: TestService = await createTestService()
    for (let i = 0; i < 40; i += 1) await service.createModel(`m${i}`)
    await service.close(1000)
    const path = join(service.dataDir, 'trainyard.sqlite3')
    const file = await open(path, 'r+')
    await file.write(Buffer.alloc(8192, 0xa5), 0, 8192, 8192)
    await file.close()
    const damaged = await readFile(path)
    await expect(createTestService({ dataDir: service.dataDir })).rejects.toMatchObject({
      code: 'database_unreadable',
      hint: expect.stringContaining('backup'),
    })
    expect((await readFile(path)).equals(damaged)).toBe(true)
    rmSync(service.dataDir, { recursive: true, force: true, maxRetries: 20 })
  })
})
