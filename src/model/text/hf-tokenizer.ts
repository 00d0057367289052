/**
 * A tokenizer from Hugging Face's `tokenizer.json`.
 *
 * The format has no written specification; the reference is the Rust crate `tokenizers`, with which files of every kind are
 * compared (`test/support/model/make-tokenizer-forms.py`). What is not read is refused where it would change ids or text; other fields
 * are named (`hf-fields.ts`).
 */
import { AppError, TokenizerError } from '#base/errors/errors.js'
import { isJsonObject, type JsonObject, type JsonValue } from '#base/util/json.js'
import { append } from '#base/util/lists.js'
import { readDecoder } from './hf-decoder.js'
import { checkFields, modelTypeOf } from './hf-fields.js'
import { createNormalizer, type Normalize } from './hf-normalizer.js'
import { type PreTokenizerPlan, planPreTokenizer } from './hf-pre-tokenizer.js'
import { asArray, asNumber, asObject, asString, asTokenId } from './json-fields.js'
import { createTokenizer, type Tokenizer, type TokenizerParts } from './tokenizer.js'
import { type AddedToken, createAddedTokenFinder } from './vocabulary/added-tokens.js'
import { createBpeEncoder } from './vocabulary/bpe-encoder.js'
import { toByteLevelText } from './vocabulary/byte-level.js'
import { assertAtMost, MAX_MERGES, MAX_TOKENS } from './vocabulary/limits.js'
import { splitWhereNothingMerges } from './vocabulary/merge-borders.js'
import { MergeTable } from './vocabulary/merge-table.js'
import { chainSplitters } from './vocabulary/pre-tokenizer.js'
import { createUnigram } from './vocabulary/unigram.js'
import { WordCache } from './vocabulary/word-cache.js'
import { createWordLevel, createWordPiece } from './vocabulary/word-models.js'

const utf8 = new TextEncoder()

/** Tokens around a text as `tokenizer_config.json` wants them; null puts none, absent leaves it to `tokenizer.json`. */
export interface BoundaryTokens {
  readonly prefix?: string | null
  readonly suffix?: string | null
}

/**
 * Builds a tokenizer from parsed `tokenizer.json`.
 *
 * @param boundaries overrides for what `addSpecialTokens` adds
 * @param configured `added_tokens_decoder` of `tokenizer_config.json`
 * @throws {TokenizerError} `invalid_tokenizer_file` when a field is malformed; `unsupported_tokenizer` when the file
 *   uses a part that is not supported
 */
export function createHuggingFaceTokenizer(
  json: JsonValue,
  boundaries: BoundaryTokens = {},
  configured?: JsonValue,
): Tokenizer {
  try {
    return build(asObject(json, 'tokenizer.json'), boundaries, configured)
  } catch (cause) {
    if (cause instanceof AppError) throw cause
    throw new TokenizerError('unsupported_tokenizer', 'tokenizer.json could not be used', { cause })
  }
}

function build(json: JsonObject, boundaries: BoundaryTokens, configured: JsonValue | undefined): Tokenizer {
  const unread = checkFields(json)
  const model = asObject(json['model'], 'model')
  const { tokenToId, idToToken } = readVocabulary(model)
  const ownIds = new Map(tokenToId)
  const ownTokens = idToToken.slice()
  const added = asArray(json['added_tokens'] ?? [], 'added_tokens')
  assertAtMost(added.length, MAX_TOKENS, 'added tokens')
  // a token that the model has keeps the model's id, as in the reference implementation
  const given = added.map(readAddedToken)
  const own = given.map((token) => ({ ...token, id: ownIds.get(token.content) ?? token.id }))
  const { addedTokens, lacking } = withConfigured(own, configured, ownIds)
  for (const token of addedTokens) {
    tokenToId.set(token.content, token.id)
    idToToken[token.id] = token.content
  }
  const decoding = readDecoder(json['decoder'])
  const { prefixIds, suffixIds } = readPostProcessor(json['post_processor'], tokenToId)
  const boundary = (name: string | null | undefined, fallback: number[]): number[] => {
    if (name === undefined) return fallback
    const id = name === null ? undefined : tokenToId.get(name)
    return id === undefined ? [] : [id]
  }
  return createTokenizer({
    notes: [
      ...notesOf(unread, given, ownIds, ownTokens),
      ...(lacking.length === 0
        ? []
        : [`its tokenizer_config.json has added tokens that its tokenizer.json lacks: ${list(lacking)}`]),
      ...hiddenBehindText(json['normalizer'] ?? null, addedTokens),
    ],
    tokenToId,
    idToToken,
    addedTokens,
    encodeText: createTextEncoder(json, model, ownIds, addedTokens),
    ...decoding,
    prefixIds: boundary(boundaries.prefix, prefixIds),
    suffixIds: boundary(boundaries.suffix, suffixIds),
  })
}

