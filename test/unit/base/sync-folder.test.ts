import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { syncFolder } from '#base/sync-folder.js'

const failure = (code: string) => Object.assign(new Error(`${code}: not here`), { code })

/** A folder that says what systems without folder syncs say, and counts who closed it. */
function folderThat(rejects: { readonly open?: string; readonly sync?: string }) {
  let closed = 0
  return {
    closed: () => closed,
    open: async () => {
      if (rejects.open !== undefined) throw failure(rejects.open)
      return {
        sync: async () => {
          if (rejects.sync !== undefined) throw failure(rejects.sync)
        },
        close: async () => {
          closed += 1
        },
      }
    },
  }
}

test.each([['EPERM'], ['EACCES'], ['EISDIR'], ['EINVAL']])(
  'a folder that cannot be opened or synced (%s) is left',
  async (code) => {
    const unsynced = folderThat({ sync: code })
    await syncFolder('folder', unsynced.open)
    expect(unsynced.closed()).toBe(1)
    await syncFolder('folder', folderThat({ open: code }).open)
  },
)

test.each([['EIO'], ['ENOSPC'], ['ENOENT']])(
  'a disk that fails (%s) is told of, and the folder is closed',
  async (code) => {
    const failing = folderThat({ sync: code })
    await expect(syncFolder('folder', failing.open)).rejects.toMatchObject({ code })
    expect(failing.closed()).toBe(1)
    await expect(syncFolder('folder', folderThat({ open: code }).open)).rejects.toMatchObject({ code })
  },
)

test('a real folder is synced, one that is gone is an error', async () => {
  const folder = await mkdtemp(join(tmpdir(), 'trainyard-sync-'))
  await syncFolder(folder)
  await rm(folder, { recursive: true })
  await expect(syncFolder(folder)).rejects.toMatchObject({ code: 'ENOENT' })
})
