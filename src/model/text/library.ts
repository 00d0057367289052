/**
 * The only importer of @huggingface/tokenizers, for what it does well: regular expressions of Oniguruma and Rust as JavaScript's.
 *
 * The package's type declarations do not resolve under Node's module rules, so what it hands out is checked here.
 */
import { Tokenizer as LibraryTokenizer } from '@huggingface/tokenizers'
import { TokenizerError } from '#base/errors/errors.js'

const emptyModel = { type: 'BPE', vocab: {}, merges: [] }
const nothing = { added_tokens: [], decoder: null, normalizer: null, pre_tokenizer: null, post_processor: null }

/** A regular expression of a model file, translated by the library to JavaScript, with the flags `gu`. */
export function libraryPattern(regex: string): RegExp {
  const split = { type: 'Split', pattern: { Regex: regex }, behavior: 'Isolated', invert: false }
  const { pre_tokenizer } = create({ ...nothing, model: emptyModel, pre_tokenizer: split })
  const pattern = property(pre_tokenizer, 'pattern')
  if (pattern instanceof RegExp) return pattern
  throw unsupported()
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

function unsupported(cause?: unknown): TokenizerError {
  return new TokenizerError('unsupported_tokenizer', 'tokenizer.json uses a part that is not supported', { cause })
}
