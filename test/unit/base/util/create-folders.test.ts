/**
 * Folders where a file system makes them, and an error where it does not: procfs has Node's own recursive `mkdir` turn for ever.
 */
import { existsSync, mkdtempSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, expect, it } from 'vitest'
import { createFolders } from '#base/util/create-folders.js'

const root = mkdtempSync(join(tmpdir(), 'trainyard-folders-'))
afterAll(() => rmSync(root, { recursive: true, force: true, maxRetries: 20 }))

it('makes what is missing with its mode, also twice at once, and leaves what is there', async () => {
  const path = join(root, 'a/b/c')
  await Promise.all([createFolders(path, 0o700), createFolders(path, 0o700)])
  await createFolders(path, 0o755)
  if (process.platform !== 'win32') expect(statSync(path).mode & 0o777).toBe(0o700)
  expect(statSync(path).isDirectory()).toBe(true)
})

it('fails below a file', async () => {
  writeFileSync(join(root, 'file'), '')
  for (const path of ['file', 'file/below/deep']) {
    await expect(createFolders(join(root, path))).rejects.toMatchObject({ code: 'EEXIST' })
  }
})

it.skipIf(!existsSync('/proc/self'))('fails where no names can be added', async () => {
  await expect(createFolders('/proc/trainyard/below')).rejects.toMatchObject({ code: 'ENOENT' })
})
