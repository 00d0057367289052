/**
 * A tokenizer from Hugging Face's `tokenizer.json`.
 *
 * @huggingface/tokenizers gives the normalizers, the rarer pre-tokenizers, the translation of regular expressions and
 * the models other than BPE. BPE itself is ours: the library looks every pair up by a JSON string and always parses
 * control tokens. The format has no written specification; the reference is the Rust crate `tokenizers`.
 */
import { AppError, TokenizerError } from '#base/errors/errors.js'
import { isJsonObject, type JsonObject, type JsonValue } from '#base/util/json.js'
import { append } from '#base/util/lists.js'
import { planPreTokenizer } from './hf-pre-tokenizer.js'
import { asArray, asObject, asString, asTokenId } from './json-fields.js'
import { libraryModel, libraryNormalizer, type Normalize } from './library.js'
import { createTokenizer, type Tokenizer, type TokenizerParts } from './tokenizer.js'
import { type AddedToken, createAddedTokenFinder } from './vocabulary/added-tokens.js'
import { createBpeEncoder } from './vocabulary/bpe-encoder.js'
import { byteLevelTokenBytes } from './vocabulary/byte-level.js'
import { limitNormalizer } from './vocabulary/foreign-patterns.js'
import { assertAtMost, MAX_MERGES, MAX_TOKENS } from './vocabulary/limits.js'
import { splitWhereNothingMerges } from './vocabulary/merge-borders.js'
import { MergeTable } from './vocabulary/merge-table.js'
import { chainSplitters } from './vocabulary/pre-tokenizer.js'
import { sentencePieceTokenBytes } from './vocabulary/sentence-piece.js'

/** Tokens around a text as `tokenizer_config.json` wants them; null puts none, absent leaves it to `tokenizer.json`. */
export interface BoundaryTokens {
  readonly prefix?: string | null
  readonly suffix?: string | null
}

/**
 * Builds a tokenizer from parsed `tokenizer.json`.
 *
 * @param boundaries overrides for what `addSpecialTokens` adds
 * @throws {TokenizerError} `invalid_tokenizer_file` when a field is malformed; `unsupported_tokenizer` when the file
 *   uses a part that is not supported
 */
export function createHuggingFaceTokenizer(json: JsonValue, boundaries: BoundaryTokens = {}): Tokenizer {
  try {
    return build(asObject(json, 'tokenizer.json'), boundaries)
  } catch (cause) {
    if (cause instanceof AppError) throw cause
    throw new TokenizerError('unsupported_tokenizer', 'tokenizer.json could not be used', { cause })
  }
}

function build(json: JsonObject, boundaries: BoundaryTokens): Tokenizer {
  const model = asObject(json['model'], 'model')
  const { tokenToId, idToToken } = readVocabulary(model)
  const added = asArray(json['added_tokens'] ?? [], 'added_tokens')
  assertAtMost(added.length, MAX_TOKENS, 'added tokens')
  const addedTokens = added.map(readAddedToken)
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
    tokenToId,
    idToToken,
    addedTokens,
    encodeText: createTextEncoder(json, model, tokenToId, addedTokens),
    pieceBytes: decoding.pieceBytes,
    dropsLeadingSpace: decoding.dropsLeadingSpace,
    prefixIds: boundary(boundaries.prefix, prefixIds),
    suffixIds: boundary(boundaries.suffix, suffixIds),
  })
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
    isSpecial: token['special'] === true,
    stripsLeft: token['lstrip'] === true,
    stripsRight: token['rstrip'] === true,
    isSingleWord: token['single_word'] === true,
  }
}

