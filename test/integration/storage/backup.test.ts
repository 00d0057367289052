/**
 * Backup and restore: a service that works while it is saved comes back whole elsewhere; a file that is not whole restores
 * nothing.
 */
import { execFile } from 'node:child_process'
import { appendFile, mkdir, mkdtemp, readdir, readFile, rm, stat, truncate, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import type { TrainingJob } from '#contract/wire/training-jobs.js'
import { createBackup, restoreBackup } from '#plugins/backup/data-directory.js'
import { type TarEntry, writeTar } from '#plugins/backup/storage/tar.js'
import { RESTORE_MARKER } from '#service/storage/data-dir.js'
import { openSqlite } from '#service/storage/sqlite.js'
import { createTestService, sampleGroup, type TestService } from '../../support/service/create-test-service.js'
import { runCli } from '../../support/service/run-cli.js'

let folder: string
let service: TestService
let modelId: string
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'trainyard-backup-'))
  service = await createTestService()
  modelId = await service.createModel('kept')
  const form = new FormData()
  form.set('purpose', 'fine-tune')
  form.set('file', new Blob(['{"messages":[]}\n']), 'rows.jsonl')
  await service.fetch('/v1/files', { method: 'POST', body: form })
})
afterAll(async () => {
  await service.dispose()
  await rm(folder, { recursive: true, force: true, maxRetries: 20 })
})

const train = async (reward: number) => {
  const json = { model_id: modelId, trajectory_groups: [sampleGroup([reward, 0])] }
  return (await service.json<{ id: string }>('/v1/preview/training-jobs', { json })).body.id
}
const filesOf = async (of: TestService, step: number) => {
  const path = `/v1/preview/models/${modelId}/checkpoints/${step}/files`
  const { body } = await of.json<{ files: { name: string; sha256: string }[] }>(path)
  return body.files
}

describe('a backup', () => {
  it('of a service at work comes back whole: models, checkpoints, jobs, keys, files', async () => {
    await service.waitForJob(await train(1))
    // work goes on while it is saved: events, checkpoints and deletions between the copy of the rows and that of the blobs
    const jobs = [await train(2), await train(3), await train(4)]
    const doomed = await service.createModel('doomed')
    const log = { split: 'val', trajectory_groups: [sampleGroup()] }
    await service.json(`/v1/preview/models/${doomed}/log`, { json: log })
    const file = join(folder, 'busy.tar')
    const [saved] = await Promise.all([
      createBackup(service.dataDir, file),
      service.fetch(`/v1/preview/models/${doomed}`, { method: 'DELETE' }),
    ])
    expect(saved).toMatchObject({ damaged: [], schema: expect.stringMatching(/^\d{4}-/) })
    expect(saved.blobs).toBeGreaterThan(3)
    expect((await stat(file)).mode & 0o777).toBe(0o600)
    expect((await readdir(service.dataDir)).filter((name) => name.startsWith('backup-'))).toEqual([])
    for (const job of jobs) await service.waitForJob(job)

    const dataDir = join(folder, 'restored')
    expect(await restoreBackup(file, dataDir)).toMatchObject({ dataDir, damaged: [], blobs: saved.blobs })
    const restored = await createTestService({ dataDir, apiKey: service.apiKey })
    expect((await readFile(join(dataDir, 'api-key'), 'utf8')).trim()).toBe(service.apiKey)
    expect((await restored.json<{ name: string }>(`/v1/preview/models/${modelId}`)).body.name).toBe('kept')
    expect(await filesOf(restored, 1)).toEqual(await filesOf(service, 1))
    for (const { name } of await filesOf(restored, 1)) {
      const path = `/v1/preview/models/${modelId}/checkpoints/1/files/${name}`
      expect(await (await restored.fetch(path)).text(), name).toBe(await (await service.fetch(path)).text())
    }
    // what was unfinished when it was saved is finished there
    const list = await restored.json<{ data: TrainingJob[] }>('/v1/preview/training-jobs?limit=100')
    for (const job of list.body.data) expect((await restored.waitForJob(job.id)).status).toBe('completed')
    expect(list.body.data.length).toBeGreaterThan(0)
    await restored.close(2000)
  })

  it('is a tar archive that other programs read', async () => {
    const file = join(folder, 'listed.tar')
    const { blobs } = await createBackup(service.dataDir, file)
    const { stdout } = await promisify(execFile)('tar', ['-tf', file])
    const names = stdout.trim().split('\n')
    expect(names.slice(0, 3)).toEqual(['manifest.json', 'trainyard.sqlite3', 'api-key'])
    expect([names.length, names.at(-1)]).toEqual([blobs + 4, 'end.json'])
  })

  it('is not written over another file unless that is asked for', async () => {
    const file = join(folder, 'there.tar')
    await writeFile(file, 'mine')
    await expect(createBackup(service.dataDir, file)).rejects.toMatchObject({ code: 'file_exists' })
    expect(await readFile(file, 'utf8')).toBe('mine')
    await createBackup(service.dataDir, file, { isReplacing: true })
    expect((await stat(file)).size).toBeGreaterThan(10_000)
  })

  it('names what it could not save, and saves the rest', async () => {
    const file = join(folder, 'damaged.tar')
    const [sha256 = ''] = (await filesOf(service, 1)).map((each) => each.sha256)
    const path = join(service.dataDir, 'blobs/sha256', sha256.slice(0, 2), sha256.slice(2))
    const bytes = await readFile(path)
    await rm(path)
    await writeFile(path, Buffer.from(bytes.map((byte) => byte ^ 1)))
    expect(await createBackup(service.dataDir, file)).toMatchObject({ damaged: [sha256] })
    await rm(path)
    const { exitCode, stderr } = await runCli(['backup', '--out', file, '--force', '--data-dir', service.dataDir])
    expect([exitCode, stderr]).toEqual([1, expect.stringContaining('1 blob could not be saved')])
    const { damaged, dataDir } = await restoreBackup(file, join(folder, 'partly'))
    expect(damaged).toEqual([sha256])
    expect(await readdir(dataDir)).not.toContain(RESTORE_MARKER)
    await writeFile(path, bytes)
  })
})

