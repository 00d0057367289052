/**
 * The streaming JSON reader: equal to JSON.parse on valid text whatever the chunks, and strict: no duplicate or prototype
 * keys, bounded depth and size.
 */
import { describe, expect, it } from 'vitest'
import { parseExactRow, stringifyExact } from '#base/json/exact-json.js'
import type { JsonValue } from '#base/util/json.js'
import { createRng } from '#base/util/rng.js'
import { createJsonReader, type JsonInput, type JsonReaderOptions } from '#service/bodies/json-reader.js'

function read(text: string | Uint8Array, options: JsonReaderOptions = {}, chunkBytes = 1 << 20): JsonInput {
  const bytes = typeof text === 'string' ? new TextEncoder().encode(text) : text
  const reader = createJsonReader(options)
  for (let i = 0; i < bytes.length; i += chunkBytes) reader.push(bytes.subarray(i, i + chunkBytes))
  return reader.finish()
}

const TEXTS = [
  '{}',
  '[]',
  'null',
  ' "x" ',
  '12',
  '-0.5e-3',
  '{"a":[1,2,{"b":null}],"c":"\\u00e9\\n\\"","d":true,"é":"日本\u{1F600}"}',
  '[0,10,123456789012345,-7,1.0,false]',
  '"\\ud83d\\ude00"',
  '{"a":"","":0}',
]

