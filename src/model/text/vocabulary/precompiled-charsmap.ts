/**
 * SentencePiece's table of replacements (`precompiled_charsmap`): a double-array trie over UTF-8 with the offsets of replacements,
 * and the replacements behind it.
 *
 * Follows the Rust crates `spm_precompiled` and `tokenizers` (`normalizers/precompiled.rs`), odd as it is: a cluster of fewer than six
 * bytes that begins with a key is replaced as a whole, and of the keys that it begins with the shortest counts.
 */
import { TokenizerError } from '#base/errors/errors.js'

/** Longest cluster that is looked up as a whole, bytes. */
const SHORT_CLUSTER = 5

const utf8 = new TextEncoder()
const decoder = new TextDecoder()

/** @param base64 as it stands in the file @throws {TokenizerError} `invalid_tokenizer_file` */
export function createCharsMap(base64: string): (text: string) => string {
  const bytes = Buffer.from(base64, 'base64')
  const trieBytes = bytes.length < 4 ? -1 : bytes.readUInt32LE(0)
  if (trieBytes < 4 || trieBytes % 4 !== 0 || 4 + trieBytes > bytes.length) {
    throw new TokenizerError('invalid_tokenizer_file', 'tokenizer field "normalizer.precompiled_charsmap" is damaged')
  }
  const units = Uint32Array.from({ length: trieBytes / 4 }, (_, i) => bytes.readUInt32LE(4 + 4 * i))
  const texts = bytes.subarray(4 + trieBytes)
  const graphemes = new Intl.Segmenter('en', { granularity: 'grapheme' })

  function replacementOf(part: string): string | null {
    const start = findShortest(units, utf8.encode(part))
    if (start === null) return null
    const end = texts.indexOf(0, start)
    return decoder.decode(texts.subarray(start, end === -1 ? texts.length : end))
  }

  return (text) => {
    let made = ''
    for (const { segment } of graphemes.segment(text)) {
      const whole = Buffer.byteLength(segment) <= SHORT_CLUSTER ? replacementOf(segment) : null
      if (whole !== null) made += whole
      else for (const character of segment) made += replacementOf(character) ?? character
    }
    return made
  }
}

/** Value of the shortest key that the bytes begin with. Units as Darts-clone packs them: label, leaf, offset. */
function findShortest(units: Uint32Array, key: Uint8Array): number | null {
  const unitAt = (at: number): number => units[at] ?? 0
  const offsetOf = (unit: number): number => (unit >>> 10) << ((unit & (1 << 9)) >>> 6)
  let at = offsetOf(unitAt(0))
  for (const byte of key) {
    if (byte === 0) return null
    at ^= byte
    const unit = unitAt(at)
    if ((unit & 0x800000ff) >>> 0 !== byte) return null
    at ^= offsetOf(unit)
    if (((unit >>> 8) & 1) === 1) return unitAt(at) & 0x7fffffff
  }
  return null
}