describe('the command line', () => {
  it('saves and restores, and says what', async () => {
    const file = join(folder, 'cli.tar')
    const made = await runCli(['backup', '--out', file, '--data-dir', service.dataDir])
    expect([made.exitCode, made.stdout]).toEqual([0, expect.stringMatching(/^Saved .* blobs, /)])
    const target = join(folder, 'cli')
    const restored = await runCli(['restore', file, '--data-dir', target, '--json'])
    expect(JSON.parse(restored.stdout)).toMatchObject({ object: 'restore', data_dir: target, damaged: [] })
    const again = await runCli(['restore', file, '--data-dir', target])
    expect([again.exitCode, again.stderr]).toEqual([5, expect.stringContaining('is not empty')])
    // what stands there and cannot be read is not taken for nothing
    const taken = join(folder, 'taken')
    await writeFile(taken, '')
    await expect(restoreBackup(file, taken)).rejects.toMatchObject({
      ...{ code: 'data_dir_unusable', cause: { code: 'ENOTDIR', syscall: 'scandir' } },
    })
    await rm(taken)
  })

  it.each([
    ['restore', 'a file that is not there', 'none.tar', 3, 'does not exist'],
    ['restore', 'a folder', '', 2, 'is a folder'],
    ['backup', 'a file below a file', 'below/x.tar', 2, 'cannot be written'],
  ])('%s names %s', async (command, _, name, exit, words) => {
    await writeFile(join(folder, 'below'), '')
    const dataDir = command === 'backup' ? service.dataDir : join(folder, 'never')
    const file = command === 'backup' ? ['--out', join(folder, name)] : [join(folder, name)]
    const { exitCode, stderr } = await runCli([command, ...file, '--data-dir', dataDir])
    expect([exitCode, stderr]).toEqual([exit, expect.stringContaining(`"${join(folder, name)}" ${words}`)])
    expect(stderr).toContain('hint: ')
    expect(await readdir(folder)).not.toContain('never')
  })
})

