/**
 * The limit on regular expressions that come with a model: of processor time, which a busy machine does not use up.
 */
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { sparkDirectory } from '#model/built-in/spark.js'
import { isKnownPattern, limitSplitter } from '#model/text/vocabulary/foreign-patterns.js'
import { splitIsolated } from '#model/text/vocabulary/pre-tokenizer.js'
import { expectCode } from '../../../support/expect-code.js'

const TEXT = 'some words of a text'
const LIMIT_MS = 200

test('a pattern that comes to no end is left', async () => {
  const split = limitSplitter(splitIsolated(/(?:(?:a+)+)+$|[^a]+/gu), LIMIT_MS)
  await expectCode(() => split(`${'a'.repeat(60)}b`, () => undefined), 'pattern_too_slow', '61 characters')
})

test('one that the machine kept waiting is tried again', () => {
  const cell = new Int32Array(new SharedArrayBuffer(4))
  let calls = 0
  const split = limitSplitter((piece, emit) => {
    // longer than the limit, without any work
    if (++calls < 3) Atomics.wait(cell, 0, 0, 5 * LIMIT_MS)
    for (const word of piece.split(' ')) emit(word)
  }, LIMIT_MS)
  const words: string[] = []
  split(TEXT, (word) => words.push(word))
  expect(words).toEqual(TEXT.split(' '))
  expect(calls).toBeGreaterThan(1)
})

test("the built-in model's pattern is known to end", () => {
  const { pre_tokenizer } = JSON.parse(readFileSync(join(sparkDirectory(), 'tokenizer.json'), 'utf8'))
  expect(isKnownPattern(pre_tokenizer.pretokenizers[0].pattern.Regex)).toBe(true)
  expect(isKnownPattern('(?:(?:a+)+)+$')).toBe(false)
})
