/**
 * What a file is by its first bytes, where it is none that its reader wants: what stands in a clone for a large file, a web page that
 * was saved in its place, an archive, a table, a pickle, another encoding.
 *
 * One look before every reader of rows and of a model's texts. Knows no reader: each says what it wants instead.
 */

/** A file of another kind. */
export interface ForeignFile {
  /** Behind the file's name: `is a Git LFS pointer: …`. */
  readonly problem: string
  /** What to do. */
  readonly hint: string
  /** What stands in place of any file, text in another encoding, or a format of its own. */
  readonly kind: 'pointer' | 'page' | 'encoding' | 'format'
}

/** Bytes that tell it. */
export const SNIFFED_BYTES = 512

const CONVERT = 'convert it: trainyard data convert rows.csv --out rows.jsonl'
const TO_LINES = "write it as JSON Lines, as with pandas: to_json('rows.jsonl', orient='records', lines=True)"
const UNPACK = 'unpack it, and give the file inside'

/** Source: the Git LFS specification, "The Pointer"; for the others the formats' own documents. */
const BEGINNINGS: readonly (readonly [begins: string, problem: string, hint: string])[] = [
  ['PK\x03\x04', 'is a zip archive (a spreadsheet and what torch.save writes are such, too)', UNPACK],
  ['PAR1', 'is a Parquet table', CONVERT.replace('.csv', '.parquet')],
  ['ARROW1', 'is an Arrow table', TO_LINES],
  ['FEA1', 'is a Feather table', TO_LINES],
  ['\xff\xff\xff\xff', 'is a stream of Arrow, as the datasets library stores it', TO_LINES],
  ['BZh', 'is compressed with bzip2', 'decompress it, or compress it with gzip'],
  ['\x28\xb5\x2f\xfd', 'is compressed with zstd', 'decompress it, or compress it with gzip'],
  ['\xfd7zXZ\x00', 'is compressed with xz', 'decompress it, or compress it with gzip'],
  ['7z\xbc\xaf\x27\x1c', 'is a 7z archive', UNPACK],
  ['Rar!\x1a\x07', 'is a RAR archive', UNPACK],
  ['SQLite format 3\x00', 'is an SQLite database', TO_LINES],
  ['%PDF-', 'is a PDF document', 'write its text as JSON Lines'],
  ['\x93NUMPY', 'is a NumPy array', 'write it as JSON Lines'],
  ['GGUF', 'is a GGUF model', 'models are added with trainyard base-models add'],
]

/** @param head the first `SNIFFED_BYTES` of a file @returns null for text that may be what it should be, and for gzip, which readers open */
export function findForeignBytes(head: Uint8Array): ForeignFile | null {
  const text = Buffer.from(head.subarray(0, SNIFFED_BYTES)).toString('latin1')
  if (text.startsWith('version https://git-lfs.github.com/spec/')) {
    const hint = 'run git lfs pull in its folder, or download the file itself'
    return { problem: 'is a Git LFS pointer: the file itself was not downloaded', hint, kind: 'pointer' }
  }
  const encoding = encodingOf(head)
  if (encoding !== null) {
    const problem = `is text in ${encoding}, expected UTF-8`
    return { problem, hint: `save it as UTF-8: iconv -f ${encoding} -t UTF-8`, kind: 'encoding' }
  }
  const other = (problem: string, hint: string): ForeignFile => ({ problem, hint, kind: 'format' })
  const found = BEGINNINGS.find(([begins]) => text.startsWith(begins))
  if (found !== undefined) return other(found[1], found[2])
  // protocols 2 to 5
  if (head[0] === 0x80 && (head[1] ?? 0) >= 2 && (head[1] ?? 9) <= 5) {
    return other('is a Python pickle, which can run code when it is loaded', 'write it as JSON, or as safetensors')
  }
  if (text.slice(257, 262) === 'ustar') return other('is a tar archive', UNPACK)
  if (/^(?:\xef\xbb\xbf)?\s*<(?:!doctype html|html|head|body)\b/i.test(text)) {
    const hint =
      'the address may name a page about the file (on the hub: /resolve/ instead of /blob/), or ask for a key'
    return { problem: 'is a web page (HTML)', hint, kind: 'page' }
  }
  if (/^(?:\xef\xbb\xbf)?\s*<\?xml\b/i.test(text)) return other('is XML', 'write it as JSON')
  return null
}

/** Of text with a byte order mark, or whose first characters are of ASCII. */
function encodingOf([a = 1, b = 1, c = 1, d = 1]: Uint8Array): string | null {
  const isMark = (a === 0xff && b === 0xfe) || (a === 0xfe && b === 0xff)
  if ((isMark && c === 0 && d === 0) || (a === 0 && b === 0 && c === 0xfe && d === 0xff)) return 'UTF-32'
  if (isMark) return 'UTF-16'
  const zeros = [a, b, c, d].map((byte) => (byte === 0 ? '0' : byte < 0x80 ? 'a' : 'x')).join('')
  return ENCODINGS.get(zeros) ?? null
}

/** By where the zeros stand among the first bytes of ASCII. */
const ENCODINGS: ReadonlyMap<string, string> = new Map([
  ['a0a0', 'UTF-16LE'],
  ['0a0a', 'UTF-16BE'],
  ['a000', 'UTF-32LE'],
  ['000a', 'UTF-32BE'],
])

/**
 * A table of text, by its first line: short names between commas, semicolons or tabs.
 *
 * @param line of a file whose every line should be an object
 */
export function findTable(line: string): ForeignFile | null {
  const separator = [',', '\t', ';'].find((each) => line.includes(each))
  if (separator === undefined) return null
  const names = line.trim().split(separator)
  if (!names.every((name) => /^"?[\p{L}_][\p{L}\p{N}_ .-]{0,60}"?$/u.test(name.trim()))) return null
  const problem = `is a table (CSV) with the columns ${names.slice(0, 6).join(', ')}${names.length > 6 ? ', …' : ''}`
  return { problem, hint: CONVERT, kind: 'format' }
}

const GZIP: ForeignFile = { problem: 'is compressed with gzip inside', hint: UNPACK, kind: 'format' }

/**
 * The bytes as they came, once they were looked at.
 *
 * @param refuse throws
 * @param isPlain whether gzip would have been opened before
 */
export async function* sniffed(
  source: AsyncIterable<Uint8Array>,
  refuse: (foreign: ForeignFile) => never,
  { isPlain = false }: { readonly isPlain?: boolean } = {},
): AsyncGenerator<Uint8Array> {
  let head: Uint8Array | null = new Uint8Array(0)
  const look = (bytes: Uint8Array): void => {
    const isGzip = isPlain && bytes[0] === 0x1f && bytes[1] === 0x8b
    const foreign = isGzip ? GZIP : findForeignBytes(bytes)
    if (foreign !== null) refuse(foreign)
  }
  for await (const chunk of source) {
    if (head === null) {
      yield chunk
      continue
    }
    head = head.length === 0 ? chunk : Buffer.concat([head, chunk])
    if (head.length < SNIFFED_BYTES) continue
    look(head)
    yield head
    head = null
  }
  if (head === null || head.length === 0) return
  look(head)
  yield head
}
