/**
 * Text to token ids and back, for any vocabulary that is described as data (`TokenizerParts`).
 *
 * Where the parts come from is the business of `hf-tokenizer.ts` (a `tokenizer.json`) and `gguf-tokenizer.ts` (the
 * tables of a GGUF file). This file adds what both share: control tokens are recognised only on request and never
 * across a barrier, decoding goes through bytes, ids outside the vocabulary stand for nothing.
 *
 * Differs from Hugging Face's `decode`: no "clean up of tokenization spaces", because it cannot be streamed and changes
 * what the model wrote.
 */
import type { AddedToken } from './vocabulary/added-tokens.js'
import { createAddedTokenFinder } from './vocabulary/added-tokens.js'

export interface EncodeOptions {
  /** Add the tokens that the model's tokenizer puts around a text, usually BOS (default false). */
  readonly addSpecialTokens?: boolean
  /** Turn text that spells a control token into that token (default false: it stays text). */
  readonly parseSpecial?: boolean
  /** With `parseSpecial`: sorted positions in UTF-16 units that no control token may span. */
  readonly barriers?: readonly number[]
  /**
   * The token before the text, when a text is encoded in parts (default: the text begins the input). SentencePiece
   * vocabularies put a space before text that begins the input or follows a control token, but not into the middle of
   * a text; some control tokens swallow the white space behind them.
   */
  readonly after?: number | undefined
  /**
   * The most tokens of interest (default: no limit). Text that is far too long is not tokenized to its end: the result
   * then has one token more than this.
   */
  readonly maxTokens?: number | undefined
}

/** Where a text without added tokens stands. */
export interface TextPosition {
  /** It begins the input. */
  readonly isFirst: boolean
  /** It begins the input or follows an added token. */
  readonly followsToken: boolean
}

/** How added tokens are looked for that come into being by normalization. */
export interface AddedTokenOptions {
  readonly parseSpecial: boolean
  /** Sorted positions in the text that no control token may span. */
  readonly barriers: readonly number[]
}

export interface DecodeOptions {
  /** Leave control tokens out (default false). */
  readonly skipSpecialTokens?: boolean
}

/** Converts between text and token ids. Stateless apart from a bounded cache of words; safe to share. */
export interface Tokenizer {
  /** Number of token ids; the model's own vocabulary may be padded beyond it. */
  readonly vocabularySize: number
  /** Whether `decode` drops one leading space, as SentencePiece vocabularies do. */
  readonly dropsLeadingSpace: boolean
  /** Lone surrogates become U+FFFD, everything else round-trips through `decode` unless the vocabulary normalizes. */
  encode(text: string, options?: EncodeOptions): number[]
  /** Bytes that are no valid UTF-8 become U+FFFD. */
  decode(tokenIds: Iterable<number>, options?: DecodeOptions): string
  /** The bytes a token stands for; part of a character is possible; empty for ids outside the vocabulary. */
  tokenBytes(id: number): Uint8Array
  /** Whether the id is a control token. */
  isSpecial(id: number): boolean
  /** The id of a token as spelled in the vocabulary (`Ġthe`, `▁the`, `<|im_end|>`), or null. */
  tokenToId(token: string): number | null
  /** The spelling of a token in the vocabulary, or null. */
  idToToken(id: number): string | null
  /** Spellings of the control tokens. */
  readonly specialTokens: readonly string[]
  /** What of its file is not read, or read otherwise than it says: sentences for whoever adds the model. */
  readonly notes: readonly string[]
}

/** What distinguishes one tokenizer from another. */
export interface TokenizerParts {
  readonly tokenToId: ReadonlyMap<string, number>
  /** Spelling by id; holes are undefined. */
  readonly idToToken: readonly (string | undefined)[]
  readonly addedTokens: readonly AddedToken[]
  /** Appends the token ids of text that holds none of `addedTokens` but those that are normalized. */
  encodeText(text: string, position: TextPosition, out: number[], options: AddedTokenOptions): void
  /** Bytes of an ordinary token. */
  pieceBytes(token: string, id: number): Uint8Array
  /** Bytes of an added token; default its content. */
  addedBytes?(content: string): Uint8Array
  /** Ids that `addSpecialTokens` puts before and after the text. */
  readonly prefixIds: readonly number[]
  readonly suffixIds: readonly number[]
  readonly dropsLeadingSpace: boolean
  /** Default none. */
  readonly notes?: readonly string[]
}

