/**
 * A byte-level BPE vocabulary small enough to read: 256 bytes, a few merges, ChatML control tokens and `<think>` tags
 * as added tokens that are not special.
 */

import type { JsonValue } from '#base/util/json.js'
import { createChatTemplate } from '#model/text/chat-template.js'
import { createHuggingFaceTokenizer } from '#model/text/hf-tokenizer.js'
import type { TextModel } from '#model/text/text-model.js'
import type { Tokenizer } from '#model/text/tokenizer.js'
import { byteToCharacter } from '#model/text/vocabulary/byte-level.js'

const merges: readonly (readonly [string, string])[] = [
  ['t', 'h'],
  ['th', 'e'],
  ['Ġ', 'the'],
  ['a', 'b'],
  ['ab', 'ab'],
  ['Ċ', 'Ċ'],
]

export const tinyControlTokens = ['<|endoftext|>', '<|im_start|>', '<|im_end|>'] as const

/** @param more further control tokens, numbered after the others */
export function tinyTokenizerJson(more: readonly string[] = []): JsonValue {
  const tokens = [...byteToCharacter, ...merges.map(([left, right]) => left + right)]
  const added = [...tinyControlTokens, '<think>', '</think>', '<tool_call>', '</tool_call>', ...more]
  return {
    added_tokens: added.map((content, i) => ({
      id: tokens.length + i,
      content,
      special: [...tinyControlTokens, ...more].includes(content),
      lstrip: false,
      rstrip: false,
      single_word: false,
      normalized: false,
    })),
    normalizer: null,
    pre_tokenizer: { type: 'ByteLevel', add_prefix_space: false, trim_offsets: true, use_regex: true },
    post_processor: null,
    decoder: { type: 'ByteLevel' },
    model: {
      type: 'BPE',
      unk_token: null,
      vocab: Object.fromEntries(tokens.map((token, id) => [token, id])),
      merges: merges.map(([left, right]) => `${left} ${right}`),
    },
  }
}

export const createTinyTokenizer = (more: readonly string[] = []): Tokenizer =>
  createHuggingFaceTokenizer(tinyTokenizerJson(more))

/**
 * The tiny vocabulary with a chat template.
 *
 * @param options.controlTokens further control tokens
 * @param options.ends tokens that end a turn
 */
export function createTinyTextModel(
  template: string,
  { controlTokens = [], ends = ['<|im_end|>'] }: { controlTokens?: readonly string[]; ends?: readonly string[] } = {},
): TextModel {
  const tokenizer = createTinyTokenizer(controlTokens)
  return {
    tokenizer,
    chatTemplate: createChatTemplate(template, {
      controlTokens: tokenizer.specialTokens,
      tokenVariables: { eos_token: ends[0] ?? '', bos_token: '<|endoftext|>' },
    }),
    eosTokenIds: ends.map((token) => tokenizer.tokenToId(token) ?? -1),
    templateEndId: null,
    bosTokenId: null,
    tokenVariables: {},
  }
}
