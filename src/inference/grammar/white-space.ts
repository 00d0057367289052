/**
 * Limits white space in JSON answers.
 *
 * A grammar of JSON allows any amount between two elements, and a small model that never saw JSON writes white space until its
 * budget ends: an answer that is no JSON after all. So between elements there is one space, or a line break or two with an
 * indentation; in strings, and in grammars that are not JSON alone, there is a limit that only an endless run meets. Only tokens
 * of nothing but white space are forbidden, and only where something else may come.
 */
import type { TokenTable } from './token-table.js'

/** Spaces of an indentation, and white space in a row in strings. */
const MOST_SPACES = 32

/** White space behind the last element: none, one space or what began otherwise than it may, one line break, two; then spaces of an indentation. */
const NONE = 0
const CLOSED = 1
const LINE = 2
const LINES = 3

/** The white space at the end of one answer. */
export interface WhiteSpaceLimit {
  accept(tokenId: number): void
  /** Takes tokens of more white space than there may be out of a mask, 32 tokens a word; never the last ones allowed. */
  apply(words: Uint32Array): void
}

/**
 * @param isJson the whole answer is JSON, so that it is known what is a string
 * @returns what begins the limit of an answer
 */
export function createWhiteSpaceLimits(table: TokenTable, isJson: boolean): () => WhiteSpaceLimit {
  const size = table.offsets.byteLength / 4 - 1
  const starts = new Uint32Array(table.offsets)
  const bytes = new Uint8Array(table.bytes)
  const bytesOf = (id: number): Uint8Array => bytes.subarray(starts[id], starts[id + 1])
  const blank = new Map<number, Uint8Array>()
  for (let id = 0; id < size; id++) {
    const text = bytesOf(id)
    if (text.length > 0 && text.every(isSpace)) blank.set(id, text)
  }
  // few words of a mask have such a token: the others need no look
  const tokens = (isRefused: (text: Uint8Array) => boolean): ReadonlyMap<number, number> => {
    const words = new Map<number, number>()
    for (const [token, text] of blank)
      if (isRefused(text)) words.set(token >>> 5, (words.get(token >>> 5) ?? 0) | (1 << (token & 31)))
    return words
  }
  const all = tokens(() => true)
  const misfits = new Map<number, ReadonlyMap<number, number>>()
  const misfitsAfter = (run: number): ReadonlyMap<number, number> => {
    const known =
      misfits.get(run) ?? tokens((text) => text.reduce((at, byte) => (at < 0 ? at : after(at, byte)), run) < 0)
    misfits.set(run, known)
    return known
  }

  return () => {
    let run = NONE
    let spaces = 0
    let isString = !isJson
    let isEscaped = false
    return {
      accept: (tokenId) => {
        for (const byte of bytesOf(tokenId)) {
          spaces = isSpace(byte) ? spaces + 1 : 0
          if (isString) {
            if (isJson && byte === QUOTE && !isEscaped) isString = false
            isEscaped = byte === BACKSLASH && !isEscaped
            run = NONE
          } else {
            isString = byte === QUOTE
            const next = isSpace(byte) ? after(run, byte) : NONE
            run = next < 0 ? CLOSED : next
          }
        }
      },
      apply: (words) => {
        if (isString && spaces < MOST_SPACES) return
        const taken = isString ? all : misfitsAfter(run)
        if (words.every((word, i) => (word & ~(taken.get(i) ?? 0)) === 0)) return
        for (const [i, bits] of taken) words[i] = (words[i] ?? 0) & ~bits
      },
    }
  }
}

const LINE_BREAK = 0x0a
const QUOTE = 0x22
const BACKSLASH = 0x5c

/** The four characters that are white space in JSON. */
function isSpace(byte: number): boolean {
  return byte === 0x20 || byte === LINE_BREAK || byte === 0x09 || byte === 0x0d
}

/** @returns the run with one more character, negative where it must not have it */
function after(run: number, byte: number): number {
  if (byte === LINE_BREAK) return run === NONE ? LINE : run === LINE ? LINES : -1
  if (run === NONE) return CLOSED
  if (run === CLOSED) return -1
  return run < LINES + MOST_SPACES ? Math.max(run, LINES) + 1 : -1
}
