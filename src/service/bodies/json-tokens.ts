/**
 * Tokens of JSON read the fast way: texts that occur again and again, and numbers of few digits, without a string in between.
 */

/** Longest text that is cached, bytes, and number of slots (a power of two). */
const TEXT_CACHE_LENGTH = 24
const TEXT_CACHE_SIZE = 1024

/** Short texts seen lately, by hash: the keys of a million equal objects are decoded once. */
export class AsciiTexts {
  readonly #texts: string[] = new Array(TEXT_CACHE_SIZE).fill('')

  /** @param chunk holds ASCII between the two indexes */
  read(chunk: Buffer, start: number, end: number): string {
    const length = end - start
    if (length > TEXT_CACHE_LENGTH) return chunk.toString('latin1', start, end)
    let hash = length
    for (let i = start; i < end; i += 1) hash = (Math.imul(hash, 31) + (chunk[i] ?? 0)) | 0
    const slot = hash & (TEXT_CACHE_SIZE - 1)
    const known = this.#texts[slot] ?? ''
    if (known.length === length) {
      let i = 0
      while (i < length && known.charCodeAt(i) === chunk[start + i]) i += 1
      if (i === length) return known
    }
    const text = chunk.toString('latin1', start, end)
    this.#texts[slot] = text
    return text
  }
}

/** Whether a number or a literal ends before this byte. */
export function isDelimiter(byte: number): boolean {
  return (
    byte === 0x2c ||
    byte === 0x5d ||
    byte === 0x7d ||
    byte === 0x20 ||
    byte === 0x0a ||
    byte === 0x0d ||
    byte === 0x09 ||
    byte === 0x22 ||
    byte === 0x3a ||
    byte === 0x7b ||
    byte === 0x5b
  )
}

/** A whole number text: RFC 8259, section 6. */
export const NUMBER = /^-?(0|[1-9]\d*)(\.\d+)?([eE][+-]?\d+)?$/

/** A sign, a point and the digits that a double holds exactly. */
export const SHORT_NUMBER = 17
const POWERS_OF_TEN = Array.from({ length: 16 }, (_, i) => 10 ** i)

/**
 * An integer or decimal of at most 15 digits and without exponent, or null: the fast path for token ids and log-probabilities.
 * Exact: digits and power of ten are doubles without error, and one division rounds as reading the text would.
 */
export function readShortNumber(chunk: Uint8Array, start: number, end: number): number | null {
  const isNegative = chunk[start] === 0x2d
  const first = isNegative ? start + 1 : start
  let value = 0
  let i = first
  for (; i < end; i += 1) {
    const digit = (chunk[i] ?? 0) - 0x30
    if (digit < 0 || digit > 9) break
    value = value * 10 + digit
  }
  const whole = i - first
  if (whole === 0 || (whole > 1 && chunk[first] === 0x30)) return null
  let fraction = 0
  if (i < end) {
    if (chunk[i] !== 0x2e || i + 1 === end) return null
    for (i += 1; i < end; i += 1) {
      const digit = (chunk[i] ?? 0) - 0x30
      if (digit < 0 || digit > 9) return null
      value = value * 10 + digit
      fraction += 1
    }
  }
  if (whole + fraction > 15) return null
  const number = fraction === 0 ? value : value / (POWERS_OF_TEN[fraction] ?? 1)
  return isNegative ? -number : number
}
