/** Results of tools: JSON of at most 20,000 bytes whatever they hold, whole where they fit, and else saying what was left out. */
import { expect, test } from 'vitest'
import type { JsonValue } from '#base/util/json.js'
import { bounded, MOST_BYTES } from '#plugins/mcp/bounded.js'

const HINT = 'ask for less'
const shown = (value: JsonValue) => {
  const text = bounded(value, HINT)
  expect(Buffer.byteLength(text)).toBeLessThanOrEqual(MOST_BYTES)
  return JSON.parse(text) as Record<string, JsonValue>
}

test('what fits is as it was', () => {
  const value = { data: [1, 'two', { three: [null, true] }] }
  expect(shown(value)).toEqual(value)
  expect(shown('x'.repeat(MOST_BYTES - 2))).toBe('x'.repeat(MOST_BYTES - 2))
})

test.each([
  [
    'a long list',
    { data: Array.from({ length: 5000 }, (_, id) => ({ id, name: `model ${id}` })) },
    /data: \d+ of 5000 items/,
  ],
  ['a long text', { text: 'ü'.repeat(100_000) }, /text: \d+ of 100000 characters/],
  ['long texts in lists', { rows: Array.from({ length: 300 }, () => ['😀'.repeat(2000)]) }, /rows: \d+ of 300 items/],
  ['a list as a whole', Array.from({ length: 9000 }, () => 'word'), /: \d+ of 9000 items/],
  ['signs that JSON escapes', { text: '\u0001"\\'.repeat(50_000) }, /characters/],
])('%s is cut, and said', (_, value, note) => {
  const { left_out: notes, next } = shown(value as JsonValue)
  expect(
    (notes as string[]).some((each) => note.test(each)),
    JSON.stringify(notes),
  ).toBe(true)
  expect(next).toBe(HINT)
})

test('an object of a hundred thousand names shows its beginning', () => {
  const value = Object.fromEntries(Array.from({ length: 100_000 }, (_, i) => [`name ${i}`, i]))
  expect(shown(value)['result_begins']).toMatch(/^\{"name 0":0,/)
})

test('more places than notes are counted', () => {
  const value = { lists: Array.from({ length: 3 }, () => Array.from({ length: 40 }, () => 'x'.repeat(3000))) }
  const { left_out: notes } = shown(value)
  expect((notes as string[]).length).toBeLessThanOrEqual(13)
  expect((notes as string[]).at(-1)).toMatch(/more places$/)
})
