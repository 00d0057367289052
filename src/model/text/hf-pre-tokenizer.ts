/**
 * The `pre_tokenizer` of a `tokenizer.json` as splitters.
 *
 * @huggingface/tokenizers translates regular expressions and nothing else: 0.2.0 differs from the reference implementation in every
 * kind (ASCII letters and digits, JavaScript's white space, UTF-16 units, merging behaviors treated as isolated). Refused, because
 * a splitter sees no position: a Metaspace of the scheme `first`, and a byte-level step, with others before or behind them.
 */
import { TokenizerError } from '#base/errors/errors.js'
import type { JsonObject, JsonValue } from '#base/util/json.js'
import { asArray, asObject, asString } from './json-fields.js'
import { libraryPattern } from './library.js'
import type { TextPosition } from './tokenizer.js'
import { isKnownPattern, limitSplitter } from './vocabulary/foreign-patterns.js'
import { compilePattern, escapeRegExp, gpt2Pattern, WORD } from './vocabulary/patterns.js'
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
 * @throws {TokenizerError} `unsupported_tokenizer` for a kind, or an order of kinds, that is not known; `invalid_tokenizer_file`
 */
export function planPreTokenizer(config: JsonValue | undefined): PreTokenizerPlan {
  const steps = flatten(config ?? null)
  const [first] = steps
  const isFirst = (type: string): boolean => first?.['type'] === type
  const prepare = isFirst('Metaspace') ? metaspace(first ?? {}) : isFirst('ByteLevel') ? spaced(first ?? {}) : kept
  const splitters = steps.flatMap((step, index): readonly Splitter[] => {
    const type = String(step['type'])
    if (type === 'ByteLevel' && index < steps.length - 1) throw unsupported('"ByteLevel" with other steps behind it')
    if (type === 'Metaspace' && index > 0 && schemeOf(step) === 'first')
      throw unsupported('"Metaspace" of the scheme "first" behind other steps')
    const make = SPLITTERS[type]
    if (make === undefined) throw unsupported(JSON.stringify(step['type'] ?? null))
    return make(step, index)
  })
  const symbols = steps.at(-1)?.['type'] === 'ByteLevel' ? 'bytes' : 'characters'
  return { symbols, prepare, split: chainSplitters(splitters) }
}

const kept: PreTokenizerPlan['prepare'] = (text) => text
const splitBySpace = splitWith(/\p{White_Space}/gu, 'removed', false)
/** ASCII punctuation and that of Unicode. */
const PUNCTUATION = /[\p{P}$+<=>^`|~]/gu

const SPLITTERS: Readonly<Record<string, (step: JsonObject, index: number) => readonly Splitter[]>> = {
  Metaspace: (step, index) => {
    const prepare = metaspace(step)
    const wanted = new RegExp(escapeRegExp(replacementOf(step)), 'gu')
    return [
      ...(index === 0 ? [] : [mapped((piece) => prepare(piece, { isFirst: false, followsToken: true }))]),
      ...(step['split'] === false ? [] : [splitWith(wanted, 'mergedWithNext', false)]),
    ]
  },
  ByteLevel: (step, index) => [
    ...(index === 0 ? [] : [mapped((piece) => spaced(step)(piece, { isFirst: false, followsToken: true }))]),
    ...(step['use_regex'] === false ? [] : [splitIsolated(compilePattern(gpt2Pattern))]),
  ],
  Digits: (step) => [splitIsolated(step['individual_digits'] === true ? /\p{N}/gu : /\p{N}+/gu)],
  Split: (step) => [splitStep(step)],
  Punctuation: (step) => [splitWith(PUNCTUATION, behaviorOf(step), false)],
  Whitespace: () => [splitWith(new RegExp(`[${WORD}]+|[^${WORD}\\p{White_Space}]+`, 'gu'), 'removed', true)],
  WhitespaceSplit: () => [splitBySpace],
  BertPreTokenizer: () => [splitBySpace, splitIsolated(PUNCTUATION)],
  CharDelimiterSplit: (step) => {
    const delimiter = asString(step['delimiter'], 'pre_tokenizer.delimiter')
    return [splitWith(new RegExp(escapeRegExp(delimiter), 'gu'), 'removed', false)]
  },
  FixedLength: (step) => {
    const { length = 5 } = step
    if (typeof length !== 'number' || !Number.isInteger(length) || length < 1)
      throw new TokenizerError('invalid_tokenizer_file', 'tokenizer field "pre_tokenizer.length" must be at least 1')
    return [splitIsolated(new RegExp(`.{1,${length}}`, 'gsu'))]
  },
}

function flatten(config: JsonValue): JsonObject[] {
  if (config === null) return []
  const object = asObject(config, 'pre_tokenizer')
  if (object['type'] !== 'Sequence') return [object]
  return asArray(object['pretokenizers'] ?? [], 'pre_tokenizer.pretokenizers').flatMap(flatten)
}

const mapped =
  (rewrite: (piece: string) => string): Splitter =>
  (piece, emit) =>
    emit(rewrite(piece))

const replacementOf = (step: JsonObject): string =>
  typeof step['replacement'] === 'string' ? step['replacement'] : '\u2581'

const schemeOf = (step: JsonObject): JsonValue =>
  step['prepend_scheme'] ?? (step['add_prefix_space'] === false ? 'never' : 'always')

function spaced(step: JsonObject): PreTokenizerPlan['prepare'] {
  if (step['add_prefix_space'] !== true) return kept
  return (text, { followsToken }) => (followsToken && !text.startsWith(' ') ? ` ${text}` : text)
}

function metaspace(step: JsonObject): PreTokenizerPlan['prepare'] {
  const replacement = replacementOf(step)
  const scheme = schemeOf(step)
  return (text, { isFirst, followsToken }) => {
    const replaced = text.replaceAll(' ', replacement)
    const prepends = (scheme === 'always' && followsToken) || (scheme === 'first' && isFirst)
    return prepends && !replaced.startsWith(replacement) ? replacement + replaced : replaced
  }
}

function behaviorOf(step: JsonObject): SplitBehavior {
  const name = String(step['behavior'] ?? 'Isolated').toLowerCase()
  const behavior = behaviors[name]
  if (behavior === undefined) throw unsupported(`with the split behavior "${name}"`)
  return behavior
}

function splitStep(step: JsonObject): Splitter {
  const behavior = behaviorOf(step)
  const pattern = asObject(step['pattern'] ?? {}, 'pre_tokenizer.pattern')
  if (typeof pattern['String'] === 'string') {
    return splitWith(new RegExp(escapeRegExp(pattern['String']), 'gu'), behavior, step['invert'] === true)
  }
  if (typeof pattern['Regex'] !== 'string') throw unsupported('"Split" whose pattern is neither String nor Regex')
  const splitter = splitWith(libraryPattern(pattern['Regex']), behavior, step['invert'] === true)
  return isKnownPattern(pattern['Regex']) ? splitter : limitSplitter(splitter)
}

function unsupported(what: string): TokenizerError {
  return new TokenizerError(
    'unsupported_tokenizer',
    `tokenizer.json uses the pre-tokenizer ${what}, which is not supported`,
  )
}
