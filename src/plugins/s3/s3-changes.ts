/**
 * Blobs written into a bucket and deleted from it: changes of one blob come one after the other, in this process and, by the
 * guard, among servers.
 */
import { type FileHandle, rm } from 'node:fs/promises'
import type { Clock } from '#base/util/clock.js'
import type { BlobGuard } from '#service/storage/blobs/remote-blobs.js'
import type { BlobRef } from '#service/storage/blobs.js'
import { type Bucket, inWords, keyOf } from './s3-bucket.js'
import type { ObjectFacts } from './s3-objects.js'

/** Larger ones are looked for first: an upload that the store refuses at its end is a waste. */
const LOOK_FIRST_BYTES = 1 << 20
/** An object of this age may be about to be swept by somebody: it is written again, which makes it young. Below every grace. */
const YOUNG_MS = 60_000

interface BlobChanges {
  /** Sends a spooled file, which becomes the copy of this machine or is removed. */
  publish(file: FileHandle, path: string, ref: BlobRef): Promise<void>
  /** Sends a file, which stays where it is. */
  sendFile(path: string, ref: BlobRef): Promise<void>
  removeOlderThan(sha256: string, graceMs: number): Promise<boolean>
}

export function createBlobChanges(
  { address, objects, cache }: Bucket,
  { clock, guard }: { readonly clock: Clock; readonly guard: BlobGuard },
): BlobChanges {
  /** When this process last wrote a blob, by the monotonic clock. */
  const writtenAtMs = new Map<string, number>()
  const inTurn = createBlobTurns()

  async function publish(file: FileHandle, path: string, ref: BlobRef): Promise<void> {
    try {
      await file.close()
      await inTurn(ref.sha256, async () => {
        writtenAtMs.set(ref.sha256, clock.monotonicMs())
        await inWords(address, () => send(path, ref))
      })
      await cache.add(path, ref)
    } finally {
      await rm(path, { force: true })
    }
  }

  async function send(path: string, { sha256, sizeBytes }: BlobRef): Promise<void> {
    const key = keyOf(address, sha256)
    const file = { path, sizeBytes, sha256 }
    if (sizeBytes > LOOK_FIRST_BYTES && isKept(await objects.head(key), sizeBytes)) return
    if (await objects.putFile(key, file, { isNew: true })) return
    if (isKept(await objects.head(key), sizeBytes)) return
    await guard(sha256, () => objects.putFile(key, file))
  }

  function removeOlderThan(sha256: string, graceMs: number): Promise<boolean> {
    return inTurn(sha256, async () => {
      const writtenMs = writtenAtMs.get(sha256)
      if (writtenMs !== undefined && clock.monotonicMs() - writtenMs < graceMs) return false
      const key = keyOf(address, sha256)
      const isGone = await guard(sha256, async () => {
        const facts = await inWords(address, () => objects.head(key))
        if (facts === null) return true
        if (facts.storeNowMs - facts.modifiedAtMs < graceMs) return false
        await inWords(address, () => objects.delete(key))
        return true
      })
      if (!isGone) return false
      writtenAtMs.delete(sha256)
      await cache.forget(sha256)
      return true
    })
  }

  const sendFile = (path: string, ref: BlobRef) => inTurn(ref.sha256, () => inWords(address, () => send(path, ref)))

  return { publish, sendFile, removeOlderThan }
}

/** Writes and deletions of one blob come one after the other. */
function createBlobTurns(): BlobGuard {
  const turns = new Map<string, Promise<unknown>>()
  return (sha256, action) => {
    const before = turns.get(sha256) ?? Promise.resolve()
    const mine = before.then(action, action)
    turns.set(sha256, mine)
    const forget = (): void => {
      if (turns.get(sha256) === mine) turns.delete(sha256)
    }
    mine.then(forget, forget)
    return mine
  }
}

function isKept(facts: ObjectFacts | null, sizeBytes: number): boolean {
  return facts !== null && facts.sizeBytes === sizeBytes && facts.storeNowMs - facts.modifiedAtMs < YOUNG_MS
}
