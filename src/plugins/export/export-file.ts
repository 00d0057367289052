/**
 * A file that is made while it is sent: its size is known before its first byte, and it never lies whole in memory.
 */

/** One file of an export. */
export interface ExportFile {
  readonly name: string
  readonly sizeBytes: number
  /** The bytes, in pieces; a fresh iteration each time. */
  readonly bytes: () => AsyncIterable<Uint8Array>
}

/** A file whose content is small enough to be made at once. */
export function wholeFile(name: string, content: string | Uint8Array): ExportFile {
  const bytes = typeof content === 'string' ? new TextEncoder().encode(content) : content
  return {
    name,
    sizeBytes: bytes.length,
    bytes: async function* one() {
      yield bytes
    },
  }
}

/** JSON as the libraries of the field write it. */
export function jsonFile(name: string, value: unknown): ExportFile {
  return wholeFile(name, `${JSON.stringify(value, null, 2)}\n`)
}
