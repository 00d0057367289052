/** What the page says of how a token was drawn, and that numbers of two distributions are never subtracted from each other. */
import { expect, it } from 'vitest'
import { drawnOf, numberOf } from '../../../../../../src/plugins/page/browser/data/token-colour.js'

const tokens = {
  learner_logprob: [-1, -1, -1, null],
  temperature: [null, 0.5, null, null],
  kept: [null, null, 3, null],
}

it('says at which temperature and among how many tokens', () => {
  expect([0, 1, 2, 3].map((i) => drawnOf(tokens, i))).toEqual([
    null,
    'temperature 0.5',
    'temperature 1, 3 tokens',
    null,
  ])
  expect(drawnOf({ temperature: [0.7000000476837158], kept: [1] }, 0)).toBe('temperature 0.7, no other token')
  // as older servers answer
  expect(drawnOf({}, 0)).toBeNull()
})

it('has no change where another checkpoint was asked for other numbers', () => {
  const change = (i: number) => numberOf(tokens as never, i, 'change', -3)
  expect([0, 1, 2, 3].map(change)).toEqual([-2, null, null, null])
})
