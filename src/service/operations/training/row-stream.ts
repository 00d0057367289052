/**
 * The rows of a stored file as a stream, decompressed where they are compressed. Knows nothing of what a row is.
 */
import type { Readable } from 'node:stream'
import { createGunzip } from 'node:zlib'
import { InvalidRequestError } from '#base/errors/errors.js'
import { append } from '#base/util/lists.js'
import type { BlobStore } from '#service/storage/blobs.js'

/** Whether the bytes begin like a gzip file; reads no more than that of them. */
export async function isGzip(source: Readable): Promise<boolean> {
  const head: number[] = []
  for await (const chunk of source) {
    append(head, (chunk as Uint8Array).subarray(0, 2))
    if (head.length >= 2) break
  }
  return head[0] === 0x1f && head[1] === 0x8b
}

/** The content of a gzip file; ends with it, and closes it when it is left early. */
export async function* gunzip(source: Readable, name: string): AsyncGenerator<Uint8Array> {
  const content = source.pipe(createGunzip())
  source.on('error', (error) => content.destroy(error))
  try {
    for await (const chunk of content) yield chunk as Uint8Array
  } catch (cause) {
    const code = cause instanceof Error && 'code' in cause ? String(cause.code) : ''
    if (!code.startsWith('Z_')) throw cause
    throw new InvalidRequestError('invalid_gzip', `${name} begins like a gzip file but cannot be decompressed`, {
      cause,
      hint: 'compress the file again, or upload it uncompressed',
    })
  } finally {
    source.destroy()
    content.destroy()
  }
}

/** @param name what the file is called in errors */
export async function openRows(
  blobs: Pick<BlobStore, 'openRead'>,
  sha256: string,
  name: string,
): Promise<AsyncIterable<Uint8Array>> {
  const isCompressed = await isGzip(await blobs.openRead(sha256))
  const source = await blobs.openRead(sha256)
  return isCompressed ? gunzip(source, name) : source
}
