/**
 * Sampling parameters that speak of texts → rules that speak of token ids.
 */
import { InvalidRequestError } from '#base/errors/errors.js'
import type { Tokenizer } from '#model/text/tokenizer.js'
import type { GenerationRules } from '../engine/generation.js'
import type { SamplingParameters } from './protocol.js'

/** Texts whose tokens are remembered per vocabulary: finding them reads all of it. */
const MAX_KNOWN_TEXTS = 256
const known = new WeakMap<Tokenizer, Map<string, readonly number[]>>()

/** @throws {InvalidRequestError} `invalid_value` if a text has no token */
export function toRules(sampling: SamplingParameters, tokenizer: Tokenizer): GenerationRules {
  const { badWords = [], textBias = [], dry = null } = sampling
  return {
    ...sampling,
    badWords: badWords.flatMap((word) => badWordIds(word, tokenizer)),
    logitBias: withTextBias(sampling.logitBias, textBias, tokenizer),
    dry: dry === null ? null : { ...dry, breakerIds: breakerIds(dry.breakers, tokenizer) },
  }
}

/**
 * A word as it stands at the beginning of a text and, where that is other tokens, as it stands behind a space.
 *
 * Which of the two count is vLLM's rule (v0.17): the one behind a space only if it begins otherwise and is as long.
 */
function badWordIds(word: string, tokenizer: Tokenizer): readonly (readonly number[])[] {
  const text = word.trimStart()
  const plain = tokenizer.encode(text)
  const spaced = tokenizer.encode(` ${text}`)
  const isOther = spaced[0] !== plain[0] && spaced.length === plain.length
  return [plain, ...(isOther ? [spaced] : [])].filter((ids) => ids.length > 0)
}

/** A token of several texts gets the bias of the last one. */
function withTextBias(
  bias: SamplingParameters['logitBias'],
  texts: NonNullable<SamplingParameters['textBias']>,
  tokenizer: Tokenizer,
): SamplingParameters['logitBias'] {
  if (texts.length === 0) return bias
  const merged = new Map(Object.entries(bias ?? {}))
  for (const [text, value] of texts) {
    const ids = tokenizer.encode(text)
    if (ids.length === 0) {
      throw new InvalidRequestError('invalid_value', `logit_bias names ${JSON.stringify(text)}, which has no token.`, {
        param: 'logit_bias',
      })
    }
    for (const id of ids) merged.set(String(id), value)
  }
  return Object.fromEntries(merged)
}

/** Tokens whose text contains a breaker; where none does, the last of those it is written with. */
function breakerIds(breakers: readonly string[], tokenizer: Tokenizer): ReadonlySet<number> {
  const cache = known.get(tokenizer) ?? new Map<string, readonly number[]>()
  known.set(tokenizer, cache)
  const found = breakers.map((breaker) => {
    const ids = cache.get(breaker) ?? tokensWith(breaker, tokenizer)
    if (cache.size >= MAX_KNOWN_TEXTS) cache.clear()
    cache.set(breaker, ids)
    return ids
  })
  return new Set(found.flat())
}

function tokensWith(text: string, tokenizer: Tokenizer): readonly number[] {
  const ids: number[] = []
  const wanted = Buffer.from(text, 'utf8')
  for (let id = 0; id < tokenizer.vocabularySize; id++) {
    const { buffer, byteOffset, byteLength } = tokenizer.tokenBytes(id)
    if (byteLength >= wanted.length && Buffer.from(buffer, byteOffset, byteLength).includes(wanted)) ids.push(id)
  }
  return ids.length > 0 ? ids : tokenizer.encode(text).slice(-1)
}