describe('JSON reader', () => {
  it.each(TEXTS)('reads %s as JSON.parse does, in chunks of any size', (text) => {
    for (const size of [1, 2, 3, 5, 1000]) expect(read(text, {}, size)).toEqual(JSON.parse(text))
  })

  it.each([
    ['{"a":[0,{"b":"x\\ud83d"}]}', 'a[1].b'],
    ['{"a":["\\ude00\\ud83d"]}', 'a[0]'],
    ['{"a":{"\\ud83d":1}}', 'a'],
  ])('half of a surrogate pair in %s is refused as %s, where it is to be', (text, param) => {
    for (const size of [1, 1000]) {
      expect(() => read(text, { refusesHalves: true }, size)).toThrow(
        expect.objectContaining({ code: 'invalid_value', param }),
      )
      expect(read(text, {}, size)).toEqual(JSON.parse(text))
    }
    const whole = '{"a":["\\ud83d\\ude00","\\\\ud83d"],"\\ud83d":1}'
    expect(read(whole, { refusesHalves: true }, 3)).toEqual(JSON.parse(whole))
  })

  it('reads random documents as JSON.parse does', () => {
    const rng = createRng('json')
    const random = (depth: number): unknown => {
      const kind = rng.integer(depth > 4 ? 4 : 6)
      if (kind === 0) return rng.integer(2 ** 40) - 2 ** 39
      if (kind === 1) return rng.normal()
      if (kind === 2) return ['a"b', '\\', 'ü\u0007', '\u{1F680}', 'plain'][rng.integer(5)]
      if (kind === 3) return [true, false, null][rng.integer(3)]
      if (kind === 4) return Array.from({ length: rng.integer(5) }, () => random(depth + 1))
      return Object.fromEntries(Array.from({ length: rng.integer(5) }, (_, i) => [`k${i}`, random(depth + 1)]))
    }
    for (let i = 0; i < 200; i += 1) {
      const text = JSON.stringify(random(0))
      expect(read(text, {}, 1 + rng.integer(40)), text).toEqual(JSON.parse(text))
    }
  })

  it.each([
    ['', 'ends inside'],
    ['{', 'ends inside'],
    ['{"a"}', '":" is expected|not expected'],
    ['{"a":1,}', 'not expected'],
    ['[1,]', 'not expected'],
    ['[1 2]', '"," or the end'],
    ['{"a":1}{', 'follows'],
    ['nul', 'not a JSON value'],
    ['NaN', 'value is expected'],
    ['Infinity', 'value is expected'],
    ['[1e999]', 'out of range'],
    ['01', 'not a JSON value'],
    ['"\\x"', 'escape'],
    ['"a\nb"', 'control character'],
    ["{'a':1}", 'a key is expected'],
    ['{"a":1,"a":2}', 'twice'],
    ['{"__proto__":{"x":1}}', 'not allowed'],
    ['{"a":{"__proto__":1}}', 'not allowed'],
    ['\ufeff{}', 'value is expected'],
    [']', 'not expected'],
    ['[}', 'not expected'],
  ])('refuses %s', (text, message) => {
    for (const size of [1, 1000]) expect(() => read(text, {}, size)).toThrow(new RegExp(message))
  })

  it.each([
    ['[1, 1e999]', 4],
    ['{"a":-Infinity}', 5],
    ['[true, nul]', 7],
    ['[ "x\\y"]', 6],
    ['  12x', 2],
  ])('says where %s is wrong, in chunks of any size', (text, byte) => {
    for (const size of [1, 2, 3, 1000]) expect(() => read(text, {}, size)).toThrow(`at byte ${byte}:`)
  })

  it('refuses invalid UTF-8 inside a string', () => {
    expect(() => read(new Uint8Array([0x22, 0xc3, 0x28, 0x22]))).toThrow(/UTF-8/)
    expect(() => read(new Uint8Array([0x22, 0xed, 0xa0, 0x80, 0x22]))).toThrow(/UTF-8/)
  })

  it('bounds nesting and the number of containers', () => {
    expect(() => read('['.repeat(101))).toThrow(/deeper than 100/)
    expect(read('['.repeat(100) + ']'.repeat(100))).toBeDefined()
    expect(() => read(`[${'[],'.repeat(50)}[]]`, { maxContainers: 50 })).toThrow(/more than 50/)
  })

  it('bounds values and strings, and counts anew for each streamed element', () => {
    expect(() => read('[1,2,3,4]', { maxValues: 3 })).toThrow(/more than 3 values/)
    expect(() => read(`"${'x'.repeat(100)}"`, { maxStringBytes: 50 }, 10)).toThrow(/longer than 50 bytes/)
    const elements = { key: 'items', onElement: () => undefined }
    expect(read('{"items":[[1,2],[1,2],[1,2]]}', { maxValues: 3, maxContainers: 3, elements })).toEqual({ items: [] })
  })

  it('bounds keys of one object, and values deeper than the elements of a list', () => {
    expect(() => read('{"a":1,"b":2,"c":3}', { maxKeys: 2 })).toThrow(/more than 2 keys in one object/)
    expect(read('{"a":[1,2,3],"b":[{"x":1}]}', { maxKeys: 2, maxNestedValues: 1 })).toBeDefined()
    expect(() => read('{"b":[{"x":1},{"x":2}]}', { maxNestedValues: 1 })).toThrow(/more than 1 nested values/)
  })

  it('bounds different keys of all objects, and counts anew for each streamed element', () => {
    expect(() => read('[{"a":1},{"b":2},{"c":3}]', { maxNames: 2 })).toThrow('the body has more than 2 different keys')
    expect(read('[[[{"a":1},{"a":2,"b":3},{"b":4,"a":5}]]]', { maxNames: 2 })).toBeDefined()
    const elements = { key: 'items', onElement: () => undefined }
    const items = (first: string): string => `{"items":[{${first}},{"x":1,"y":2}]}`
    expect(read(items('"a":1,"b":2'), { maxNames: 3, elements })).toEqual({ items: [] })
    expect(() => read(items('"a":1,"b":2,"c":3'), { maxNames: 3, elements })).toThrow(
      'items[0] has more than 3 different',
    )
  })

  it('bounds one streamed element, and says which one is too large', () => {
    const elements = { key: 'items', onElement: () => undefined }
    const text = `{"items":[{"a":"${'x'.repeat(40)}"},{"a":"${'x'.repeat(90)}"}]}`
    for (const size of [1, 7, 1000]) {
      expect(() => read(text, { maxElementBytes: 60, elements }, size)).toThrow('items[1] is larger than 60 bytes')
      expect(read(text, { maxElementBytes: 120, elements }, size)).toEqual({ items: [] })
    }
  })

  it('says how much memory it holds, less after each streamed element', () => {
    const reader = createJsonReader({ elements: { key: 'items', onElement: () => undefined } })
    reader.push(new TextEncoder().encode(`{"items":[{"a":"${'x'.repeat(500)}",`))
    expect(reader.heldBytes()).toBeGreaterThan(500)
    reader.push(new TextEncoder().encode('"b":1}'))
    expect(reader.heldBytes()).toBeLessThan(100)
  })

  it('reads every number as JSON.parse does, short ones on their fast path too', () => {
    let state = 12345
    const random = (below: number) => {
      state = (Math.imul(state, 1103515245) + 12345) & 0x7fffffff
      return state % below
    }
    for (let i = 0; i < 20_000; i += 1) {
      const digits = (length: number) => Array.from({ length }, () => random(10)).join('')
      const whole = random(3) === 0 ? '0' : `${1 + random(9)}${digits(random(12))}`
      const fraction = random(2) === 0 ? '' : `.${digits(1 + random(18))}`
      const text = `${random(2) === 0 ? '-' : ''}${whole}${fraction}`
      expect(Object.is((read(`[${text}]`, {}, 64) as number[])[0], JSON.parse(text)), text).toBe(true)
    }
    for (const text of ['01', '-', '-01', '.5', '1.', '-.1', '1.2.3', '--1', '1e', '00.1', '+1']) {
      expect(() => read(`[${text}]`, {}, 64), text).toThrow('the body is not valid JSON')
    }
  })

  it('hands over the text of an element as it was sent, however it is cut into chunks', () => {
    const items = ['{"a" : [1, 2.50]}', '[ "x\\u00e9", {} ]', '{"b":"é"}', '{}']
    for (const size of [1, 2, 3, 7, 1000]) {
      const seen: string[] = []
      const onElement = (_: JsonInput, __: number, text: Uint8Array | null) => {
        seen.push(text === null ? 'none' : Buffer.from(text).toString('utf8'))
      }
      read(`{"items":[${items.join(' , ')}, 7]}`, { elements: { key: 'items', onElement } }, size)
      expect(seen, `chunks of ${size}`).toEqual([...items, 'none'])
    }
  })

  it('keeps the digits of big integers where asked, and only at the top level', () => {
    const text = '{"seed":9223372036854775807,"x":{"seed":9223372036854775807},"n":3}'
    expect(read(text, { int64Fields: ['seed'] }, 4)).toEqual({
      seed: 9223372036854775807n,
      x: { seed: Number('9223372036854775807') },
      n: 3,
    })
  })

  it('hands over the elements of one top-level array and keeps the rest', () => {
    const seen: [JsonInput, number][] = []
    const value = read(
      '{"a":{"items":[9]},"items":[{"x":1},[2],3],"z":1}',
      { elements: { key: 'items', onElement: (element, index) => seen.push([element, index]) } },
      3,
    )
    expect(value).toEqual({ a: { items: [9] }, items: [], z: 1 })
    expect(seen).toEqual([
      [{ x: 1 }, 0],
      [[2], 1],
      [3, 2],
    ])
  })
})

