/**
 * Tar archives as streams: entries of known size, written and read one after the other in the memory of a chunk.
 *
 * POSIX.1-1988 `ustar` headers, and GNU's base-256 numbers for entries of 8 GiB and more. Plain files only, which is all a
 * backup has; any other kind of entry is refused.
 */
import { StorageError } from '#base/errors/errors.js'

const BLOCK = 512

export interface TarEntry {
  readonly name: string
  readonly sizeBytes: number
  /** Its bytes; what is not read is skipped before the next entry. */
  readonly body: AsyncIterable<Uint8Array>
}

/**
 * The bytes of an archive.
 *
 * @throws {StorageError} `archive_entry_changed` if a body is not as long as it was said to be
 */
export async function* writeTar(entries: AsyncIterable<TarEntry>): AsyncGenerator<Uint8Array> {
  for await (const { name, sizeBytes, body } of entries) {
    yield headerOf(name, sizeBytes)
    let written = 0
    for await (const chunk of body) {
      written += chunk.length
      if (written > sizeBytes) break
      yield chunk
    }
    if (written !== sizeBytes) {
      throw new StorageError('archive_entry_changed', `"${name}" changed its size while it was read`)
    }
    const rest = sizeBytes % BLOCK
    if (rest > 0) yield new Uint8Array(BLOCK - rest)
  }
  yield new Uint8Array(2 * BLOCK)
}

/**
 * The entries of an archive, in order.
 *
 * @throws {StorageError} `archive_invalid` for anything that is no such archive, `archive_truncated` where it ends too early
 */
export async function* readTar(source: AsyncIterable<Uint8Array>): AsyncGenerator<TarEntry> {
  const reader = createReader(source)
  try {
    for (;;) {
      const header = await reader.exactly(BLOCK)
      if (header.every((byte) => byte === 0)) return
      const { name, sizeBytes } = parseHeader(header)
      let left = sizeBytes
      async function* body(): AsyncGenerator<Uint8Array> {
        while (left > 0) {
          const chunk = await reader.some(left)
          left -= chunk.length
          yield chunk
        }
      }
      yield { name, sizeBytes, body: body() }
      while (left > 0) left -= (await reader.some(left)).length
      const rest = sizeBytes % BLOCK
      if (rest > 0) await reader.exactly(BLOCK - rest)
    }
  } finally {
    await reader.close()
  }
}

function createReader(source: AsyncIterable<Uint8Array>) {
  const chunks = source[Symbol.asyncIterator]()
  let pending: Uint8Array = new Uint8Array(0)

  /** At least one byte, at most `most`. */
  async function some(most: number): Promise<Uint8Array> {
    while (pending.length === 0) {
      const next = await chunks.next()
      if (next.done === true) {
        throw new StorageError('archive_truncated', 'the archive ends before its last entry', {
          hint: 'copy the backup file again; nothing was restored',
        })
      }
      pending = next.value
    }
    const taken = pending.subarray(0, most)
    pending = pending.subarray(taken.length)
    return taken
  }

  return {
    some,
    exactly: async (length: number): Promise<Uint8Array> => {
      const bytes = new Uint8Array(length)
      for (let at = 0; at < length; ) {
        const taken = await some(length - at)
        bytes.set(taken, at)
        at += taken.length
      }
      return bytes
    },
    close: async () => void (await chunks.return?.()),
  }
}

function headerOf(name: string, sizeBytes: number): Uint8Array {
  const header = Buffer.alloc(BLOCK)
  if (Buffer.byteLength(name) > 100) throw new StorageError('archive_invalid', `"${name}" is too long for an entry`)
  header.write(name, 0, 'utf8')
  header.write('0000600\0', 100)
  header.write('0000000\0', 108)
  header.write('0000000\0', 116)
  if (sizeBytes < 8 ** 11) header.write(`${sizeBytes.toString(8).padStart(11, '0')}\0`, 124)
  else {
    header[124] = 0x80
    header.writeBigUInt64BE(BigInt(sizeBytes), 128)
  }
  header.write('00000000000\0', 136)
  header.fill(' ', 148, 156)
  header.write('0', 156)
  header.write('ustar\0', 257)
  header.write('00', 263)
  header.write(`${checksumOf(header).toString(8).padStart(6, '0')}\0 `, 148)
  return header
}

function parseHeader(bytes: Uint8Array): { readonly name: string; readonly sizeBytes: number } {
  const header = Buffer.from(bytes)
  const stored = Number.parseInt(textOf(header, 148, 156), 8)
  header.fill(' ', 148, 156)
  const kind = textOf(header, 156, 157)
  const isPlain =
    textOf(header, 257, 262) === 'ustar' && (kind === '0' || kind === '') && textOf(header, 345, 500) === ''
  if (stored !== checksumOf(header) || !isPlain) throw invalid()
  const isLong = ((header[124] ?? 0) & 0x80) !== 0
  const sizeBytes = isLong ? Number(header.readBigUInt64BE(128)) : Number.parseInt(textOf(header, 124, 136), 8)
  if (!Number.isSafeInteger(sizeBytes) || sizeBytes < 0) throw invalid()
  return { name: textOf(header, 0, 100), sizeBytes }
}

function checksumOf(header: Uint8Array): number {
  return header.reduce((sum, byte) => sum + byte, 0)
}

function textOf(header: Buffer, start: number, end: number): string {
  return header.toString('utf8', start, end).replace(/\0.*$/s, '').trim()
}

function invalid(): StorageError {
  return new StorageError('archive_invalid', 'the file is not an archive made by `trainyard backup`')
}