function notesOf(
  unread: readonly string[],
  added: readonly AddedToken[],
  ownIds: ReadonlyMap<string, number>,
  ownTokens: readonly (string | undefined)[],
): string[] {
  const moved = added.flatMap(({ id, content }) => {
    const own = ownIds.get(content) ?? id
    return own === id ? [] : [`"${content}" (${id}, taken as ${own})`]
  })
  const hidden = added.flatMap(({ id, content }) => {
    const other = ownTokens[id]
    return ownIds.has(content) || other === content || other === undefined
      ? []
      : [`"${content}" (${id}, as "${other}")`]
  })
  return [
    ...(unread.length === 0 ? [] : [`its tokenizer.json has fields that nothing reads: ${list(unread)}`]),
    ...(moved.length === 0
      ? []
      : [`added tokens of its tokenizer.json have another id in the vocabulary: ${list(moved)}`]),
    ...(hidden.length === 0 ? [] : [`added tokens of its tokenizer.json share an id with others: ${list(hidden)}`]),
  ]
}

const list = (names: readonly string[]): string =>
  names.length > 8 ? `${names.slice(0, 8).join(', ')} and ${names.length - 8} more` : names.join(', ')

/**
 * A sentence on special tokens that are looked for in normalized text where the normalizer writes a space before them: in the middle of
 * a text they are found behind a space only, as in the reference implementation.
 */
function hiddenBehindText(normalizer: JsonValue, addedTokens: readonly AddedToken[]): string[] {
  const sought = addedTokens.filter(({ isSpecial, isNormalized }) => isSpecial && isNormalized === true)
  if (sought.length === 0) return []
  const [whole, continued] = [createNormalizer(normalizer), createNormalizer(withoutPrepend(normalizer))]
  const spell = (normalize: Normalize | null, text: string): string => normalize?.(text) ?? text
  const hidden = sought.filter(({ content }) => spell(whole, content) !== spell(continued, content))
  if (hidden.length === 0) return []
  const names = list(hidden.map(({ content }) => JSON.stringify(content)))
  return [
    `special tokens of its tokenizer.json are normalized, with a space before them, and not found right behind text: ${names}; "normalized": false finds them everywhere`,
  ]
}

function readVocabulary(model: JsonObject): { tokenToId: Map<string, number>; idToToken: (string | undefined)[] } {
  const vocab = model['vocab']
  const count = Array.isArray(vocab) ? vocab.length : Object.keys(asObject(vocab, 'model.vocab')).length
  assertAtMost(count, MAX_TOKENS, 'tokens')
  const entries: [string, number][] = Array.isArray(vocab)
    ? vocab.map((entry, id) => [asString(asArray(entry, `model.vocab[${id}]`)[0], `model.vocab[${id}][0]`), id])
    : Object.entries(asObject(vocab, 'model.vocab')).map(([token, id]) => [
        token,
        asTokenId(id, `model.vocab["${token}"]`),
      ])
  const idToToken: (string | undefined)[] = []
  for (const [token, id] of entries) idToToken[id] = token
  return { tokenToId: new Map(entries), idToToken }
}

function readAddedToken(value: JsonValue, index: number): AddedToken {
  const token = asObject(value, `added_tokens[${index}]`)
  return {
    id: asTokenId(token['id'], `added_tokens[${index}].id`),
    content: asString(token['content'], `added_tokens[${index}].content`),
    ...flagsOf(token),
  }
}

