/**
 * How long an API key may live, as it is written on the command line.
 */
import { expect, test } from 'vitest'
import { parseLifetimeMs } from '#cli/config/parse-value.js'

test.each([
  ['720h', 30 * 86_400_000],
  ['90d', 90 * 86_400_000],
  ['3650d', 3650 * 86_400_000],
  ['30s', 30_000],
])('%s is read', (text, expected) => {
  expect(parseLifetimeMs(text)).toBe(expected)
})

test.each(['0d', '3651d', '5', 'd', '-1d', '100ms'])('%s is refused with what is expected', (text) => {
  expect(() => parseLifetimeMs(text)).toThrow('such as 30m, 12h, 720h or 90d (at most 3650d)')
})