describe('numbers of prompts and grammars', () => {
  const TEXT =
    '{"temperature": 1.0, "seed": 5.0, "messages": [{"content": [{"text": "x", "n": 1.0}], "tool_calls": [{"a": [{"p": 5.0}, {"p": 1e2}]}]}], ' +
    '"tools": [{"maximum": 9223372036854775807, "minimum": 0, "x": 0.5}], "logprobs": [{"l": -0.0}, {"l": -0.0}]}'

  it('keep their text, wherever the text is cut; all others are plain', () => {
    for (const size of [1, 3, 17, TEXT.length]) {
      const reader = createJsonReader({ keepsNumbers: true })
      for (let at = 0; at < TEXT.length; at += size) reader.push(Buffer.from(TEXT.slice(at, at + size)))
      const value = reader.finish() as JsonValue
      expect(value).toEqual(parseExactRow(TEXT))
      expect(stringifyExact(value)).toContain('"tools":[{"maximum":9223372036854775807,"minimum":0,"x":0.5}]')
      expect(stringifyExact(value)).toContain('"tool_calls":[{"a":[{"p":5.0},{"p":1e2}]}]')
      expect(value).toMatchObject({ temperature: 1, seed: 5, logprobs: [{ l: -0 }, { l: -0 }] })
    }
  })

  it('are plain where nobody asked', () => {
    const reader = createJsonReader()
    reader.push(Buffer.from(TEXT))
    expect(reader.finish()).toEqual(JSON.parse(TEXT))
  })

  it('the key that stands for them cannot be sent', () => {
    const reader = createJsonReader({ keepsNumbers: true })
    expect(() => reader.push(Buffer.from('{"tools": [{"\\u0000number\\u0000": "1"}]}'))).toThrow('is not allowed')
  })
})
