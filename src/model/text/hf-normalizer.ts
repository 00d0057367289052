/**
 * The `normalizer` of a `tokenizer.json`: text rewritten before it is cut into words.
 *
 * All kinds of the Rust crate `tokenizers` are here, because @huggingface/tokenizers 0.2.0 differs in most: white space is
 * JavaScript's, `$` in a replacement is a sign of its own, a final sigma becomes another letter, and a precompiled table is not read.
 */
import { TokenizerError } from '#base/errors/errors.js'
import type { JsonObject, JsonValue } from '#base/util/json.js'
import { asArray, asObject, asString } from './json-fields.js'
import { libraryPattern } from './library.js'
import { toByteLevelText } from './vocabulary/byte-level.js'
import { limitNormalizer } from './vocabulary/foreign-patterns.js'
import { escapeRegExp } from './vocabulary/patterns.js'
import { createCharsMap } from './vocabulary/precompiled-charsmap.js'

/** Rewrites text before it is cut into words. */
export type Normalize = (text: string) => string

const FORMS: ReadonlySet<unknown> = new Set(['NFC', 'NFD', 'NFKC', 'NFKD'])
const utf8 = new TextEncoder()

/**
 * The normalizer of a configuration; null for none.
 *
 * @throws {TokenizerError} `unsupported_tokenizer` for a kind that nobody knows; `invalid_tokenizer_file`
 */
export function createNormalizer(config: JsonValue): Normalize | null {
  if (config === null) return null
  const step = asObject(config, 'normalizer')
  const type = step['type']
  if (type === 'Sequence') {
    const steps = asArray(step['normalizers'], 'normalizer.normalizers').flatMap((each) => createNormalizer(each) ?? [])
    return (text) => steps.reduce((rewritten, rewrite) => rewrite(rewritten), text)
  }
  if (FORMS.has(type)) return (text) => text.normalize(String(type))
  const make = STEPS[String(type)]
  if (make !== undefined) return make(step)
  throw new TokenizerError(
    'unsupported_tokenizer',
    `tokenizer.json uses the normalizer ${JSON.stringify(type ?? null)}, which is not supported`,
  )
}

const STEPS: Readonly<Record<string, (step: JsonObject) => Normalize>> = {
  Replace: replaceStep,
  Prepend: (step) => {
    const start = asString(step['prepend'], 'normalizer.prepend')
    return (text) => (text === '' ? '' : start + text)
  },
  Strip: ({ strip_left: left, strip_right: right }) => {
    const ends = [...(left === true ? [/^\p{White_Space}+/u] : []), ...(right === true ? [/\p{White_Space}+$/u] : [])]
    return (text) => ends.reduce((rest, end) => rest.replace(end, ''), text)
  },
  StripAccents: () => (text) => text.replace(/\p{M}/gu, ''),
  Lowercase: () => lowerCase,
  BertNormalizer: bertStep,
  Nmt: () => nmt,
  ByteLevel: () => (text) => toByteLevelText(utf8.encode(text)),
  Precompiled: (step) => createCharsMap(asString(step['precompiled_charsmap'], 'normalizer.precompiled_charsmap')),
}

/** Letter by letter: in a whole word JavaScript writes a final sigma. */
function lowerCase(text: string): string {
  return Array.from(text, (character) => character.toLowerCase()).join('')
}

function replaceStep(step: JsonObject): Normalize {
  const content = asString(step['content'] ?? '', 'normalizer.content')
  const pattern = asObject(step['pattern'] ?? {}, 'normalizer.pattern')
  if (typeof pattern['String'] === 'string') {
    const literal = new RegExp(escapeRegExp(pattern['String']), 'gu')
    return (text) => text.replace(literal, () => content)
  }
  const regex = libraryPattern(asString(pattern['Regex'], 'normalizer.pattern.Regex'))
  return limitNormalizer((text) => text.replace(regex, () => content))
}

/** Source: `tokenizers`, `normalizers/bert.rs`. */
function bertStep(step: JsonObject): Normalize {
  const isLower = step['lowercase'] !== false
  const steps: Normalize[] = []
  if (step['clean_text'] !== false) {
    steps.push((text) => text.replace(/(?![\t\n\r])\p{C}|\ufffd/gu, '').replace(/\p{White_Space}/gu, ' '))
  }
  if (step['handle_chinese_chars'] !== false) steps.push((text) => text.replace(CHINESE, ' $& '))
  if (step['strip_accents'] ?? isLower) steps.push((text) => text.normalize('NFD').replace(/\p{Mn}/gu, ''))
  if (isLower) steps.push(lowerCase)
  return (text) => steps.reduce((rewritten, rewrite) => rewrite(rewritten), text)
}

const CHINESE =
  /[\u4e00-\u9fff\u3400-\u4dbf\u{20000}-\u{2a6df}\u{2a700}-\u{2b73f}\u{2b740}-\u{2b81f}\u{2b920}-\u{2ceaf}\uf900-\ufaff\u{2f800}-\u{2fa1f}]/gu

/** Source: `tokenizers`, `normalizers/unicode.rs`: what SentencePiece's nmt rules drop, and what they take for a space. */
function nmt(text: string): string {
  let made = ''
  for (const character of text) {
    const code = character.codePointAt(0) ?? 0
    if (NMT_DROPPED(code)) continue
    made += NMT_SPACES.has(code) || (code >= 0x200b && code <= 0x200f) ? ' ' : character
  }
  return made
}

const NMT_DROPPED = (code: number): boolean =>
  (code >= 0x01 && code <= 0x08) || code === 0x0b || (code >= 0x0e && code <= 0x1f) || [0x7f, 0x8f, 0x9f].includes(code)
const NMT_SPACES: ReadonlySet<number> = new Set([
  ...[0x09, 0x0a, 0x0c, 0x0d, 0x1680, 0x2028, 0x2029, 0x2581, 0xfeff, 0xfffd],
])
