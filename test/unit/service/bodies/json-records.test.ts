/**
 * Objects of a list that look like the one before are read in one go: to the same values, under the same limits and with the same
 * complaints as all others.
 */
import { describe, expect, it } from 'vitest'
import { createRng } from '#base/util/rng.js'
import { createJsonReader, type JsonInput, type JsonReaderOptions } from '#service/bodies/json-reader.js'

function read(text: string, options: JsonReaderOptions = {}, chunkBytes = 1 << 20): JsonInput {
  const bytes = new TextEncoder().encode(text)
  const reader = createJsonReader(options)
  for (let i = 0; i < bytes.length; i += chunkBytes) reader.push(bytes.subarray(i, i + chunkBytes))
  return reader.finish()
}

/** Deep enough for the fast way, which objects outside of others do not take. */
const nest = (entries: string) => `{"a":{"content":[${entries}]}}`
const ENTRY = '{"token":"token_id:5","logprob":-0.25,"bytes":[65,66],"top_logprobs":[]}'
const MUTANTS = [
  ENTRY,
  '{"token":"x","logprob":-0.7407360000000001,"bytes":null,"top_logprobs":[]}',
  '{"token":"","logprob":1e-7,"bytes":[],"top_logprobs":[]}',
  '{"token": "t", "logprob": -3, "bytes": [1, 2], "top_logprobs": []}',
  '{ "token":"t","logprob":-3,"bytes":[1,2],"top_logprobs":[]}',
  '{"token":"t","logprob":-3,"bytes":[1 ,2],"top_logprobs":[]}',
  '{"token":"t" ,"logprob":-3,"bytes":[1,2],"top_logprobs":[] }',
  '{"token":"日本","logprob":-3,"bytes":[1,2],"top_logprobs":[]}',
  '{"token":"a\\"b","logprob":-3,"bytes":[1,2],"top_logprobs":[]}',
  '{"token":"t","logprob":-0,"bytes":[1.5,-2e3],"top_logprobs":[{"token":"u","logprob":-1}]}',
  '{"token":"t","logprob":true,"bytes":["a"],"top_logprobs":[[]]}',
  '{"logprob":-3,"token":"t","bytes":[1,2],"top_logprobs":[]}',
  '{"token":"t","logprob":-3,"bytes":[1,2]}',
  '{"token":"t","logprob":-3,"bytes":[1,2],"top_logprobs":[],"more":1}',
  '{"token":12345678901234567890,"logprob":null,"bytes":false,"top_logprobs":{}}',
  '{}',
  '[]',
  '7',
]

describe('records', () => {
  it('are what JSON.parse makes of them, whatever stands between them and however they are cut', () => {
    const rng = createRng('records')
    for (let round = 0; round < 150; round += 1) {
      const entries = Array.from({ length: 8 }, () =>
        rng.uniform() < 0.5 ? ENTRY : (MUTANTS[rng.integer(MUTANTS.length)] as string),
      )
      const text = nest(entries.join(rng.uniform() < 0.5 ? ',' : ', '))
      for (const size of [1 + rng.integer(90), 1 << 20]) expect(read(text, {}, size), text).toEqual(JSON.parse(text))
    }
  })

  it.each([
    ['a bad number', '{"token":"t","logprob":-01,"bytes":[65,66],"top_logprobs":[]}', '"-01" is not a JSON value'],
    ['a number out of range', '{"token":"t","logprob":1e999,"bytes":[],"top_logprobs":[]}', 'out of range'],
    ['a missing comma', '{"token":"t""logprob":-1,"bytes":[],"top_logprobs":[]}', 'is expected'],
    ['a comma too many', '{"token":"t","logprob":-1,"bytes":[1,],"top_logprobs":[]}', 'not expected'],
    ['a key twice', '{"token":"t","logprob":-1,"bytes":[],"token":[]}', 'occurs twice'],
    ['a prototype', '{"token":"t","logprob":-1,"bytes":[],"__proto__":[]}', 'is not allowed'],
    ['a control character', '{"token":"\n","logprob":-1,"bytes":[],"top_logprobs":[]}', 'control character'],
    ['a word', '{"token":"t","logprob":nul,"bytes":[],"top_logprobs":[]}', '"nul" is not a JSON value'],
    ['a longer word', '{"token":"t","logprob":nullx,"bytes":[],"top_logprobs":[]}', '"nullx" is not a JSON value'],
    ['an end', '{"token":"t","logprob":-1', 'not expected'],
  ])('with %s are refused', (_, entry, message) => {
    expect(() => read(nest(`${ENTRY},${entry}`))).toThrow(message)
  })

  it('count as much as others', () => {
    const alike = nest(Array(50).fill(ENTRY).join(','))
    // one key has another name each time: never read at once
    const different = nest(
      Array.from({ length: 50 }, (_, i) => ENTRY.replace('token"', `t${String(i).padStart(4, '0')}"`)).join(','),
    )
    const held = [alike, different].map((text) => {
      const reader = createJsonReader()
      reader.push(new TextEncoder().encode(text.slice(0, -3)))
      return reader.heldBytes()
    })
    expect(held[0]).toBe(held[1])
    for (const [name, exact] of [
      ['maxContainers', 3 + 50 * 3],
      ['maxValues', 3 + 50 * 7],
      ['maxNestedValues', 50 * 7],
    ] as const) {
      for (const text of [alike, different]) {
        expect(() => read(text, { [name]: exact }), name).not.toThrow()
        expect(() => read(text, { [name]: exact - 1 }), name).toThrow(`more than ${exact - 1}`)
      }
    }
    for (const text of [alike, different]) {
      expect(() => read(text, { maxDepth: 5 })).not.toThrow()
      expect(() => read(text, { maxDepth: 4 })).toThrow('deeper than 4')
    }
  })
})