/** Normalization, pre-tokenization and the model, for text without added tokens. */
function createTextEncoder(
  json: JsonObject,
  model: JsonObject,
  tokenToId: ReadonlyMap<string, number>,
  addedTokens: readonly AddedToken[],
): TokenizerParts['encodeText'] {
  const normalize = createNormalizer(json['normalizer'] ?? null)
  const normalizeContinuation = createNormalizer(withoutPrepend(json['normalizer'] ?? null))
  const plan = planPreTokenizer(json['pre_tokenizer'])
  const encodeWords =
    model['type'] === 'BPE' || (model['type'] === undefined && model['merges'] !== undefined)
      ? createBpe(model, tokenToId, plan)
      : createLibraryModel(json, tokenToId, plan)
  // Added tokens may come into being by normalization ("normalized": true), for example of full-width letters.
  const plainTokens = normalize === null ? [] : addedTokens.filter((token) => !token.isSpecial)
  const finder = createAddedTokenFinder(plainTokens)

  return (text, { isFirst, followsToken }, out) => {
    const rewrite = followsToken ? normalize : normalizeContinuation
    let isBeforeToken = followsToken
    for (const part of finder.partition(rewrite === null ? text : rewrite(text), { parseSpecial: false })) {
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

/** The normalizer for text that continues other text: SentencePiece's leading space is left out. */
function withoutPrepend(config: JsonValue): JsonValue {
  if (!isJsonObject(config)) return config
  if (config['type'] === 'Prepend') return null
  const steps = config['normalizers']
  if (!Array.isArray(steps)) return config
  return { ...config, normalizers: steps.map(withoutPrepend).filter((step) => step !== null) }
}

function createNormalizer(config: JsonValue): Normalize | null {
  if (config === null) return null
  const normalize = libraryNormalizer(asObject(config, 'normalizer'))
  return JSON.stringify(config).includes('"Regex"') ? limitNormalizer(normalize) : normalize
}

function createBpe(
  model: JsonObject,
  tokenToId: ReadonlyMap<string, number>,
  plan: ReturnType<typeof planPreTokenizer>,
): (text: string, out: number[]) => void {
  for (const field of ['continuing_subword_prefix', 'end_of_word_suffix'] as const) {
    if (typeof model[field] === 'string' && model[field] !== '') {
      throw new TokenizerError('unsupported_tokenizer', `tokenizer.json uses model.${field}, which is not supported`)
    }
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
    plan.symbols === 'characters' ? chainSplitters([plan.split, splitWhereNothingMerges(tokenToId.keys())]) : plan.split
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

/** Unigram and the like: words to token spellings by the library, spellings to ids by the vocabulary. */
function createLibraryModel(
  json: JsonObject,
  tokenToId: ReadonlyMap<string, number>,
  plan: ReturnType<typeof planPreTokenizer>,
): (text: string, out: number[]) => void {
  const encode = libraryModel(json)
  const model = asObject(json['model'], 'model')
  const unknown = typeof model['unk_id'] === 'number' ? model['unk_id'] : tokenToId.get(String(model['unk_token']))
  return (text, out) => {
    plan.split(text, (word) => {
      const ids = encode(word).map((token) => tokenToId.get(token) ?? unknown)
      // Several unknown characters in a row are one unknown token.
      const fused = ids.filter((id, i) => id !== undefined && (id !== unknown || ids[i - 1] !== unknown))
      for (const id of fused) if (id !== undefined) out.push(id)
    })
  }
}

function readDecoder(config: JsonValue | undefined): Pick<TokenizerParts, 'pieceBytes' | 'dropsLeadingSpace'> {
  const steps = config === undefined || config === null ? [] : decoderSteps(config)
  const types = steps.map((step) => step['type'])
  if (types.includes('ByteLevel')) return { pieceBytes: byteLevelTokenBytes, dropsLeadingSpace: false }
  const unsupported = types.find(
    (type) => !['Metaspace', 'Replace', 'ByteFallback', 'Fuse', 'Strip'].includes(String(type)),
  )
  if (unsupported !== undefined) {
    throw new TokenizerError(
      'unsupported_tokenizer',
      `tokenizer.json uses the decoder "${String(unsupported)}", which is not supported`,
    )
  }
  const metaspace = steps.find((step) => step['type'] === 'Metaspace')
  const prepends =
    metaspace !== undefined && metaspace['prepend_scheme'] !== 'never' && metaspace['add_prefix_space'] !== false
  const strips = steps.some((step) => step['type'] === 'Strip' && step['content'] === ' ' && Number(step['start']) > 0)
  return {
    pieceBytes: (token) => sentencePieceTokenBytes(token),
    dropsLeadingSpace: prepends || strips,
  }
}

function decoderSteps(config: JsonValue): JsonObject[] {
  const decoder = asObject(config, 'decoder')
  return decoder['type'] === 'Sequence'
    ? asArray(decoder['decoders'], 'decoder.decoders').flatMap(decoderSteps)
    : [decoder]
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
