/**
 * The bytes of every token in one piece of shared memory, so that a thread can read a vocabulary without a copy.
 */
import { setImmediate } from 'node:timers/promises'
import type { Tokenizer } from '#model/text/tokenizer.js'

/** Token `id` stands for `bytes[offsets[id] .. offsets[id + 1])`; none for tokens that no text can hold. */
export interface TokenTable {
  /** V + 1 unsigned 32-bit numbers. */
  readonly offsets: SharedArrayBuffer
  readonly bytes: SharedArrayBuffer
  /** Tokens that end an answer. */
  readonly stopTokenIds: readonly number[]
  /** Control tokens that end none, with what a text shows of them. */
  readonly controls: ReadonlyMap<number, string>
}

/** Between two parts of this many tokens, some milliseconds each, steps of running choices go on. */
const PART = 8192
const noBytes = new Uint8Array(0)

/**
 * Reads a vocabulary once.
 *
 * Control tokens get no bytes: no grammar can ask for them, except to stop, and but for the marks of a tag (`markedControls`).
 *
 * @param vocabularySize V of the model's logits; may be larger than the tokenizer's
 */
export async function createTokenTable(
  tokenizer: Tokenizer,
  vocabularySize: number,
  stopTokenIds: readonly number[],
): Promise<TokenTable> {
  const offsets = new SharedArrayBuffer(4 * (vocabularySize + 1))
  const starts = new Uint32Array(offsets)
  const controls = new Map<number, string>()
  const pieceOf = (id: number): Uint8Array => {
    if (id >= tokenizer.vocabularySize) return noBytes
    if (!tokenizer.isSpecial(id)) return tokenizer.tokenBytes(id)
    if (!stopTokenIds.includes(id)) controls.set(id, tokenizer.decode([id]))
    return noBytes
  }
  const parts: Uint8Array[] = []
  let end = 0
  for (let from = 0; from < vocabularySize; from += PART) {
    const length = Math.min(PART, vocabularySize - from)
    const pieces = Array.from({ length }, (_, i) => pieceOf(from + i))
    for (const [i, piece] of pieces.entries()) {
      end += piece.length
      starts[from + i + 1] = end
    }
    parts.push(Buffer.concat(pieces))
    await setImmediate()
  }
  const bytes = new SharedArrayBuffer(end)
  const all = new Uint8Array(bytes)
  let at = 0
  for (const part of parts) {
    all.set(part, at)
    at += part.length
  }
  return { offsets, bytes, stopTokenIds, controls }
}

/** The bytes of every token, in order of ids. */
export function* tokenBytes(table: TokenTable): Generator<Uint8Array> {
  const starts = new Uint32Array(table.offsets)
  const all = new Uint8Array(table.bytes)
  for (let id = 0; id + 1 < starts.length; id++) yield all.subarray(starts[id], starts[id + 1])
}