describe('a restore', () => {
  let good: string
  beforeAll(async () => {
    good = join(folder, 'good.tar')
    await createBackup(service.dataDir, good)
  })

  /** Restores a changed copy: the code it fails with, after which nothing may be left. */
  async function refusal(change: (file: string) => Promise<unknown>): Promise<string> {
    const file = join(folder, 'changed.tar')
    await writeFile(file, await readFile(good))
    await change(file)
    const target = join(folder, 'refused')
    const code = await restoreBackup(file, target).then(
      () => 'none',
      (error: { code: string }) => error.code,
    )
    // neither what was unpacked nor the folders: the same directory takes the next restore
    await expect(stat(target)).rejects.toMatchObject({ code: 'ENOENT' })
    return code
  }

  it.each(['trigger', 'view'])('refuses a database with a %s that no migration made, by its name', async (type) => {
    const changed = join(folder, `changed-${type}`)
    await restoreBackup(good, changed)
    const sqlite = openSqlite(join(changed, 'trainyard.sqlite3'))
    sqlite.exec(
      type === 'view'
        ? 'create view planted as select * from api_keys'
        : 'create trigger planted after insert on models begin delete from checkpoints; end',
    )
    sqlite.close()
    const file = join(folder, `changed-${type}.tar`)
    await createBackup(changed, file)
    const target = join(folder, `refused-${type}`)
    await expect(restoreBackup(file, target)).rejects.toMatchObject({
      code: 'database_foreign',
      message: `the database has a ${type} "planted" that this program did not make`,
    })
    await expect(stat(target)).rejects.toMatchObject({ code: 'ENOENT' })
  })

  it('refuses a file that ends too early, wherever', async () => {
    const { size } = await stat(good)
    for (const length of [0, 100, 512, 5000, Math.floor(size / 2), size - 1024 - 512]) {
      expect(await refusal((file) => truncate(file, length)), `${length} bytes`).toMatch(
        /^archive_(truncated|invalid)$/,
      )
    }
  })

  it('that was refused leaves a folder that was there, as it was', async () => {
    const target = join(folder, 'there')
    await mkdir(target)
    const file = join(folder, 'cut.tar')
    await writeFile(file, (await readFile(good)).subarray(0, 2000))
    await expect(restoreBackup(file, target)).rejects.toMatchObject({ code: 'archive_truncated' })
    expect(await readdir(target)).toEqual([])
    expect(await restoreBackup(good, target)).toMatchObject({ dataDir: target })
  })

  it('refuses changed bytes in the database, the key and a blob', async () => {
    const bytes = await readFile(good)
    for (const text of ['SQLite format 3', service.apiKey, '"lora_alpha"']) {
      const at = bytes.indexOf(text)
      if (at < 0) continue
      const flip = async (file: string) => {
        const changed = Buffer.from(bytes)
        changed[at + 3] = (changed[at + 3] ?? 0) ^ 1
        await writeFile(file, changed)
      }
      expect(await refusal(flip), text).toBe('archive_corrupt')
    }
  })

  it('refuses what is no backup, or writes elsewhere', async () => {
    expect(await refusal((file) => writeFile(file, 'hello '.repeat(500)))).toBe('archive_invalid')
    const manifest = { format: 'trainyard-backup', version: 1, program: '1', schema: '', created_at: '', digests: {} }
    const pack = (entries: Record<string, string>) => async (file: string) => {
      async function* list(): AsyncGenerator<TarEntry> {
        for (const [name, text] of Object.entries(entries)) {
          yield {
            name,
            sizeBytes: Buffer.byteLength(text),
            body: (async function* () {
              yield Buffer.from(text)
            })(),
          }
        }
      }
      await writeFile(file, '')
      for await (const chunk of writeTar(list())) await appendFile(file, chunk)
    }
    for (const name of ['../evil', '/etc/passwd', 'blobs/sha256/../../x', 'lock.sqlite3']) {
      expect(await refusal(pack({ 'manifest.json': JSON.stringify(manifest), [name]: 'x' })), name).toBe(
        'archive_invalid',
      )
    }
    expect(await refusal(pack({ 'manifest.json': JSON.stringify({ ...manifest, version: 2 }) }))).toBe('archive_newer')
    expect(await refusal(pack({ 'manifest.json': '[1' }))).toBe('archive_invalid')
  })

  it('refuses a backup of a newer schema', async () => {
    const newer = join(folder, 'newer')
    await restoreBackup(good, newer)
    const sqlite = openSqlite(join(newer, 'trainyard.sqlite3'))
    sqlite.prepare("insert into kysely_migration (name, timestamp) values ('9999-future', '2030')").run()
    sqlite.close()
    await expect(createBackup(newer, join(folder, 'newer.tar'))).rejects.toMatchObject({ code: 'database_newer' })
  })

  it('that was killed keeps servers away, and is begun again', async () => {
    const target = join(folder, 'half')
    await mkdir(join(target, 'blobs/sha256/ab'), { recursive: true })
    await writeFile(join(target, RESTORE_MARKER), '')
    await writeFile(join(target, 'blobs/sha256/ab/half'), 'torn')
    await expect(createTestService({ dataDir: target })).rejects.toMatchObject({ code: 'data_dir_incomplete' })
    await restoreBackup(good, target)
    const restored = await createTestService({ dataDir: target, apiKey: service.apiKey })
    expect((await restored.json(`/v1/preview/models/${modelId}`)).status).toBe(200)
    await restored.close(500)
  })
})
