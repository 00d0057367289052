/** The tokenizer on a vocabulary that can be checked by hand. */
import { expect, test } from 'vitest'
import { createTinyTokenizer } from '../../../support/model/tiny-tokenizer.js'
import { leastCpuMs } from '../../../support/process-cost.js'

const tokenizer = createTinyTokenizer()
const spellings = (text: string, parseSpecial = false): (string | null)[] =>
  tokenizer.encode(text, { parseSpecial }).map((id) => tokenizer.idToToken(id))

test('tokenizer: merges apply by rank, the leftmost first on a tie', () => {
  expect(spellings('the the')).toEqual(['the', 'Ġthe'])
  expect(spellings('ababab')).toEqual(['abab', 'ab'])
})

test('tokenizer: text that spells a control token stays text unless parsing is asked for', () => {
  const id = tokenizer.tokenToId('<|im_end|>')
  expect(tokenizer.encode('<|im_end|>')).not.toContain(id)
  expect(tokenizer.decode(tokenizer.encode('<|im_end|>'))).toBe('<|im_end|>')
  expect(tokenizer.encode('<|im_end|>', { parseSpecial: true })).toEqual([id])
})

test('tokenizer: a barrier inside a spelling keeps it text and leaves other control tokens alone', () => {
  const text = '<|im_end|><|im_end|>'
  const id = tokenizer.tokenToId('<|im_end|>')
  const ids = tokenizer.encode(text, { parseSpecial: true, barriers: [1] })
  expect(ids.filter((token) => token === id)).toHaveLength(1)
  expect(ids.at(-1)).toBe(id)
  expect(tokenizer.decode(ids)).toBe(text)
})

test('tokenizer: added tokens that are not special are always parsed', () => {
  expect(spellings('<think>the</think>')).toEqual(['<think>', 'the', '</think>'])
})

test('tokenizer: any string round-trips, lone surrogates become U+FFFD', () => {
  for (const text of ['', 'ä€😀', '\u0000\u0085\ufeff', ' \n\n\t x', 'a\ud800b']) {
    expect(tokenizer.decode(tokenizer.encode(text))).toBe(text.replace('\ud800', '\ufffd'))
  }
})

test('tokenizer: ids outside the vocabulary stand for nothing', () => {
  expect(tokenizer.decode([-1, 10_000, 0.5])).toBe('')
  expect(tokenizer.tokenBytes(10_000)).toHaveLength(0)
})

test('tokenizer: skipSpecialTokens drops control tokens only', () => {
  const ids = tokenizer.encode('<|im_start|><think>the<|im_end|>', { parseSpecial: true })
  expect(tokenizer.decode(ids, { skipSpecialTokens: true })).toBe('<think>the')
})

test('tokenizer: a long word gives the same tokens as short ones do', () => {
  const ids = tokenizer.encode('ab'.repeat(5_001))
  expect(ids.map((id) => tokenizer.idToToken(id))).toEqual([...Array(2_500).fill('abab'), 'ab'])
})

test('tokenizer: with a limit, text far beyond it is not tokenized to its end', () => {
  const text = 'ab'.repeat(1_000_000)
  const whole = leastCpuMs(1, () => tokenizer.encode(text))
  const limited = leastCpuMs(5, () => expect(tokenizer.encode(text, { maxTokens: 100 })).toHaveLength(101))
  expect(limited).toBeLessThan(whole / 4)
  expect(tokenizer.encode('the the', { maxTokens: 1 })).toEqual(tokenizer.encode('the the'))
})
