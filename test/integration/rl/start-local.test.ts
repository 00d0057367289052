/** The service in the same program: what it leaves behind when it ends, and when it cannot be used after all. */
import { execFileSync } from 'node:child_process'
import { existsSync, mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { createLogger } from '#base/logging/logger.js'
import { startLocal } from '../../../src/rl.js'
import { heldFor, untilReleased } from '../../support/service/held-resources.js'

let dataDir: string
beforeEach(() => {
  dataDir = mkdtempSync(join(tmpdir(), 'trainyard-local-'))
})
afterEach(() => {
  execFileSync('rm', ['-rf', dataDir])
})

const options = { baseModels: ['trainyard/tiny-random' as const], logger: createLogger({ level: 'silent' }) }

describe.skipIf(process.platform !== 'linux')('startLocal (seen through /proc, so on Linux only)', () => {
  it('stops the service it has started when its key cannot be read', async () => {
    const before = heldFor(dataDir)
    const first = await startLocal({ ...options, dataDir })
    await first.close()
    rmSync(join(dataDir, 'api-key'))
    await expect(startLocal({ ...options, dataDir })).rejects.toThrow('api-key')
    await untilReleased(dataDir, before)
  })

  it('stops it and removes the folder it was given, once', async () => {
    const before = heldFor(tmpdir())
    const local = await startLocal(options)
    const [file = ''] = heldFor(tmpdir()).files.filter((path) => path.endsWith('trainyard.sqlite3'))
    expect(existsSync(file)).toBe(true)
    await Promise.all([local.close(), local.close()])
    expect(existsSync(file)).toBe(false)
    expect(heldFor(tmpdir()).files).toEqual(before.files)
  })
})
