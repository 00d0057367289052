/** How much a node may answer: a stream as much as was asked for, in one go never more than a process that serves all can hold. */
import { expect, test } from 'vitest'
import { answerLimits } from '#inference/remote/answer-limits.js'
import { RANDOM } from '../../../support/generation-rules.js'

const MIB = 1024 ** 2
const request = {
  id: 'r',
  promptTokenIds: [1, 2],
  adapter: null,
  cacheSalt: null,
  owner: { entity: 'e', project: null },
}

test('what is read in one go is at most 64 MiB, however much was asked for', () => {
  const large = answerLimits({ ...request, rules: { ...RANDOM, n: 128, maxTokens: 8192, topLogprobs: 20 } }, 10_000)
  expect(large.answerCharacters).toBeGreaterThan(1024 * MIB)
  expect(large).toMatchObject({ pieceCharacters: 64 * MIB, eventCharacters: 64 * MIB })
})

test('an answer in one piece has the room of a stream where that is less', () => {
  const small = answerLimits({ ...request, rules: { ...RANDOM, n: 1, maxTokens: 8, topLogprobs: 0 } }, 10_000)
  expect(small.pieceCharacters).toBe(small.answerCharacters)
  expect(small.answerCharacters).toBeLessThan(MIB)
})
