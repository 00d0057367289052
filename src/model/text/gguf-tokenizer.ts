/**
 * A tokenizer from the tables of a GGUF file: byte-level BPE (`gpt2`), SentencePiece-style (`llama`), raw BPE (`gemma4`).
 *
 * Takes the metadata as a map, not a file. Follows llama.cpp, whose converter writes these tables: token types,
 * defaults per kind, a space before text that begins the input or follows a control token (`llama`). Differs on
 * purpose: tokens that look like control tokens but are declared "user defined" (`<|im_end|>`, EOS) count as control
 * tokens, because user-defined ones would be parsed out of user text.
 */
import { TokenizerError } from '#base/errors/errors.js'
import { createTokenizer, type Tokenizer, type TokenizerParts } from './tokenizer.js'
import type { AddedToken } from './vocabulary/added-tokens.js'
import { type BpeVocabulary, createBpeEncoder } from './vocabulary/bpe-encoder.js'
import { byteLevelTokenBytes } from './vocabulary/byte-level.js'
import { assertAtMost, MAX_MERGES, MAX_TOKENS } from './vocabulary/limits.js'
import { splitWhereNothingMerges } from './vocabulary/merge-borders.js'
import { MergeTable } from './vocabulary/merge-table.js'
import { namedPreTokenizers, splitterOf } from './vocabulary/named-pre-tokenizers.js'
import { chainSplitters, splitIsolated } from './vocabulary/pre-tokenizer.js'
import { mergesFromScores, sentencePieceTokenBytes } from './vocabulary/sentence-piece.js'

/** Metadata of a GGUF file: key to number, string, boolean or array. */
export type GgufMetadata = ReadonlyMap<string, unknown>

export interface GgufTokenizer {
  readonly tokenizer: Tokenizer
  readonly bosTokenId: number | null
  /** EOS first, then other tokens known to end a turn. */
  readonly eosTokenIds: readonly number[]
}

/** `llama_token_type` of llama.cpp. */
const tokenType = { unknown: 2, control: 3, userDefined: 4 } as const

/** Spellings that end a turn in some model; llama.cpp knows them by name too, as the format has no field for them. */
const endOfTurnNames: readonly string[] = [
  ...['<|eot_id|>', '<|im_end|>', '<|end|>', '<|return|>', '<|call|>', '<end_of_turn>', '<|endoftext|>', '<|eom_id|>'],
  ...['<|end_of_text|>', '<EOT>', '<|END_OF_TURN_TOKEN|>', '<｜end▁of▁sentence｜>', '<turn|>', '[EOT]'],
]

/**
 * Builds the tokenizer that a GGUF file describes.
 *
 * @throws {TokenizerError} `tokenizer_not_found` without token table; `invalid_tokenizer_file` for malformed tables;
 *   `unsupported_tokenizer` for another kind or an unknown pre-tokenizer
 */
export function createGgufTokenizer(metadata: GgufMetadata): GgufTokenizer {
  const kind = metadata.get('tokenizer.ggml.model')
  if (typeof kind !== 'string') throw new TokenizerError('tokenizer_not_found', 'GGUF file has no tokenizer')
  const tables = readTables(metadata)
  const parts = buildParts(kind, metadata, tables)
  const ids = (names: readonly string[]): number[] =>
    names.flatMap((name) => idField(metadata, `tokenizer.ggml.${name}`, tables.tokens.length) ?? [])
  const isControl = (id: number): boolean => parts.addedTokens.some((token) => token.id === id && token.isSpecial)
  const namedEnds = endOfTurnNames.flatMap((name) => parts.tokenToId.get(name) ?? []).filter(isControl)
  return {
    tokenizer: createTokenizer(parts),
    bosTokenId: bosOf(kind, metadata, tables),
    eosTokenIds: [...new Set([...ids(['eos_token_id', 'eot_token_id', 'eom_token_id']), ...namedEnds])],
  }
}

interface Tables {
  readonly tokens: readonly string[]
  readonly tokenToId: ReadonlyMap<string, number>
  readonly types: readonly number[]
  readonly addedTokens: readonly AddedToken[]
}

