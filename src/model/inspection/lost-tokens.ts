/**
 * Tokens that a base model has no row of its own for: their rows in its head point the same way as those of other tokens. What a
 * softmax cannot tell apart it can neither read nor write, whatever it is shown, for an adapter leaves these rows as they are.
 *
 * Looks at signs alone: tokens of up to three printable ASCII characters without letters and digits. Words have others beside
 * them that say the same; a bracket has none.
 */
import type { DecoderConfig } from '#model/architectures/decoder-config.js'
import type { Tokenizer } from '#model/text/tokenizer.js'
import type { WeightSource } from '#model/weights/weight-source.js'

/** A token and what it says. */
export interface LostToken {
  readonly id: number
  readonly text: string
}

/** Rows at a cosine above this are one: 308 of the 4,096 rows of spark's first weights have another above 0.999. */
const SAME = 0.99
/** Of unit vectors, the squared distance at that cosine. */
const NEAR = 2 - 2 * SAME
/** A larger head is that of a model of half a billion parameters, and read for this alone it would fill the memory. */
const MOST_BYTES = 256 * 1024 ** 2
/** Pairs of rows that are compared at most, the shortest tokens first: whoever asks for the model's facts waits for them. */
const MOST_PAIRS = 10_000_000
/** Signs without letters and digits; a space alone is none. */
const SIGNS = /^(?=.*[!-~])[ -/:-@[-`{-~]{1,3}$/
/** Columns between two looks at whether rows are apart already. */
const PART = 8

/** @returns null where the head is too large to be looked at */
export async function findLostTokens(
  source: Pick<WeightSource, 'readFloat32'>,
  {
    isEmbeddingTied,
    vocabularySize,
    hiddenSize,
  }: Pick<DecoderConfig, 'isEmbeddingTied' | 'vocabularySize' | 'hiddenSize'>,
  { tokenizer }: { readonly tokenizer: Pick<Tokenizer, 'vocabularySize' | 'isSpecial' | 'tokenBytes'> },
): Promise<readonly LostToken[] | null> {
  if (4 * vocabularySize * hiddenSize > MOST_BYTES) return null
  const rows = await source.readFloat32(isEmbeddingTied ? 'model.embed_tokens.weight' : 'lm_head.weight')
  toUnitRows(rows, hiddenSize)
  const known = Math.min(vocabularySize, tokenizer.vocabularySize)
  const texts = Array.from({ length: known }, (_, id) =>
    tokenizer.isSpecial(id) ? null : Buffer.from(tokenizer.tokenBytes(id)).toString('utf8'),
  )
  const signs = texts
    .flatMap((text, id) => (text !== null && SIGNS.test(text) ? [{ id, text }] : []))
    .sort((a, b) => a.text.length - b.text.length || a.id - b.id)
    .slice(0, Math.floor(MOST_PAIRS / vocabularySize))
  return signs.filter(({ id, text }) =>
    isLost(rows, { id, hiddenSize, vocabularySize, isSame: (v) => texts[v] === text }),
  )
}

/** Divides each row by its length, in place. */
function toUnitRows(rows: Float32Array, size: number): void {
  for (let start = 0; start < rows.length; start += size) {
    let sum = 0
    for (let at = start; at < start + size; at++) sum += (rows[at] as number) ** 2
    const scale = sum === 0 ? 0 : 1 / Math.sqrt(sum)
    for (let at = start; at < start + size; at++) rows[at] = (rows[at] as number) * scale
  }
}

interface Looked {
  readonly id: number
  readonly hiddenSize: number
  readonly vocabularySize: number
  /** Whether another token says the same: then it does not matter which of them is written. */
  readonly isSame: (id: number) => boolean
}

/** Whether another token's row is the same; most are told apart by their first columns. */
function isLost(rows: Float32Array, { id, hiddenSize, vocabularySize, isSame }: Looked): boolean {
  const own = id * hiddenSize
  for (let other = 0; other < vocabularySize; other++) {
    if (other === id) continue
    const start = other * hiddenSize
    let distance = 0
    for (let at = 0; at < hiddenSize && distance <= NEAR; ) {
      for (const end = Math.min(hiddenSize, at + PART); at < end; at++) {
        const difference = (rows[own + at] as number) - (rows[start + at] as number)
        distance += difference * difference
      }
    }
    if (distance <= NEAR && !isSame(other)) return true
  }
  return false
}
