/**
 * Strict JSON: duplicate keys are found at any depth and never where there are none.
 */
import { expect, test } from 'vitest'
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
