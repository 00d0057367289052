/** JSON whose numbers keep their text: what is kept, what stays a plain number, and that text comes out as it went in. */
import { describe, expect, test } from 'vitest'
import { parseExact, parseExactRow, stringifyExact } from '#base/json/exact-json.js'
import { isExactNumber, readNumber, textOfNumber, valueOfNumber } from '#base/json/exact-number.js'
import { isJsonObject, type JsonValue } from '#base/util/json.js'
import { createRng } from '#base/util/rng.js'
import { randomJson } from '../../../support/model/random-json.js'

test.each(['5.0', '1e2', '-0.0', '1E22', '2512292042121000001', '-9007199254740993', '1e400'])(
  '%s keeps its text',
  (text) => {
    const number = readNumber(text)
    if (!isExactNumber(number)) throw new Error('is a plain number')
    expect([textOfNumber(number), valueOfNumber(number)]).toEqual([text, Number(text)])
    expect(isJsonObject(number)).toBe(false)
    expect(stringifyExact({ a: [number] })).toBe(`{"a":[${text}]}`)
  },
)

test.each(['5', '-0', '0.5', '1e-7', '9007199254740991', '-1.25E-3'])('%s is a plain number', (text) => {
  expect(readNumber(text)).toBe(Number(text))
})

test('any JSON says the same as before, and is written as it was', () => {
  const rng = createRng(26)
  for (let round = 0; round < 500; round++) {
    const text = randomJson(rng, { isSpaced: round % 2 === 0 })
    const value = parseExact(text)
    expect(plain(value), text).toEqual(JSON.parse(text))
    if (round % 2 === 1) expect(stringifyExact(value)).toBe(text)
    // what passes through threads and storage
    expect(JSON.parse(JSON.stringify(structuredClone(value)))).toEqual(value)
  }
})

function plain(value: JsonValue): JsonValue {
  if (isExactNumber(value)) return valueOfNumber(value)
  if (Array.isArray(value)) return value.map(plain)
  if (typeof value !== 'object' || value === null) return value
  return Object.fromEntries(Object.entries(value).map(([key, item]) => [key, plain(item)]))
}

describe('rows', () => {
  test('are exact where prompts are made of them, and nowhere else', () => {
    const row = parseExactRow(
      '{"reward": 1.0, "logprobs": [-0.0, 2.0], "messages": [{"content": "\\"tools\\": [1.0]", "weight": 1.0, ' +
        '"tool_calls": [{"function": {"arguments": {"p": 5.0}}}]}], "tools" : [{"maximum": 9223372036854775807}], "schema": 1.0}',
    )
    expect(row).toMatchObject({ reward: 1, logprobs: [-0, 2], schema: 1, messages: [{ weight: 1 }] })
    expect(stringifyExact(row)).toContain('"arguments":{"p":5.0}')
    expect(stringifyExact(row)).toContain('"tools":[{"maximum":9223372036854775807}]')
  })

  test('without such a number, or without such a field, are plain', () => {
    for (const text of ['{"tools":[{"a":"5.0 \\" 1e2"}],"b":1.0}', '[5.0]', '5.0', '{"tools":5.0}']) {
      expect(parseExactRow(text)).toEqual(JSON.parse(text))
    }
  })
})

test.each([
  '{"a": 5.0',
  '{"a": 05.0}',
  '[1.0.0]',
  '5.0x',
  '[5.0 5.0]',
  '{5.0: 1}',
  '"5.0',
  '{"\\u0000number\\u0000": "1"}',
])('%s is refused', (text) => {
  expect(() => parseExact(text)).toThrow(SyntaxError)
  expect(() => parseExactRow(`{"tools": [${text}]}`)).toThrow(SyntaxError)
})
