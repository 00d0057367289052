/** Renaming where somebody may hold the file, with the answers that Windows gives. */
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { describe, expect, test } from 'vitest'
import { moveFile } from '#base/util/move-file.js'

const refusal = (code: string): Error => Object.assign(new Error(code), { code })

/** Refuses so many times. */
function heldFor(times: number, code: string) {
  const seen = { tries: 0, waitedMs: 0 }
  const renameFile = async (): Promise<void> => {
    if (seen.tries++ < times) throw refusal(code)
  }
  const wait = async (ms: number): Promise<void> => {
    seen.waitedMs += ms
  }
  return { seen, renameFile, wait }
}

describe('on Windows', () => {
  test.each(['EPERM', 'EACCES', 'EBUSY'])('a file that is held for a moment (%s) is tried again', async (code) => {
    const { seen, ...parts } = heldFor(3, code)
    await moveFile('a', 'b', { platform: 'win32', ...parts })
    expect(seen).toEqual({ tries: 4, waitedMs: 80 })
  })

  test('one that is held for good fails with what the system said, after two seconds', async () => {
    const { seen, ...parts } = heldFor(100, 'EPERM')
    await expect(moveFile('a', 'b', { platform: 'win32', ...parts })).rejects.toMatchObject({ code: 'EPERM' })
    expect(seen).toEqual({ tries: 9, waitedMs: 2000 })
  })

  test('anything else fails at once', async () => {
    const { seen, ...parts } = heldFor(1, 'ENOENT')
    await expect(moveFile('a', 'b', { platform: 'win32', ...parts })).rejects.toMatchObject({ code: 'ENOENT' })
    expect(seen.tries).toBe(1)
  })
})

test('elsewhere a refusal is an answer', async () => {
  const { seen, ...parts } = heldFor(1, 'EPERM')
  await expect(moveFile('a', 'b', { platform: 'linux', ...parts })).rejects.toMatchObject({ code: 'EPERM' })
  expect(seen.tries).toBe(1)
})

test('a real file is moved', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'trainyard-test-'))
  writeFileSync(join(folder, 'a'), 'text')
  await moveFile(join(folder, 'a'), join(folder, 'b'))
  expect(readFileSync(join(folder, 'b'), 'utf8')).toBe('text')
  rmSync(folder, { recursive: true })
})
