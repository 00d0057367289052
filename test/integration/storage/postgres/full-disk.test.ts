/** A disk of PostgreSQL that is really full: a small file system of its own, where this user may mount one. */
import { execFileSync } from 'node:child_process'
import { chmodSync, mkdtempSync, rmSync } from 'node:fs'
import { rm, statfs, truncate, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, onTestFinished, test } from 'vitest'
import { hasPostgres, startPostgres } from '../../../support/local-postgres.js'
import { createTestService } from '../../../support/service/create-test-service.js'
import { until } from '../../../support/until.js'

const folder = mkdtempSync(join(tmpdir(), 'trainyard-pg-disk-'))

function mount(): boolean {
  try {
    execFileSync('mount', ['-t', 'tmpfs', '-o', 'size=200m,mode=755', 'tmpfs', folder], { stdio: 'ignore' })
    return true
  } catch {
    return false
  }
}
const unmount = () => execFileSync('umount', ['-l', folder])
const canMount = process.platform === 'linux' && process.getuid?.() === 0 && hasPostgres() && mount()
if (canMount) unmount()
else rmSync(folder, { recursive: true })

test.skipIf(!canMount)(
  'a disk of PostgreSQL that is full: writes are refused by name, reads go on, and both work when there is room',
  async () => {
    mount()
    onTestFinished(() => {
      unmount()
      rmSync(folder, { recursive: true, force: true })
    })
    chmodSync(folder, 0o755)
    const { TMPDIR: before } = process.env
    process.env['TMPDIR'] = folder
    const postgres = await startPostgres().finally(() => {
      if (before === undefined) delete process.env['TMPDIR']
      else process.env['TMPDIR'] = before
    })
    onTestFinished(() => postgres.stop())
    const service = await createTestService({ database: await postgres.createDatabase() })
    onTestFinished(() => service.dispose())
    const create = (name: string) =>
      service.fetch('/v1/preview/models', {
        json: { project: 'p'.repeat(200), name, base_model: 'trainyard/tiny-random' },
      })
    const kept = (await (await create('kept')).json()) as { id: string }
    const filler = join(folder, 'filler')
    const { bavail, bsize } = await statfs(folder)
    await writeFile(filler, '')
    execFileSync('fallocate', ['-l', String(bavail * bsize), filler])
    let count = 0
    const refused = await until(async () => {
      count += 1
      const answer = await create(`m${count}-${'x'.repeat(200)}`)
      return answer.status === 200 ? null : answer
    }, 'a write without room')
    expect([refused.status, await refused.text()]).toEqual([503, expect.stringContaining('disk_full')])
    expect((await service.fetch(`/v1/preview/models/${kept.id}`)).status).toBe(200)
    await truncate(filler)
    await rm(filler)
    const made = await until(async () => {
      const answer = await create('after')
      return answer.status === 200 && answer
    }, 'writes to go on')
    const { id } = (await made.json()) as { id: string }
    expect((await service.fetch(`/v1/preview/models/${id}`)).status).toBe(200)
  },
)
