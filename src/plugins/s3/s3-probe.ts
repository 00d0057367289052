/**
 * Does a store do what blobs need of it? An object is written, not written again, read from its middle, and deleted.
 */
import type { S3Address } from './s3-address.js'
import type { S3Objects } from './s3-objects.js'
import { S3Failure } from './s3-request.js'

const TEXT = 'what the system check writes\n'

/** @returns what was found, a sentence @throws {S3Failure} */
export async function probeStore(objects: S3Objects, address: S3Address, random: () => number): Promise<string> {
  const key = `${address.prefix}probe-${random().toString(36).slice(2, 12)}`
  const bytes = Buffer.from(TEXT)
  await objects.putBytes(key, bytes, { isNew: true })
  try {
    // names are digests, so a store that writes twice does no harm
    const isTwice = await objects.putBytes(key, bytes, { isNew: true })
    const [start, end] = [5, 11]
    const parts: Uint8Array[] = []
    for await (const chunk of objects.read(key, { start, end })) parts.push(chunk)
    if (Buffer.concat(parts).toString() !== TEXT.slice(start, end + 1)) {
      throw new S3Failure(501, 'wrong range', 'a part of an object did not read back as written')
    }
    return `an object was written to ${address.name}, read back and deleted${isTwice ? '; the store ignores If-None-Match' : ''}`
  } finally {
    await objects.delete(key)
  }
}
