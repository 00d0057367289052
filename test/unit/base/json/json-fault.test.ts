/** Faults of JSON: each with its place and its name, and none exactly where `JSON.parse` finds none. */
import { expect, test } from 'vitest'
import { findJsonFault } from '#base/json/json-fault.js'

test.each([
  ['{"a": NaN}', 1, 7, 'NaN is no number of JSON'],
  ['{\n "a": -Infinity}', 2, 7, '-Infinity is no number of JSON'],
  ['{"a": None}', 1, 7, 'None is null in JSON'],
  ['{"a": tru}', 1, 7, '"tru" where value is expected'],
  ['{"a": 1,\n\n}', 1, 8, 'a comma stands before }'],
  ['[1,\n2,]', 2, 2, 'a comma stands before ]'],
  ['{"a": 1\n "b": 2}', 2, 2, '"\\"" where a comma or } is expected'],
  ["{'a': 1}", 1, 2, "a text in single quotes ('), JSON has double ones"],
  ['{"a": 1} // of 2', 1, 10, 'a comment, which JSON has not'],
  ['{"a": "x\ny"}', 1, 9, 'a text holds a line break'],
  ['{"a": "\\x"}', 1, 8, 'a text holds a backslash that escapes nothing'],
  ['{"a": "x}', 1, 7, 'a text begins that does not end'],
  ['{"a": 01}', 1, 7, 'a number is malformed'],
  ['{"a": [1', 1, 9, 'the text ends inside a list'],
  ['', 1, 1, 'the text ends where a value is expected'],
  ['{} {}', 1, 4, '"{" where the end is expected'],
  ['[1}', 1, 3, '} is not expected'],
  ['{"a" \ufeff: 1}', 1, 6, 'a byte order mark stands inside the text'],
])('%j', (text, line, column, problem) => {
  expect(findJsonFault(text)).toMatchObject({ line, column, problem })
})

test('agrees with JSON.parse on texts with one character changed, left out or put in', () => {
  const text = '{"a":[1,-0.5e+3,"x\\u00e9\\n"],"b":{"c":null,"d":[true,false,{}]},"e":[]}'
  for (let i = 0; i <= text.length; i++) {
    for (const put of ['', ...' ,:"[]{}0-.e\\ntN\u0001']) {
      for (const cut of [0, 1]) {
        const changed = text.slice(0, i) + put + text.slice(i + cut)
        expect(findJsonFault(changed) === null, changed).toBe(isJson(changed))
      }
    }
  }
})

test('is cut where the text was right as far as it goes, and only there', () => {
  const text = '{"a":[1,-0.5e+3,"x\\u00e9\\n"],"b":{"c":null,"d":[true,false,{}]},"e":[]}'
  for (let end = 0; end < text.length; end++)
    expect(findJsonFault(text.slice(0, end))?.isCut, text.slice(0, end)).toBe(true)
  for (const whole of [
    '{"a": NaN}',
    '{"a": 1,}',
    "{'a': 1}",
    '{"a": True}',
    '{} {}',
    '{"a": tru}',
    '[1}',
    '{"a" "b"',
    '[01',
  ]) {
    expect(findJsonFault(whole)?.isCut, whole).toBe(false)
  }
})

function isJson(text: string): boolean {
  try {
    JSON.parse(text)
    return true
  } catch {
    return false
  }
}