function flagsOf(token: JsonObject): Omit<AddedToken, 'id' | 'content'> {
  return {
    isSpecial: token['special'] === true,
    stripsLeft: token['lstrip'] === true,
    stripsRight: token['rstrip'] === true,
    isSingleWord: token['single_word'] === true,
    isNormalized: (token['normalized'] ?? token['special'] !== true) === true,
  }
}

/**
 * The added tokens with what `tokenizer_config.json` says of them, by their text: transformers (5) adds those once more. A token of the
 * vocabulary becomes an added one; what is special stays so.
 *
 * @returns also the names of those that the tokenizer lacks, which stay out: there is no row of a model for them
 */
function withConfigured(
  own: readonly AddedToken[],
  configured: JsonValue | undefined,
  ownIds: ReadonlyMap<string, number>,
): { readonly addedTokens: readonly AddedToken[]; readonly lacking: readonly string[] } {
  const flags = new Map(
    (isJsonObject(configured) ? Object.values(configured) : []).flatMap((token) =>
      isJsonObject(token) && typeof token['content'] === 'string' && token['content'] !== ''
        ? [[token['content'], flagsOf(token)] as const]
        : [],
    ),
  )
  const known = own.map((token) => {
    const said = flags.get(token.content)
    return said === undefined ? token : { ...token, ...said, isSpecial: token.isSpecial || said.isSpecial }
  })
  const names = new Set(own.map(({ content }) => content))
  const others = [...flags].filter(([content]) => !names.has(content))
  const added = others.flatMap(([content, said]) => {
    const id = ownIds.get(content)
    return id === undefined ? [] : [{ id, content, ...said }]
  })
  return {
    addedTokens: [...known, ...added],
    lacking: others.flatMap(([content]) => (ownIds.has(content) ? [] : [JSON.stringify(content)])),
  }
}

/** Normalization, pre-tokenization and the model, for text without added tokens but those that are normalized. */
function createTextEncoder(
  json: JsonObject,
  model: JsonObject,
  tokenToId: ReadonlyMap<string, number>,
  addedTokens: readonly AddedToken[],
): TokenizerParts['encodeText'] {
  const same: Normalize = (text) => text
  const normalize = createNormalizer(json['normalizer'] ?? null) ?? same
  const normalizeContinuation = createNormalizer(withoutPrepend(json['normalizer'] ?? null)) ?? same
  const plan = planPreTokenizer(json['pre_tokenizer'])
  const encodeWords =
    modelTypeOf(model) === 'BPE' ? createBpe(model, tokenToId, plan) : createWordModel(model, tokenToId, plan)
  // they are spelled as the normalizer leaves them
  const normalized = addedTokens.filter(({ isNormalized }) => isNormalized === true)
  const finder = createAddedTokenFinder(normalized.map((token) => ({ ...token, content: normalize(token.content) })))

  return (text, { isFirst, followsToken }, out, { parseSpecial, barriers }) => {
    const rewrite = followsToken ? normalize : normalizeContinuation
    const moved = normalized.length === 0 ? [] : moveBarriers(text, barriers, [rewrite, normalizeContinuation])
    let isBeforeToken = followsToken
    for (const part of finder.partition(rewrite(text), { parseSpecial, barriers: moved })) {
      if ('id' in part) {
        out.push(part.id)
        isBeforeToken = true
      } else {
        const position = { isFirst: isFirst && part.start === 0, followsToken: isBeforeToken }
        encodeWords(plan.prepare(part.text, position), out)
        isBeforeToken = false
      }
    }
  }
}

/** Where barriers stand in normalized text. @param rewrites of the text up to the first one, and of what follows */
function moveBarriers(
  text: string,
  barriers: readonly number[],
  [first, others]: readonly [Normalize, Normalize],
): number[] {
  let length = 0
  return barriers.map((at, i) => {
    length += (i === 0 ? first : others)(text.slice(i === 0 ? 0 : barriers[i - 1], at)).length
    return length
  })
}

