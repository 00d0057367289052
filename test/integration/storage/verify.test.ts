/**
 * `verify`: what is missing, damaged or named by no row is found, by a running service and in a directory that no server starts on; nothing
 * is changed.
 */
import { createHash } from 'node:crypto'
import { mkdir, readdir, rm, truncate, writeFile } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import type { StorageReport } from '#contract/wire/health.js'
import { createTestService, type TestService } from '../../support/service/create-test-service.js'
import { runCli } from '../../support/service/run-cli.js'

let service: TestService
const digests: string[] = []
const orphan = createHash('sha256').update('nobody’s').digest('hex')
const pathOf = (sha256: string) => join(service.dataDir, 'blobs/sha256', sha256.slice(0, 2), sha256.slice(2))

beforeAll(async () => {
  service = await createTestService()
  for (const text of ['one', 'two', 'three']) {
    const form = new FormData()
    form.set('purpose', 'fine-tune')
    form.set(
      'file',
      new Blob([`{"messages":[{"role":"user","content":"${text}"},{"role":"assistant","content":"a"}]}\n`]),
      'r.jsonl',
    )
    const file = (await (await service.fetch('/v1/files', { method: 'POST', body: form })).json()) as { sha256: string }
    digests.push(file.sha256)
  }
})
afterAll(() => service.dispose())

async function online(): Promise<StorageReport> {
  const response = await service.fetch('/v1/preview/verify', { method: 'POST' })
  const events = (await response.text()).split('\n\n').filter((event) => event.includes('data: '))
  return JSON.parse(events.at(-1)?.split('data: ')[1] ?? '') as StorageReport
}

async function offline(): Promise<{ readonly exitCode: number | null; readonly report: StorageReport }> {
  const { exitCode, stdout } = await runCli(['verify', '--data-dir', service.dataDir, '--json'])
  return { exitCode, report: JSON.parse(stdout) as StorageReport }
}

const files = async () => (await readdir(join(service.dataDir, 'blobs'), { recursive: true })).sort()

describe('verify', () => {
  it('finds nothing wrong with what was just stored, online and offline', async () => {
    const report = await online()
    expect(report).toMatchObject({
      object: 'storage_report',
      ok: true,
      blobs: 3,
      missing: [],
      damaged: [],
      orphans: [],
    })
    expect(await offline()).toEqual({
      exitCode: 0,
      report: { ...report, database: expect.objectContaining({ state: 'ours' }) },
    })
  })

  it('names what is missing, damaged and nobody’s, and exits 1', async () => {
    const [damaged = '', missing = ''] = digests
    await writeFile(pathOf(damaged), 'other bytes')
    await rm(pathOf(missing))
    await mkdir(dirname(pathOf(orphan)), { recursive: true })
    await writeFile(pathOf(orphan), 'nobody’s')
    const before = await files()
    const found = {
      ok: false,
      blobs: 3,
      missing: [{ sha256: missing, named_by: ['files'] }],
      damaged: [
        {
          sha256: damaged,
          size_bytes: 11,
          actual_sha256: createHash('sha256').update('other bytes').digest('hex'),
          named_by: ['files'],
        },
      ],
      orphans: [{ sha256: orphan, size_bytes: 10 }],
    }
    expect(await online()).toMatchObject(found)
    expect(await offline()).toMatchObject({ exitCode: 1, report: found })
    const { exitCode, stdout, stderr } = await runCli(['verify', '--data-dir', service.dataDir])
    expect(exitCode).toBe(1)
    for (const word of ['MISSING', 'DAMAGED', 'ORPHAN']) expect(stdout).toContain(word)
    expect(stderr).toContain('1 blob missing, 1 blob damaged')
    expect(await files()).toEqual(before)
  })

  it('is for admin keys that see every project', async () => {
    for (const limits of [{ scope: 'write' }, { scope: 'admin', project: 'games' }]) {
      const { body } = await service.json<{ key: string }>('/v1/preview/keys', { json: limits })
      const headers = { authorization: `Bearer ${body.key}` }
      expect((await service.fetch('/v1/preview/verify', { method: 'POST', headers })).status).toBe(403)
    }
  })

  it('lists everything of a directory whose database is lost, which it leaves as it is', async () => {
    await service.close(1000)
    const database = join(service.dataDir, 'trainyard.sqlite3')
    await truncate(database, 0)
    expect(await offline()).toMatchObject({
      exitCode: 1,
      report: { database: { state: 'empty' }, orphans: { length: 3 } },
    })
    await rm(database)
    const { report } = await offline()
    expect(report.database).toEqual({
      state: 'missing',
      message: `database "${database}" is missing, and the data directory holds 3 blobs, an api-key`,
    })
    expect(report.orphans.every((each) => each.is_kept)).toBe(true)
    expect(await readdir(service.dataDir)).not.toContain('trainyard.sqlite3')
  })

  it('says that a folder is no data directory', async () => {
    const { exitCode, stderr } = await runCli(['verify', '--data-dir', join(service.dataDir, 'nowhere')])
    expect([exitCode, stderr]).toEqual([3, expect.stringContaining('is not the data directory of a service')])
  })
})
