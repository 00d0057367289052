/**
 * The only importer of @huggingface/tokenizers: its parts behind the few types that we use.
 *
 * The package's type declarations do not resolve under Node's module rules, so what it hands out is checked here.
 */
import { Tokenizer as LibraryTokenizer } from '@huggingface/tokenizers'
import { TokenizerError } from '#base/errors/errors.js'
import type { JsonObject, JsonValue } from '#base/util/json.js'

const emptyModel = { type: 'BPE', vocab: {}, merges: [] }
const nothing = { added_tokens: [], decoder: null, normalizer: null, pre_tokenizer: null, post_processor: null }

/** Rewrites text before it is cut into words. */
export type Normalize = (text: string) => string

/** The library's normalizer of this configuration. */
export function libraryNormalizer(config: JsonObject): Normalize {
  const { normalizer } = create({ ...nothing, model: emptyModel, normalizer: config })
  const normalize = method(normalizer, 'normalize')
  return (text) => String(normalize(text))
}

/** The library's pre-tokenizer of this configuration: text to words, in the byte-level alphabet where that applies. */
export function libraryPreTokenizer(config: JsonValue): (text: string) => readonly string[] {
  const { pre_tokenizer } = create({ ...nothing, model: emptyModel, pre_tokenizer: config })
  const preTokenize = method(pre_tokenizer, 'pre_tokenize')
  return (text) => strings(preTokenize(text, { section_index: 0 }))
}

/** A regular expression of a model file, translated by the library to JavaScript, with the flags `gu`. */
export function libraryPattern(regex: string): RegExp {
  const split = { type: 'Split', pattern: { Regex: regex }, behavior: 'Isolated', invert: false }
  const { pre_tokenizer } = create({ ...nothing, model: emptyModel, pre_tokenizer: split })
  const pattern = property(pre_tokenizer, 'pattern')
  if (pattern instanceof RegExp) return pattern
  throw unsupported()
}

/** The library's model (Unigram and others): one word to the spellings of its tokens, null for an unknown one. */
export function libraryModel(json: JsonObject): (word: string) => readonly string[] {
  const { model } = create({ ...nothing, ...json, pre_tokenizer: null, normalizer: null })
  const encode = method(model, 'encode')
  return (word) => strings(encode([word]))
}

function create(json: object): LibraryTokenizer {
  try {
    return new LibraryTokenizer(json, {})
  } catch (cause) {
    throw unsupported(cause)
  }
}

function property(owner: unknown, name: string): unknown {
  if ((typeof owner !== 'object' && typeof owner !== 'function') || owner === null) throw unsupported()
  return Reflect.get(owner, name)
}

function method(owner: unknown, name: string): (...args: readonly unknown[]) => unknown {
  const found = property(owner, name)
  if (typeof found !== 'function') throw unsupported()
  return (...args) => Reflect.apply(found, owner, args)
}

function strings(value: unknown): readonly string[] {
  return Array.isArray(value) ? value.filter((item) => typeof item === 'string') : []
}

function unsupported(cause?: unknown): TokenizerError {
  return new TokenizerError('unsupported_tokenizer', 'tokenizer.json uses a part that is not supported', { cause })
}