function readTables(metadata: GgufMetadata): Tables {
  const tokens = stringList(metadata.get('tokenizer.ggml.tokens'), 'tokenizer.ggml.tokens')
  assertAtMost(tokens.length, MAX_TOKENS, 'tokens')
  const types = metadata.has('tokenizer.ggml.token_type')
    ? numberList(metadata.get('tokenizer.ggml.token_type'), 'tokenizer.ggml.token_type', tokens.length)
    : tokens.map(() => 1)
  const tokenToId = new Map<string, number>()
  // Of two equal spellings the first wins, except that nothing may shadow an ordinary token.
  for (const [id, token] of tokens.entries()) if (!tokenToId.has(token)) tokenToId.set(token, id)
  const boundaries = ['bos', 'eos', 'eot', 'eom'].flatMap(
    (name) => idField(metadata, `tokenizer.ggml.${name}_token_id`, tokens.length) ?? [],
  )
  const isPhi3 = /phi-?3/i.test(String(metadata.get('general.name') ?? ''))
  const addedTokens = tokens.flatMap((content, id): AddedToken[] => {
    const type = types[id]
    const isBoundary = boundaries.includes(id) && type !== 1
    const isControl =
      type === tokenType.control || type === tokenType.unknown || isBoundary || looksLikeControl(content, type)
    if (!isControl && type !== tokenType.userDefined) return []
    const stripsRight = isPhi3 && isControl && !['<unk>', '<s>', '<|endoftext|>'].includes(content)
    return [{ id, content, isSpecial: isControl, stripsLeft: false, stripsRight, isSingleWord: false }]
  })
  return { tokens, tokenToId, types, addedTokens }
}

const looksLikeControl = (content: string, type: number | undefined): boolean =>
  endOfTurnNames.includes(content) || (type === tokenType.userDefined && /^<\|.+\|>$/s.test(content))

function buildParts(kind: string, metadata: GgufMetadata, tables: Tables): TokenizerParts {
  const { tokens, tokenToId, addedTokens } = tables
  const bos = bosOf(kind, metadata, tables)
  const eos = idField(metadata, 'tokenizer.ggml.eos_token_id', tokens.length)
  const body =
    kind === 'gpt2'
      ? byteLevelBody(metadata, tables)
      : kind === 'llama'
        ? scoredBody(metadata, tables)
        : kind === 'gemma4'
          ? rawBody(metadata, tables)
          : null
  if (body === null) throw new TokenizerError('unsupported_tokenizer', `GGUF tokenizer "${kind}" is not supported`)
  const addsBos = flag(metadata, 'tokenizer.ggml.add_bos_token', body.addsBos)
  const addsEos = flag(metadata, 'tokenizer.ggml.add_eos_token', false)
  return {
    tokenToId,
    idToToken: tokens,
    addedTokens,
    encodeText: body.encodeText,
    pieceBytes: body.pieceBytes,
    dropsLeadingSpace: body.dropsLeadingSpace,
    prefixIds: addsBos && bos !== null ? [bos] : [],
    suffixIds: addsEos && eos !== null ? [eos] : [],
  }
}

interface Body extends Pick<TokenizerParts, 'encodeText' | 'pieceBytes' | 'dropsLeadingSpace'> {
  readonly addsBos: boolean
}

/** Byte-level BPE with a named pre-tokenizer. */
function byteLevelBody(metadata: GgufMetadata, { tokenToId }: Tables): Body {
  const name = String(metadata.get('tokenizer.ggml.pre') ?? 'default')
  const preTokenizer = namedPreTokenizers.get(name)
  if (preTokenizer === undefined) {
    throw new TokenizerError('unsupported_tokenizer', `GGUF pre-tokenizer "${name}" is not supported`, {
      hint: `known names: ${[...namedPreTokenizers.keys()].join(', ')}`,
    })
  }
  const vocabulary = {
    ...bpeDefaults,
    tokenToId,
    merges: readMerges(metadata, tokenToId),
    symbols: 'bytes' as const,
    ignoresMerges: preTokenizer.ignoresMerges ?? false,
  }
  const encode = createBpeEncoder(vocabulary, splitterOf(preTokenizer))
  return {
    encodeText: (text, _position, out) => encode(text, out),
    pieceBytes: byteLevelTokenBytes,
    dropsLeadingSpace: false,
    addsBos: preTokenizer.addsBos ?? false,
  }
}

