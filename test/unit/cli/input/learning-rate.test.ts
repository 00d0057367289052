/** The rate for those who gave none. */
import { expect, test } from 'vitest'
import { adviseLearningRate } from '../../../../src/cli/input/learning-rate.js'

test.each([
  ['trainyard/spark', 1e-3, /4.5 million/],
  ['my/tiny-10m', 1e-3, /10 million/],
  ['smollm2-135m', 3e-4, /135 million/],
  ['gemma-3-270m', 3e-4, /270 million/],
  ['some/model-360m', null, /5e-6 is the published default and small for a model of 360 million/],
  ['Qwen/Qwen2.5-0.5B-Instruct', null, /500 million/],
  ['Qwen/Qwen2.5-7B-Instruct', null, null],
  ['trainyard/tiny-random', null, null],
  ['m2', null, null],
])('%s', (name, rate, said) => {
  const advice = adviseLearningRate(name, 5e-6)
  expect(advice.learningRate).toBe(rate)
  if (said === null) expect(advice.said).toBeNull()
  else expect(advice.said).toMatch(said)
})

test('preferences have a rate of their own for tiny models, and no other', () => {
  expect(adviseLearningRate('trainyard/spark', 5e-6, 1e-4).learningRate).toBe(1e-4)
  expect(adviseLearningRate('smollm2-135m', 5e-6, 1e-4).learningRate).toBeNull()
})
