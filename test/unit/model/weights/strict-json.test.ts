/**
 * Strict JSON: duplicate keys are found at any depth and never where there are none.
 */
import { expect, test } from 'vitest'
import { decodeUtf8 } from '../../../../src/model/weights/byte-file.js'
import { parseStrictJsonObject } from '../../../../src/model/weights/strict-json.js'
import { expectCode } from '../../../support/expect-code.js'

test.each([
  ['{"a":1,"a":2}', 'a'],
  ['{"a":{"b":1,"b":1}}', 'b'],
  ['{"a":[{"x":1},{"y":1,"z":[1,{"q":1}],"y":2}]}', 'y'],
  ['{"a":"}{,","b":1,"a":3}', 'a'],
  ['{"\\"":1,"\\u0022":2}', '"'],
  ['{ "__proto__" : 1 , "__proto__" : 2 }', '__proto__'],
])('%s repeats a key', async (text, key) => {
  await expectCode(() => parseStrictJsonObject(text, 'file'), 'duplicate_key', `"${key}" twice`)
})

test.each([
  '{"a":"a","b":"a"}',
  '{"a":["a","a","b"],"b":{"a":{"a":{"a":1}}}}',
  '{"a":[{"a":1},{"a":1}],"c":[["a","a"]]}',
  '{"x":"\\\\","y":"\\\\\\"x\\": 1, \\"x\\""}',
  '{}',
])('%s repeats no key', (text) => {
  expect(parseStrictJsonObject(text, 'file')).toEqual(JSON.parse(text))
})

test.each(['', '{', '1', '"a"', 'null', '[{}]', '{"a":NaN}', "{'a':1}", '{"a":1,}'])(
  '%s is no object',
  async (text) => {
    await expectCode(() => parseStrictJsonObject(text, 'file'), 'invalid_json', 'file')
  },
)

test.each([
  ['{\n  "a": NaN\n}', 'file is not valid JSON: line 2, column 8: NaN is no number of JSON'],
  ['{"a":1,\n "b":2,\n}', 'line 2, column 7: a comma stands before }'],
])('%j says where and what', async (text, message) => {
  await expectCode(() => parseStrictJsonObject(text, 'file'), 'invalid_json', message)
})

test('a byte order mark is passed over in UTF-8, and named in UTF-16', async () => {
  expect(parseStrictJsonObject('\ufeff{"a":1}', 'file')).toEqual({ a: 1 })
  const utf16 = Uint8Array.from([0xff, 0xfe, 0x7b, 0, 0x7d, 0])
  await expectCode(() => decodeUtf8(utf16, 'config.json'), 'invalid_utf8', 'byte order mark of UTF-16')
})