/** SentencePiece: characters merge by the score of the token they make; unknown ones become bytes. */
function scoredBody(metadata: GgufMetadata, { tokens, tokenToId, types }: Tables): Body {
  const scores = numberList(metadata.get('tokenizer.ggml.scores'), 'tokenizer.ggml.scores', tokens.length)
  const addsSpace = flag(metadata, 'tokenizer.ggml.add_space_prefix', true)
  const vocabulary = {
    ...bpeDefaults,
    tokenToId,
    merges: mergesFromScores(tokens, scores, tokenToId),
    symbols: 'characters' as const,
    byteFallback: true,
    unknownId: types.indexOf(tokenType.unknown) === -1 ? null : types.indexOf(tokenType.unknown),
  }
  const encode = createBpeEncoder(vocabulary, splitWhereNothingMerges(tokens, vocabulary.fusesUnknown))
  return {
    encodeText: (text, { followsToken }, out) =>
      encode((addsSpace && followsToken ? ` ${text}` : text).replaceAll(' ', '\u2581'), out),
    pieceBytes: sentencePieceTokenBytes,
    dropsLeadingSpace: addsSpace,
    addsBos: true,
  }
}

/** BPE over characters with `▁` for spaces; words are lines. */
function rawBody(metadata: GgufMetadata, { tokens, tokenToId }: Tables): Body {
  const vocabulary = {
    ...bpeDefaults,
    tokenToId,
    merges: readMerges(metadata, tokenToId),
    symbols: 'characters' as const,
    byteFallback: true,
  }
  const lines = splitIsolated(/[^\n]+|\n+/gu)
  const encode = createBpeEncoder(
    vocabulary,
    chainSplitters([lines, splitWhereNothingMerges(tokens, vocabulary.fusesUnknown)]),
  )
  return {
    encodeText: (text, _position, out) => encode(text.replaceAll(' ', '\u2581'), out),
    pieceBytes: sentencePieceTokenBytes,
    dropsLeadingSpace: false,
    addsBos: true,
  }
}

const bpeDefaults: Pick<BpeVocabulary, 'byteFallback' | 'unknownId' | 'fusesUnknown' | 'ignoresMerges'> = {
  byteFallback: false,
  unknownId: null,
  fusesUnknown: false,
  ignoresMerges: false,
}

/** Merges are `left right`, where a token may begin with the space itself. Merges of unknown tokens are left out. */
function readMerges(metadata: GgufMetadata, tokenToId: ReadonlyMap<string, number>): MergeTable {
  const merges = stringList(metadata.get('tokenizer.ggml.merges'), 'tokenizer.ggml.merges')
  assertAtMost(merges.length, MAX_MERGES, 'merges')
  const table = new MergeTable(merges.length)
  for (const [rank, merge] of merges.entries()) {
    const space = merge.indexOf(' ', 1)
    const left = tokenToId.get(merge.slice(0, space))
    const right = tokenToId.get(merge.slice(space + 1))
    const merged = tokenToId.get(merge.slice(0, space) + merge.slice(space + 1))
    if (space !== -1 && left !== undefined && right !== undefined && merged !== undefined) {
      table.add(left, right, rank, merged)
    }
  }
  return table
}

function bosOf(kind: string, metadata: GgufMetadata, { tokens }: Tables): number | null {
  return (
    idField(metadata, 'tokenizer.ggml.bos_token_id', tokens.length) ??
    (kind === 'llama' && tokens.length > 1 ? 1 : null)
  )
}

function idField(metadata: GgufMetadata, key: string, vocabularySize: number): number | null {
  const value = metadata.get(key)
  return typeof value === 'number' && Number.isInteger(value) && value >= 0 && value < vocabularySize ? value : null
}

function flag(metadata: GgufMetadata, key: string, fallback: boolean): boolean {
  const value = metadata.get(key)
  return typeof value === 'boolean' ? value : fallback
}

function stringList(value: unknown, key: string): readonly string[] {
  if (Array.isArray(value) && value.every((item) => typeof item === 'string')) return value
  throw new TokenizerError('invalid_tokenizer_file', `GGUF field "${key}" must be a list of strings`)
}

function numberList(value: unknown, key: string, length: number): readonly number[] {
  if (Array.isArray(value) && value.length >= length && value.every((item) => typeof item === 'number')) return value
  throw new TokenizerError('invalid_tokenizer_file', `GGUF field "${key}" must be a list of ${length} numbers`)
}
