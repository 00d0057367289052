/**
 * Copies of blobs on this machine's disk, of blobs that are kept elsewhere: bounded, the least recently used go first. A copy
 * is checked against its digest before it is first used by a process, and again when its file has changed since.
 */
import { createHash } from 'node:crypto'
import { createReadStream } from 'node:fs'
import { mkdir, readdir, rm, stat } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import type { Clock } from '#base/util/clock.js'
import { moveFile, removeTree } from '#base/util/move-file.js'
import { guardDisk } from '#service/storage/blobs/spool.js'
import { type BlobRef, LOCAL_FILE_MS, nameOf } from '#service/storage/blobs.js'

export interface BlobCache {
  /** An unused path on the same disk; what is left there is removed at the next start. */
  temporaryPath(): string
  /**
   * The copy's path; stays for {@link LOCAL_FILE_MS}.
   *
   * @param fetch writes the bytes, checked, to a path; called when there is no good copy, once for all who ask meanwhile
   */
  get(sha256: string, fetch: (path: string) => Promise<BlobRef>): Promise<string>
  /** Takes over a file whose bytes are known to have that digest. */
  add(path: string, ref: BlobRef): Promise<void>
  forget(sha256: string): Promise<void>
}

interface Entry {
  readonly sizeBytes: number
  /** By the monotonic clock; null: before this process. */
  usedAtMs: number | null
  /** State of the file when its digest was right; null: not looked at. */
  checkedAs: string | null
}

/** @param options.maxBytes of all copies; what was asked for lately stays beyond it */
export async function openBlobCache(
  root: string,
  { maxBytes, clock }: { readonly maxBytes: number; readonly clock: Clock },
): Promise<BlobCache> {
  const incoming = join(root, 'incoming')
  await removeTree(incoming)
  await mkdir(incoming, { recursive: true, mode: 0o700 })
  /** Least recently used first. */
  const entries = await readEntries(root)
  const fetching = new Map<string, Promise<string>>()
  let totalBytes = [...entries.values()].reduce((sum, { sizeBytes }) => sum + sizeBytes, 0)
  let counter = 0
  await trim()

  function pathOf(sha256: string): string {
    const { folder, file } = nameOf(sha256)
    return join(root, folder, file)
  }

  function temporaryPath(): string {
    counter += 1
    return join(incoming, `${process.pid}-${counter}`)
  }

  async function get(sha256: string, fetch: (path: string) => Promise<BlobRef>): Promise<string> {
    const path = pathOf(sha256)
    const before = fetching.get(sha256)
    if (before !== undefined) return before
    const entry = entries.get(sha256)
    if (entry !== undefined && entry.checkedAs !== null && entry.checkedAs === (await stateOf(path))) {
      touch(sha256, entry)
      return path
    }
    const running = fetching.get(sha256) ?? fill(sha256, path, fetch)
    fetching.set(sha256, running)
    return running.finally(() => fetching.delete(sha256))
  }

  /** A copy that nobody has looked at yet, or the bytes anew. */
  async function fill(sha256: string, path: string, fetch: (path: string) => Promise<BlobRef>): Promise<string> {
    const entry = entries.get(sha256)
    if (entry !== undefined) {
      const state = await stateOf(path)
      if (state !== null && (await digestOf(path)) === sha256) {
        entry.checkedAs = state
        touch(sha256, entry)
        return path
      }
      await forget(sha256)
    }
    const temporary = temporaryPath()
    try {
      const ref = await fetch(temporary)
      await add(temporary, ref)
      return path
    } finally {
      await rm(temporary, { force: true })
    }
  }

  async function add(temporary: string, { sha256, sizeBytes }: BlobRef): Promise<void> {
    const path = pathOf(sha256)
    await guardDisk(async () => {
      await mkdir(dirname(path), { recursive: true, mode: 0o700 })
      await moveFile(temporary, path)
    })
    totalBytes -= entries.get(sha256)?.sizeBytes ?? 0
    totalBytes += sizeBytes
    touch(sha256, { sizeBytes, usedAtMs: null, checkedAs: await stateOf(path) })
    await trim()
  }

  function touch(sha256: string, entry: Entry): void {
    entry.usedAtMs = clock.monotonicMs()
    entries.delete(sha256)
    entries.set(sha256, entry)
  }

  async function forget(sha256: string): Promise<void> {
    totalBytes -= entries.get(sha256)?.sizeBytes ?? 0
    entries.delete(sha256)
    await rm(pathOf(sha256), { force: true })
  }

  async function trim(): Promise<void> {
    for (const [sha256, { usedAtMs }] of entries) {
      if (totalBytes <= maxBytes) return
      // the rest was used later still
      if (usedAtMs !== null && clock.monotonicMs() - usedAtMs < LOCAL_FILE_MS) return
      await forget(sha256)
    }
  }

  return { temporaryPath, get, add, forget }
}

/** What an earlier process left, least recently written first. */
async function readEntries(root: string): Promise<Map<string, Entry>> {
  const found: { readonly sha256: string; readonly sizeBytes: number; readonly atMs: number }[] = []
  for (const folder of await readdir(root)) {
    if (!/^[0-9a-f]{2}$/.test(folder)) continue
    for (const file of await readdir(join(root, folder))) {
      const facts = await stat(join(root, folder, file)).catch(() => null)
      if (facts === null || !/^[0-9a-f]{62}$/.test(file)) continue
      found.push({ sha256: folder + file, sizeBytes: facts.size, atMs: facts.mtimeMs })
    }
  }
  found.sort((a, b) => a.atMs - b.atMs)
  return new Map(found.map(({ sha256, sizeBytes }) => [sha256, { sizeBytes, usedAtMs: null, checkedAs: null }]))
}

/** Changes whenever somebody writes to the file or puts another in its place. */
async function stateOf(path: string): Promise<string | null> {
  const facts = await stat(path).catch(() => null)
  return facts === null ? null : `${facts.ino} ${facts.size} ${facts.mtimeMs} ${facts.ctimeMs}`
}

async function digestOf(path: string): Promise<string> {
  const hash = createHash('sha256')
  for await (const chunk of createReadStream(path, { highWaterMark: 1 << 20 }) as AsyncIterable<Buffer>)
    hash.update(chunk)
  return hash.digest('hex')
}
