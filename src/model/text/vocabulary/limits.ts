/**
 * How large a tokenizer may be. What is read from a model's files is held in memory several times over, and a table of two million
 * entries kept an engine busy for most of a minute.
 */
import { TokenizerError } from '#base/errors/errors.js'

/** Four times the largest vocabulary that decoders are published with. */
export const MAX_TOKENS = 1_000_000
/** Byte-pair merges: the largest known vocabularies have two to three for a token. */
export const MAX_MERGES = 3_000_000
/** Of `tokenizer.json`: the largest known has 35 MB. */
export const MAX_TOKENIZER_BYTES = 128 * 2 ** 20

/**
 * Values of `tokenizer.json`, by its commas and opened lists and objects: the most tokens and merges that are taken have ten million.
 * Of 44 million empty objects `JSON.parse` makes 2.5 GB, and V8 ends the whole process, here the server, where a thread's parser passes its limit.
 */
const MAX_VALUES = 16_000_000

/** @throws {TokenizerError} `tokenizer_too_large`, before the text is parsed */
export function assertParsable(text: string, path: string): void {
  if (text.length <= MAX_VALUES) return
  let count = 0
  for (let i = 0; i < text.length; i += 1) {
    const code = text.charCodeAt(i)
    if (code === 0x2c || code === 0x5b || code === 0x7b) count += 1
  }
  assertAtMost(count, MAX_VALUES, `values in "${path}"`)
}

/** @throws {TokenizerError} `tokenizer_too_large` */
export function assertAtMost(count: number, most: number, what: string): void {
  if (count <= most) return
  throw new TokenizerError('tokenizer_too_large', `the tokenizer has ${count} ${what}, expected at most ${most}`)
}
