/**
 * The bytes of every token in one piece of shared memory, so that a thread can read a vocabulary without a copy.
 */
import type { Tokenizer } from '#model/text/tokenizer.js'

/** Token `id` stands for `bytes[offsets[id] .. offsets[id + 1])`; none for tokens that no text can hold. */
export interface TokenTable {
  /** V + 1 unsigned 32-bit numbers. */
  readonly offsets: SharedArrayBuffer
  readonly bytes: SharedArrayBuffer
  /** Tokens that end an answer. */
  readonly stopTokenIds: readonly number[]
}

/**
 * Reads a vocabulary once.
 *
 * Control tokens get no bytes: no grammar can ask for them, except to stop.
 *
 * @param vocabularySize V of the model's logits; may be larger than the tokenizer's
 */
export function createTokenTable(
  tokenizer: Tokenizer,
  vocabularySize: number,
  stopTokenIds: readonly number[],
): TokenTable {
  const pieces = Array.from({ length: vocabularySize }, (_, id) =>
    id >= tokenizer.vocabularySize || tokenizer.isSpecial(id) ? new Uint8Array(0) : tokenizer.tokenBytes(id),
  )
  const offsets = new SharedArrayBuffer(4 * (vocabularySize + 1))
  const bytes = new SharedArrayBuffer(pieces.reduce((sum, piece) => sum + piece.length, 0))
  const starts = new Uint32Array(offsets)
  const all = new Uint8Array(bytes)
  let end = 0
  for (const [id, piece] of pieces.entries()) {
    all.set(piece, end)
    end += piece.length
    starts[id + 1] = end
  }
  return { offsets, bytes, stopTokenIds }
}

/** The bytes of every token, in order of ids. */
export function* tokenBytes(table: TokenTable): Generator<Uint8Array> {
  const starts = new Uint32Array(table.offsets)
  const all = new Uint8Array(table.bytes)
  for (let id = 0; id + 1 < starts.length; id++) yield all.subarray(starts[id], starts[id + 1])
}
