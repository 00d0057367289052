/** Which way metrics are better, by their names. */
import { expect, test } from 'vitest'
import { isLowerBetter } from '#contract/jobs/best-metric.js'

test.each([
  ['val/loss', true],
  ['loss/train', true],
  ['val/exception_rate', true],
  ['val/word_error_rate', true],
  ['val/perplexity', true],
  ['loss/kl_div', true],
  ['val/reward', false],
  ['rewards/accuracies', false],
  ['val/solved', false],
])('%s: the lowest is the best: %s', (metric, isLower) => {
  expect(isLowerBetter(metric)).toBe(isLower)
})
