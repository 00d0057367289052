/**
 * The fields that a `tokenizer.json` may have, by the kinds of its parts: a closed list. What stands beside is named, because nothing
 * reads it here; the reference implementation passes over it, too. A known field of another type is an error, never its default.
 *
 * Source: the structures of the Rust crate `tokenizers` 0.23 as they are serialized. A kind that is not supported is refused by
 * whoever builds it.
 */
import { TokenizerError } from '#base/errors/errors.js'
import { isJsonObject, type JsonObject, type JsonValue } from '#base/util/json.js'

type Kind = 'boolean' | 'text' | 'number' | 'any'
type Fields = Readonly<Record<string, Kind>>

const METASPACE: Fields = {
  replacement: 'text',
  str_rep: 'text',
  add_prefix_space: 'boolean',
  prepend_scheme: 'text',
  split: 'boolean',
}
const BYTE_LEVEL: Fields = { add_prefix_space: 'boolean', trim_offsets: 'boolean', use_regex: 'boolean' }
const REPLACE: Fields = { pattern: 'any', content: 'text' }
const AROUND: Fields = { sep: 'any', cls: 'any', trim_offsets: 'boolean', add_prefix_space: 'boolean' }

const PARTS: Readonly<Record<string, Readonly<Record<string, Fields>>>> = {
  normalizer: {
    Sequence: { normalizers: 'any' },
    Replace: REPLACE,
    Prepend: { prepend: 'text' },
    Strip: { strip_left: 'boolean', strip_right: 'boolean' },
    BertNormalizer: {
      clean_text: 'boolean',
      handle_chinese_chars: 'boolean',
      strip_accents: 'boolean',
      lowercase: 'boolean',
    },
    Precompiled: { precompiled_charsmap: 'text' },
  },
  pre_tokenizer: {
    Sequence: { pretokenizers: 'any' },
    Metaspace: METASPACE,
    ByteLevel: BYTE_LEVEL,
    Digits: { individual_digits: 'boolean' },
    Split: { pattern: 'any', behavior: 'text', invert: 'boolean' },
    Punctuation: { behavior: 'text' },
    CharDelimiterSplit: { delimiter: 'text' },
    FixedLength: { length: 'number' },
  },
  model: {
    BPE: {
      ...{ dropout: 'number', unk_token: 'text', continuing_subword_prefix: 'text', end_of_word_suffix: 'text' },
      ...{ fuse_unk: 'boolean', byte_fallback: 'boolean', ignore_merges: 'boolean', vocab: 'any', merges: 'any' },
    },
    Unigram: { unk_id: 'number', vocab: 'any', byte_fallback: 'boolean' },
    WordPiece: {
      unk_token: 'text',
      continuing_subword_prefix: 'text',
      max_input_chars_per_word: 'number',
      vocab: 'any',
    },
    WordLevel: { vocab: 'any', unk_token: 'text' },
  },
  decoder: {
    Sequence: { decoders: 'any' },
    Replace: REPLACE,
    Metaspace: METASPACE,
    ByteLevel: BYTE_LEVEL,
    Strip: { content: 'text', start: 'number', stop: 'number' },
  },
  post_processor: {
    Sequence: { processors: 'any' },
    ByteLevel: BYTE_LEVEL,
    TemplateProcessing: { single: 'any', pair: 'any', special_tokens: 'any' },
    BertProcessing: AROUND,
    RobertaProcessing: AROUND,
  },
}

const TOKEN: Fields = {
  ...{ id: 'number', content: 'text', special: 'boolean' },
  ...{ single_word: 'boolean', lstrip: 'boolean', rstrip: 'boolean', normalized: 'boolean' },
}

/** Sections beside the parts; truncation and padding are settings of who calls, as transformers sets them at every call. */
const SECTIONS = ['version', 'truncation', 'padding', 'added_tokens', ...Object.keys(PARTS)]
const STEPS = ['normalizers', 'pretokenizers', 'decoders', 'processors']

/**
 * Checks the fields of a file.
 *
 * @returns the paths of those that nothing reads: `pre_tokenizer.extra`, each once
 * @throws {TokenizerError} `invalid_tokenizer_file` for a known field of another type
 */
export function checkFields(json: JsonObject): string[] {
  const unread = new Set(Object.keys(json).filter((name) => !SECTIONS.includes(name) && json[name] !== null))
  for (const name of Object.keys(PARTS)) checkPart(name, json[name], unread)
  const tokens = json['added_tokens']
  for (const token of Array.isArray(tokens) ? tokens : []) {
    if (isJsonObject(token)) checkObject('added_tokens[]', token, TOKEN, unread)
  }
  return [...unread]
}

function checkPart(name: string, part: JsonValue | undefined, unread: Set<string>): void {
  if (!isJsonObject(part)) return
  const { type, ...fields } = part
  checkObject(name, fields, PARTS[name]?.[typeof type === 'string' ? type : modelTypeOf(part)] ?? {}, unread)
  for (const list of STEPS) {
    const steps = part[list]
    if (Array.isArray(steps)) for (const step of steps) checkPart(name, step, unread)
  }
}

/** Old files do not name their model; its fields do. */
export function modelTypeOf(model: JsonObject): string {
  const { type } = model
  if (typeof type === 'string') return type
  if (model['merges'] !== undefined) return 'BPE'
  if (Array.isArray(model['vocab'])) return 'Unigram'
  return model['max_input_chars_per_word'] === undefined ? 'WordLevel' : 'WordPiece'
}

function checkObject(path: string, object: JsonObject, fields: Fields, unread: Set<string>): void {
  for (const [name, value] of Object.entries(object)) {
    const kind = Object.hasOwn(fields, name) ? fields[name] : undefined
    if (kind === undefined) {
      if (value !== null) unread.add(`${path}.${name}`)
    } else if (value !== null && kind !== 'any' && typeof value !== (kind === 'text' ? 'string' : kind)) {
      const wanted = { boolean: 'true or false', text: 'a string', number: 'a number' }[kind]
      throw new TokenizerError(
        'invalid_tokenizer_file',
        `tokenizer field "${path}.${name}" must be ${wanted}, got ${JSON.stringify(value).slice(0, 40)}`,
      )
    }
  }
}
