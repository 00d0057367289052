/**
 * The `pre_tokenizer` of a `tokenizer.json` as splitters.
 *
 * The library's own pre-tokenizers are used for the rare kinds and for translating regular expressions. Replaced here,
 * because @huggingface/tokenizers 0.2.0 differs from the reference implementation in them: `ByteLevel` (JavaScript's
 * `\s` instead of Unicode white space), `Digits` (ASCII digits only), `Split` (merging behaviors treated as isolated).
 */
import { TokenizerError } from '#base/errors/errors.js'
import type { JsonObject, JsonValue } from '#base/util/json.js'
import { asArray, asObject } from './json-fields.js'
import { libraryPattern, libraryPreTokenizer } from './library.js'
import type { TextPosition } from './tokenizer.js'
import { isKnownPattern, limitSplitter } from './vocabulary/foreign-patterns.js'
import { compilePattern, gpt2Pattern } from './vocabulary/patterns.js'
import {
  chainSplitters,
  type SplitBehavior,
  type Splitter,
  splitIsolated,
  splitWith,
} from './vocabulary/pre-tokenizer.js'

export interface PreTokenizerPlan {
  /** Starting symbols of the words that `split` makes. */
  readonly symbols: 'bytes' | 'characters'
  /** Applied to the whole text first; may put a space in front of it. */
  prepare(text: string, position: TextPosition): string
  readonly split: Splitter
}

const behaviors: Readonly<Record<string, SplitBehavior>> = {
  isolated: 'isolated',
  removed: 'removed',
  mergedwithprevious: 'mergedWithPrevious',
  mergedwithnext: 'mergedWithNext',
  contiguous: 'contiguous',
}

/**
 * Reads the pre-tokenizer.
 *
 * @throws {TokenizerError} `unsupported_tokenizer` for a kind that neither this file nor the library knows
 */
export function planPreTokenizer(config: JsonValue | undefined): PreTokenizerPlan {
  const steps = flatten(config ?? null)
  let prepare: PreTokenizerPlan['prepare'] = (text) => text
  const splitters: Splitter[] = []
  let symbols: 'bytes' | 'characters' = 'characters'
  for (const [index, step] of steps.entries()) {
    const type = step['type']
    if (type === 'Metaspace') {
      if (index > 0) return libraryPlan(config ?? null)
      prepare = metaspace(step)
      if (step['split'] !== false)
        splitters.push(splitWith(new RegExp(escapeRegExp(replacementOf(step)), 'gu'), 'mergedWithNext', false))
    } else if (type === 'ByteLevel') {
      if (index < steps.length - 1 || (step['add_prefix_space'] === true && index > 0))
        return libraryPlan(config ?? null)
      if (step['add_prefix_space'] === true) prepare = prependSpace
      if (step['use_regex'] !== false) splitters.push(splitIsolated(compilePattern(gpt2Pattern)))
      symbols = 'bytes'
    } else if (type === 'Digits') {
      splitters.push(splitIsolated(step['individual_digits'] === true ? /\p{N}/gu : /\p{N}+/gu))
    } else if (type === 'Split') {
      splitters.push(splitStep(step))
    } else if (type === 'Punctuation') {
      splitters.push(splitWith(/[\p{P}$+<=>^`|~]/gu, behaviorOf(step), false))
    } else {
      splitters.push(librarySplitter(step))
    }
  }
  return { symbols, prepare, split: chainSplitters(splitters) }
}

function flatten(config: JsonValue): JsonObject[] {
  if (config === null) return []
  const object = asObject(config, 'pre_tokenizer')
  if (object['type'] !== 'Sequence') return [object]
  return asArray(object['pretokenizers'] ?? [], 'pre_tokenizer.pretokenizers').flatMap(flatten)
}

const replacementOf = (step: JsonObject): string =>
  typeof step['replacement'] === 'string' ? step['replacement'] : '\u2581'

const prependSpace: PreTokenizerPlan['prepare'] = (text, { followsToken }) =>
  followsToken && !text.startsWith(' ') ? ` ${text}` : text

function metaspace(step: JsonObject): PreTokenizerPlan['prepare'] {
  const replacement = replacementOf(step)
  const scheme = step['prepend_scheme'] ?? (step['add_prefix_space'] === false ? 'never' : 'always')
  return (text, { isFirst, followsToken }) => {
    const replaced = text.replaceAll(' ', replacement)
    const prepends = (scheme === 'always' && followsToken) || (scheme === 'first' && isFirst)
    return prepends && !replaced.startsWith(replacement) ? replacement + replaced : replaced
  }
}

function behaviorOf(step: JsonObject): SplitBehavior {
  const name = String(step['behavior'] ?? 'Isolated').toLowerCase()
  const behavior = behaviors[name]
  if (behavior === undefined) throw unsupported(`split behavior "${name}"`)
  return behavior
}

function splitStep(step: JsonObject): Splitter {
  const behavior = behaviorOf(step)
  const pattern = asObject(step['pattern'] ?? {}, 'pre_tokenizer.pattern')
  if (typeof pattern['String'] === 'string') {
    return splitWith(new RegExp(escapeRegExp(pattern['String']), 'gu'), behavior, step['invert'] === true)
  }
  if (typeof pattern['Regex'] !== 'string') throw unsupported('split pattern that is neither String nor Regex')
  const splitter = splitWith(libraryPattern(pattern['Regex']), behavior, step['invert'] === true)
  return isKnownPattern(pattern['Regex']) ? splitter : limitSplitter(splitter)
}

/** A step, or an order of steps, that only the library knows. */
function libraryPlan(config: JsonValue): PreTokenizerPlan {
  return { symbols: 'characters', prepare: (text) => text, split: librarySplitter(config) }
}

function librarySplitter(config: JsonValue): Splitter {
  const preTokenize = libraryPreTokenizer(config)
  return limitSplitter((piece, emit) => {
    for (const word of preTokenize(piece)) emit(word)
  })
}

function unsupported(what: string): TokenizerError {
  return new TokenizerError('unsupported_tokenizer', `tokenizer.json uses a ${what} that is not supported`)
}

const escapeRegExp = (text: string): string =>
  text.replace(/[.*+?^${}()|[\]\\/-]/g, (c) => (c === '-' ? '\\x2d' : `\\${c}`))
