/** Tokenizers from GGUF tables small enough to check by hand, and tables that are wrong. */
import { describe, expect, test } from 'vitest'
import { createGgufTokenizer } from '#model/text/gguf-tokenizer.js'
import { createStreamDecoder } from '#model/text/stream-decoder.js'
import { byteToCharacter } from '#model/text/vocabulary/byte-level.js'

const bytes = Array.from({ length: 256 }, (_, b) => `<0x${b.toString(16).toUpperCase().padStart(2, '0')}>`)

/** SentencePiece style: `he` merges before `▁t`, which merges before `the`, so `▁the` comes of `▁t` and `he`. */
function scoredTables(changes: readonly (readonly [string, unknown])[] = []): Map<string, unknown> {
  const words: readonly (readonly [string, number])[] = [
    ['▁', -10],
    ['t', -11],
    ['h', -12],
    ['e', -13],
    ['he', -2],
    ['▁t', -3],
    ['the', -4],
    ['▁the', -1],
    ['a', -14],
  ]
  const tokens = ['<unk>', '<s>', '</s>', ...bytes, ...words.map(([word]) => word), '<tool>', '<|im_end|>']
  const types = [2, 3, 3, ...bytes.map(() => 6), ...words.map(() => 1), 4, 4]
  const scores = [0, 0, 0, ...bytes.map(() => 0), ...words.map(([, score]) => score), 0, 0]
  return new Map<string, unknown>([
    ['tokenizer.ggml.model', 'llama'],
    ['tokenizer.ggml.tokens', tokens],
    ['tokenizer.ggml.token_type', types],
    ['tokenizer.ggml.scores', scores],
    ['tokenizer.ggml.bos_token_id', 1],
    ['tokenizer.ggml.eos_token_id', 2],
    ...changes,
  ])
}

function bpeTables(changes: readonly (readonly [string, unknown])[] = []): Map<string, unknown> {
  return new Map<string, unknown>([
    ['tokenizer.ggml.model', 'gpt2'],
    ['tokenizer.ggml.pre', 'gpt-2'],
    ['tokenizer.ggml.tokens', [...byteToCharacter, 'th', 'the', 'Ġthe', '<|endoftext|>']],
    ['tokenizer.ggml.token_type', [...Array(259).fill(1), 3]],
    ['tokenizer.ggml.merges', ['t h', 'th e', 'Ġ the', 'no such']],
    ['tokenizer.ggml.eos_token_id', 259],
    ...changes,
  ])
}

describe('SentencePiece tables', () => {
  const { tokenizer, bosTokenId, eosTokenIds } = createGgufTokenizer(scoredTables())
  const spellings = (text: string, options = {}): (string | null)[] =>
    tokenizer.encode(text, options).map((id) => tokenizer.idToToken(id))

  test('the best score merges first; a space is put in front', () => {
    expect(spellings('the')).toEqual(['▁the'])
    expect(spellings('he')).toEqual(['▁', 'he'])
    expect(spellings('athe')).toEqual(['▁', 'a', 'the'])
    expect(spellings('at the')).toEqual(['▁', 'a', 't', '▁the'])
  })

  test('unknown characters become their bytes and come back', () => {
    expect(spellings('aä')).toEqual(['▁', 'a', '<0xC3>', '<0xA4>'])
    for (const text of ['aä€😀', ' the  the ', '\n', '▁']) {
      expect(tokenizer.decode(tokenizer.encode(text))).toBe(text.replaceAll('▁', ' '))
    }
  })

  test('text after a control token gets a space, text in the middle does not', () => {
    expect(spellings('he</s>he', { parseSpecial: true })).toEqual(['▁', 'he', '</s>', '▁', 'he'])
    expect(spellings('he', { after: tokenizer.tokenToId('a') ?? -1 })).toEqual(['he'])
    expect(spellings('he', { after: 2 })).toEqual(['▁', 'he'])
  })

  test('BOS is added on request; user-defined tokens are always found, control-looking ones are control tokens', () => {
    expect(spellings('a', { addSpecialTokens: true })).toEqual(['<s>', '▁', 'a'])
    expect(spellings('<tool>')).toEqual(['<tool>'])
    expect(spellings('<|im_end|>')).not.toContain('<|im_end|>')
    expect(tokenizer.specialTokens).toContain('<|im_end|>')
    expect(bosTokenId).toBe(1)
    expect(eosTokenIds).toEqual([2, tokenizer.tokenToId('<|im_end|>')])
  })

  test('a stream drops the leading space once, and not when it continues a text', () => {
    const ids = tokenizer.encode('the  he ä')
    const decoder = createStreamDecoder(tokenizer)
    expect(ids.map((id) => decoder.push(id)).join('') + decoder.flush()).toBe('the  he ä')
    const middle = createStreamDecoder(tokenizer, { isContinuation: true })
    expect(ids.map((id) => middle.push(id)).join('')).toBe(' the  he ä')
  })

  test('without add_space_prefix nothing is put in front or dropped', () => {
    const { tokenizer: plain } = createGgufTokenizer(scoredTables([['tokenizer.ggml.add_space_prefix', false]]))
    expect(plain.encode('he').map((id) => plain.idToToken(id))).toEqual(['he'])
    expect(plain.decode(plain.encode(' he'))).toBe(' he')
  })
})

describe('byte-level tables', () => {
  test('merges apply, those of unknown tokens are left out', () => {
    const { tokenizer } = createGgufTokenizer(bpeTables())
    expect(
      tokenizer
        .encode('the the no such')
        .map((id) => tokenizer.idToToken(id))
        .slice(0, 2),
    ).toEqual(['the', 'Ġthe'])
    expect(tokenizer.decode(tokenizer.encode('ä the 😀'))).toBe('ä the 😀')
  })
})

describe('tables that are wrong', () => {
  test.each<[string, Map<string, unknown>, string]>([
    ['no tokenizer', new Map(), 'tokenizer_not_found'],
    ['an unknown kind', bpeTables([['tokenizer.ggml.model', 'rwkv']]), 'unsupported_tokenizer'],
    ['an unknown pre-tokenizer', bpeTables([['tokenizer.ggml.pre', 'constructor']]), 'unsupported_tokenizer'],
    ['tokens that are no list', bpeTables([['tokenizer.ggml.tokens', 'x']]), 'invalid_tokenizer_file'],
    ['tokens that are no strings', bpeTables([['tokenizer.ggml.tokens', ['a', 1]]]), 'invalid_tokenizer_file'],
    ['too few types', bpeTables([['tokenizer.ggml.token_type', [1]]]), 'invalid_tokenizer_file'],
    ['no merges', bpeTables([['tokenizer.ggml.merges', null]]), 'invalid_tokenizer_file'],
    ['no scores', scoredTables([['tokenizer.ggml.scores', [1]]]), 'invalid_tokenizer_file'],
  ])('%s', (_name, metadata, code) => {
    expect(() => createGgufTokenizer(metadata)).toThrow(expect.objectContaining({ code }))
  })

  test('ids out of the vocabulary are no BOS or EOS', () => {
    const wild = [
      ['tokenizer.ggml.eos_token_id', 9e9],
      ['tokenizer.ggml.bos_token_id', -1],
    ] as const
    expect(createGgufTokenizer(bpeTables(wild))).toMatchObject({ bosTokenId: null, eosTokenIds: [259] })
  })
})
