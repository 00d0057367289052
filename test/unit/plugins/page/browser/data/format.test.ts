/** Numbers, sizes and times as the page writes them. */
import { expect, test } from 'vitest'
import {
  formatAgo,
  formatBytes,
  formatNumber,
  formatSeconds,
  formatTicks,
  plural,
} from '../../../../../../src/plugins/page/browser/data/format.js'

test.each([
  [0, '0'],
  [0.85, '0.85'],
  [-0.3142, '−0.314'],
  [1.0854, '1.09'],
  [42.26, '42.3'],
  [1234.5, '1,235'],
  [2.2109e-13, '2.21e−13'],
  [0.00025, '2.5e−4'],
  [12_345_678, '1.23e7'],
  [null, '–'],
  [Number.NaN, 'NaN'],
  [-Infinity, '−∞'],
])('%s is %s', (value, text) => {
  expect(formatNumber(value)).toBe(text)
})

test.each([
  [
    [0, 0.5, 1],
    ['0', '0.5', '1'],
  ],
  [
    [4.1862, 4.1864, 4.1866],
    ['4.1862', '4.1864', '4.1866'],
  ],
  [
    [-1.001, -1.0005, -1],
    ['−1.001', '−1.0005', '−1'],
  ],
  [
    [1e-9, 2e-9, null],
    ['1e−9', '2e−9', ''],
  ],
])('beside an axis %j are %j', (values, labels) => expect(formatTicks(values)).toEqual(labels))

test.each([
  [999, '999 B'],
  [2_176_557, '2.2 MB'],
  [22_794_141_696, '22.8 GB'],
])('%i bytes are %s', (bytes, text) => expect(formatBytes(bytes)).toBe(text))

test.each([
  [0.011, '11 ms'],
  [0.5, '0.5 s'],
  [59, '59 s'],
  [600, '10 min'],
  [9000, '2.5 h'],
  [300_000, '3 days'],
])('%s seconds are %s', (seconds, text) => expect(formatSeconds(seconds)).toBe(text))

test('a time that is none is no time', () => {
  expect(formatAgo('nonsense', 0)).toBe('–')
  expect(formatAgo(new Date(0).toISOString(), 120_000)).toBe('2 min ago')
  expect(plural(1, 'step')).toBe('1 step')
  expect(plural(2, 'loss')).toBe('2 losses')
})