/** The normalizer for text that continues other text: SentencePiece's leading space is left out. */
function withoutPrepend(config: JsonValue): JsonValue {
  if (!isJsonObject(config)) return config
  if (config['type'] === 'Prepend') return null
  const steps = config['normalizers']
  if (!Array.isArray(steps)) return config
  return { ...config, normalizers: steps.map(withoutPrepend).filter((step) => step !== null) }
}

function createBpe(
  model: JsonObject,
  tokenToId: ReadonlyMap<string, number>,
  plan: PreTokenizerPlan,
): (text: string, out: number[]) => void {
  for (const field of ['continuing_subword_prefix', 'end_of_word_suffix'] as const) {
    if (typeof model[field] === 'string' && model[field] !== '') {
      throw new TokenizerError('unsupported_tokenizer', `tokenizer.json uses model.${field}, which is not supported`)
    }
  }
  if (Number(model['dropout'] ?? 0) !== 0) {
    throw new TokenizerError(
      'unsupported_tokenizer',
      'tokenizer.json uses model.dropout, with which a text has other tokens each time',
      {
        hint: 'set model.dropout to null: it is meant for training a model from its beginning',
      },
    )
  }
  const unknown = model['unk_token']
  const vocabulary = {
    tokenToId,
    merges: readMerges(model, tokenToId),
    symbols: plan.symbols,
    byteFallback: model['byte_fallback'] === true,
    unknownId: typeof unknown === 'string' ? (tokenToId.get(unknown) ?? null) : null,
    fusesUnknown: model['fuse_unk'] === true,
    ignoresMerges: model['ignore_merges'] === true,
  }
  const split =
    plan.symbols === 'characters'
      ? chainSplitters([plan.split, splitWhereNothingMerges(tokenToId.keys(), vocabulary.fusesUnknown)])
      : plan.split
  return createBpeEncoder(vocabulary, split)
}

function readMerges(model: JsonObject, tokenToId: ReadonlyMap<string, number>): MergeTable {
  const merges = asArray(model['merges'], 'model.merges')
  assertAtMost(merges.length, MAX_MERGES, 'merges')
  const table = new MergeTable(merges.length)
  for (const [rank, merge] of merges.entries()) {
    const [left, right] = typeof merge === 'string' ? merge.split(' ', 2) : asArray(merge, `model.merges[${rank}]`)
    if (typeof left !== 'string' || typeof right !== 'string') {
      throw new TokenizerError('invalid_tokenizer_file', `tokenizer field "model.merges[${rank}]" must be two tokens`)
    }
    const leftId = tokenToId.get(left)
    const rightId = tokenToId.get(right)
    const merged = tokenToId.get(left + right)
    if (leftId === undefined || rightId === undefined || merged === undefined) {
      throw new TokenizerError(
        'invalid_tokenizer_file',
        `tokenizer field "model.merges[${rank}]" names a token that the vocabulary lacks`,
      )
    }
    table.add(leftId, rightId, rank, merged)
  }
  return table
}

/** Unigram, WordPiece and WordLevel: each word by itself. */
function createWordModel(
  model: JsonObject,
  tokenToId: ReadonlyMap<string, number>,
  plan: PreTokenizerPlan,
): (text: string, out: number[]) => void {
  const encode = wordModel(model, tokenToId)
  const cache = new WordCache()
  const isBytes = plan.symbols === 'bytes'
  return (text, out) => {
    plan.split(text, (word) => {
      let ids = cache.get(word)
      if (ids === undefined) {
        ids = word === '' ? [] : encode(isBytes ? toByteLevelText(utf8.encode(word)) : word)
        cache.set(word, ids)
      }
      for (const id of ids) out.push(id)
    })
  }
}