/** Composition (NFC) may make a text shorter before it is tokenized, by less than this factor. */
const NORMALIZATION_FACTOR = 4

const noBytes = new Uint8Array(0)
const utf8 = new TextEncoder()

/**
 * Builds a tokenizer from its parts.
 *
 * @example
 * tokenizer.encode('<|im_end|>')                          // the characters, one by one
 * tokenizer.encode('<|im_end|>', { parseSpecial: true })  // one id
 */
export function createTokenizer(parts: TokenizerParts): Tokenizer {
  const { addedTokens, idToToken } = parts
  const finder = createAddedTokenFinder(addedTokens.filter(({ isNormalized }) => isNormalized !== true))
  const addedById = new Map(addedTokens.map((token) => [token.id, token]))
  const specialIds = new Set(addedTokens.filter((token) => token.isSpecial).map((token) => token.id))
  const longestToken = idToToken.reduce((longest, token) => Math.max(longest, token?.length ?? 0), 1)
  const bytesById: (Uint8Array | undefined)[] = new Array(idToToken.length)

  const tokenBytes = (id: number): Uint8Array => {
    const known = bytesById[id]
    if (known !== undefined) return known
    const token = idToToken[id]
    if (token === undefined) return noBytes
    const added = addedById.get(id)
    const addedBytes = (content: string): Uint8Array => parts.addedBytes?.(content) ?? utf8.encode(content)
    const bytes = added === undefined ? parts.pieceBytes(token, id) : addedBytes(added.content)
    bytesById[id] = bytes
    return bytes
  }

  const encodeWhole = (text: string, options: EncodeOptions): number[] => {
    const { addSpecialTokens = false, parseSpecial = false, barriers = [], after } = options
    const out: number[] = addSpecialTokens ? [...parts.prefixIds] : []
    const before = after === undefined ? undefined : addedById.get(after)
    const swallowed = before?.stripsRight === true ? (/^\p{White_Space}*/u.exec(text)?.[0].length ?? 0) : 0
    let followsToken = after === undefined || before !== undefined
    let barrier = 0
    for (const part of finder.partition(wellFormed(text), { parseSpecial, barriers, start: swallowed })) {
      if ('id' in part) {
        out.push(part.id)
        followsToken = true
      } else {
        const position = { isFirst: part.start === 0 && after === undefined, followsToken }
        const own: number[] = []
        const end = part.start + part.text.length
        while ((barriers[barrier] ?? end) <= part.start) barrier += 1
        for (; (barriers[barrier] ?? end) < end; barrier += 1) own.push((barriers[barrier] ?? 0) - part.start)
        parts.encodeText(part.text, position, out, { parseSpecial, barriers: own })
        followsToken = false
      }
    }
    if (addSpecialTokens) for (const id of parts.suffixIds) out.push(id)
    return out
  }

  return {
    vocabularySize: idToToken.length,
    dropsLeadingSpace: parts.dropsLeadingSpace,
    notes: parts.notes ?? [],
    specialTokens: addedTokens.filter((token) => token.isSpecial).map((token) => token.content),
    encode(text, options = {}) {
      const { maxTokens = Number.POSITIVE_INFINITY } = options
      const enough = (maxTokens + 1) * longestToken * NORMALIZATION_FACTOR
      if (text.length > enough) {
        const tokenIds = encodeWhole(text.slice(0, enough), options)
        // Not so only where a control token swallows white space without bound.
        if (tokenIds.length > maxTokens) return tokenIds.slice(0, maxTokens + 1)
      }
      return encodeWhole(text, options)
    },
    decode(tokenIds, { skipSpecialTokens = false } = {}) {
      const decoder = new TextDecoder('utf-8', { ignoreBOM: true })
      let text = ''
      for (const id of tokenIds) {
        if (skipSpecialTokens && specialIds.has(id)) continue
        text += decoder.decode(tokenBytes(id), { stream: true })
      }
      text += decoder.decode()
      return parts.dropsLeadingSpace && text.startsWith(' ') ? text.slice(1) : text
    },
    tokenBytes,
    isSpecial: (id) => specialIds.has(id),
    tokenToId: (token) => parts.tokenToId.get(token) ?? null,
    idToToken: (id) => idToToken[id] ?? null,
  }
}

/** Replaces lone surrogates, which have no UTF-8 form. */
function wellFormed(text: string): string {
  return /\p{Surrogate}/u.test(text) ? text.replace(/\p{Surrogate}/gu, '\ufffd') : text
}
