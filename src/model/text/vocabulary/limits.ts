/**
 * How large a tokenizer may be: what is read from a model's files is held in memory several times over, and a table of two million
 * entries kept an engine busy for most of a minute.
 */
import { TokenizerError } from '#base/errors.js'

/** Four times the largest vocabulary that decoders are published with. */
export const MAX_TOKENS = 1_000_000
/** Byte-pair merges: the largest known vocabularies have two to three for a token. */
export const MAX_MERGES = 3_000_000
/** Of `tokenizer.json`: the largest known has 35 MB. */
export const MAX_TOKENIZER_BYTES = 128 * 2 ** 20

/** @throws {TokenizerError} `tokenizer_too_large` */
export function assertAtMost(count: number, most: number, what: string): void {
  if (count <= most) return
  throw new TokenizerError('tokenizer_too_large', `the tokenizer has ${count} ${what}, expected at most ${most}`)
}
