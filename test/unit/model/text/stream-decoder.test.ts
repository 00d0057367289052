/** Incremental detokenization against decoding everything at once. */
import { expect, test } from 'vitest'
import { createStreamDecoder } from '#model/text/stream-decoder.js'
import { createTinyTokenizer } from '../../../support/model/tiny-tokenizer.js'

const tokenizer = createTinyTokenizer()

test('stream decoder: pieces never hold half a character and join to the whole text', () => {
  const text = 'the ä€😀<think>漢字\u0301 the 👩‍👩‍👧'
  const decoder = createStreamDecoder(tokenizer)
  const pieces = tokenizer.encode(text).map((id) => decoder.push(id))
  expect(pieces.join('') + decoder.flush()).toBe(text)
  expect(pieces.filter((piece) => piece.includes('\ufffd'))).toEqual([])
  expect(pieces.every((piece) => !/\p{Surrogate}/u.test(piece))).toBe(true)
})

test('stream decoder: random tokens, invalid bytes included, give what decode gives', () => {
  let state = 12345
  const random = (n: number): number => {
    state = (Math.imul(state, 1103515245) + 12345) >>> 0
    return (state >>> 8) % n
  }
  for (let round = 0; round < 300; round++) {
    const ids = Array.from({ length: random(20) }, () => random(tokenizer.vocabularySize))
    for (const skipSpecialTokens of [false, true]) {
      const decoder = createStreamDecoder(tokenizer, { skipSpecialTokens })
      const streamed = ids.map((id) => decoder.push(id)).join('') + decoder.flush()
      expect(streamed, `ids ${ids.join(',')}`).toBe(tokenizer.decode(ids, { skipSpecialTokens }))
    }
  }
})

test('stream decoder: an unfinished character comes out as U+FFFD when flushed', () => {
  const decoder = createStreamDecoder(tokenizer)
  expect(
    tokenizer
      .encode('€')
      .slice(0, 2)
      .map((id) => decoder.push(id)),
  ).toEqual(['', ''])
  expect(decoder.flush()).toBe('\ufffd')
})