function wordModel(model: JsonObject, tokenToId: ReadonlyMap<string, number>): (word: string) => number[] {
  const type = modelTypeOf(model)
  if (type === 'Unigram') {
    const entries = asArray(model['vocab'], 'model.vocab').map((entry, id) => asArray(entry, `model.vocab[${id}]`))
    const tokens = entries.map(([token], id) => asString(token, `model.vocab[${id}][0]`))
    const scores = entries.map(([, score], id) => asNumber(score, `model.vocab[${id}][1]`))
    const unknownId = asTokenId(model['unk_id'], 'model.unk_id')
    if (unknownId >= tokens.length) {
      throw new TokenizerError(
        'invalid_tokenizer_file',
        `tokenizer field "model.unk_id" is ${unknownId}, of ${tokens.length} tokens`,
      )
    }
    // the model knows its own spellings, whatever added tokens are called
    const own = new Map(tokens.map((token, id) => [token, id]))
    return createUnigram({ tokens, scores, tokenToId: own, unknownId, byteFallback: model['byte_fallback'] === true })
  }
  if (type !== 'WordPiece' && type !== 'WordLevel') {
    throw new TokenizerError(
      'unsupported_tokenizer',
      `tokenizer.json uses the model ${JSON.stringify(type)}, which is not supported`,
    )
  }
  const unknown = asString(model['unk_token'], 'model.unk_token')
  const unknownId = tokenToId.get(unknown)
  if (unknownId === undefined) {
    throw new TokenizerError(
      'invalid_tokenizer_file',
      `tokenizer field "model.unk_token" is ${JSON.stringify(unknown)}, which the vocabulary lacks`,
    )
  }
  if (type === 'WordLevel') return createWordLevel({ tokenToId, unknownId })
  return createWordPiece(
    { tokenToId, unknownId },
    {
      prefix: asString(model['continuing_subword_prefix'] ?? '##', 'model.continuing_subword_prefix'),
      maxLength: asNumber(model['max_input_chars_per_word'] ?? 100, 'model.max_input_chars_per_word'),
    },
  )
}

/** Ids that the post-processor puts around a single text. */
function readPostProcessor(
  config: JsonValue | undefined,
  tokenToId: ReadonlyMap<string, number>,
): { prefixIds: number[]; suffixIds: number[] } {
  let prefixIds: number[] = []
  const suffixIds: number[] = []
  if (config === undefined || config === null) return { prefixIds, suffixIds }
  const processor = asObject(config, 'post_processor')
  if (processor['type'] === 'Sequence') {
    for (const inner of asArray(processor['processors'], 'post_processor.processors')) {
      const ids = readPostProcessor(inner, tokenToId)
      prefixIds = [...ids.prefixIds, ...prefixIds]
      append(suffixIds, ids.suffixIds)
    }
  } else if (processor['type'] === 'TemplateProcessing') {
    let target = prefixIds
    for (const item of asArray(processor['single'], 'post_processor.single')) {
      if (!isJsonObject(item)) continue
      if (isJsonObject(item['Sequence'])) target = suffixIds
      const special = item['SpecialToken']
      if (isJsonObject(special)) append(target, idsOfSpecial(processor, String(special['id']), tokenToId))
    }
  } else if (processor['type'] === 'BertProcessing' || processor['type'] === 'RobertaProcessing') {
    prefixIds.push(asTokenId(asArray(processor['cls'], 'post_processor.cls')[1], 'post_processor.cls[1]'))
    suffixIds.push(asTokenId(asArray(processor['sep'], 'post_processor.sep')[1], 'post_processor.sep[1]'))
  } else if (processor['type'] !== 'ByteLevel') {
    const type = JSON.stringify(processor['type'] ?? null)
    throw new TokenizerError(
      'unsupported_tokenizer',
      `tokenizer.json uses the post-processor ${type}, which is not supported`,
    )
  }
  return { prefixIds, suffixIds }
}

/** The processor names its tokens and gives their ids apart. */
function idsOfSpecial(processor: JsonObject, name: string, tokenToId: ReadonlyMap<string, number>): number[] {
  const table = processor['special_tokens']
  const entry = isJsonObject(table) ? table[name] : undefined
  const ids = isJsonObject(entry) ? entry['ids'] : undefined
  if (Array.isArray(ids)) return ids.map((id) => asTokenId(id, `post_processor.special_tokens["${name}"].ids`))
  const id = tokenToId.get(name)
  return id === undefined ? [] : [id]
}
