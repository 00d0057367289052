/**
 * The head of GGUF files: values of every type, and every way a head can lie.
 */
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, test } from 'vitest'
import { WeightsError } from '../../../../src/base/errors/errors.js'
import { MoreBytesNeeded } from '../../../../src/model/weights/gguf/cursor.js'
import { parseGguf } from '../../../../src/model/weights/gguf-metadata.js'
import { expectCode } from '../../../support/expect-code.js'
import {
  arrayValue,
  type GgufParts,
  type GgufTensorRow,
  ggufBytes,
  stringValue,
  text,
  u32,
  u64,
  uint32Value,
} from '../../../support/model/gguf-bytes.js'

const parse = (parts: GgufParts) => {
  const bytes = ggufBytes(parts)
  return parseGguf(bytes, bytes.length)
}
const row = (overrides: Partial<GgufTensorRow>): GgufTensorRow => ({
  name: 'a',
  dims: [8],
  type: 0,
  offset: 0,
  ...overrides,
})
const withTensors = (tensors: GgufTensorRow[], dataBytes = 64): GgufParts => ({
  tensors,
  data: new Uint8Array(dataBytes),
})

test('a file of the reference writer reads as it was written', () => {
  const bytes = readFileSync(join(import.meta.dirname, '../../../fixtures/gguf/tiny-llama.gguf'))
  const { version, metadata, tensors } = parseGguf(bytes, bytes.length)
  expect(version).toBe(3)
  const testKeys = [...metadata].filter(([key]) => key.startsWith('test.'))
  expect(Object.fromEntries(testKeys)).toEqual({
    'test.uint8': 255,
    'test.int8': -128,
    'test.uint16': 65535,
    'test.int16': -32768,
    'test.uint32': 4294967295,
    'test.int32': -2147483648,
    'test.float32': 0.15625,
    'test.bool': true,
    'test.string': 'grüß dich 🙂',
    'test.uint64': 2n ** 63n + 1n,
    'test.int64': -(2n ** 53n),
    'test.float64': 0.1,
    'test.array': [true, false],
    'test.nested': [[1, 2], [3]],
  })
  expect(metadata.get('tokenizer.ggml.tokens')).toHaveLength(12)
  expect((metadata.get('tokenizer.ggml.tokens') as string[])[3]).toBe('token 3 Ġü🙂')
  expect(tensors.map(({ name, type, shape }) => `${name} ${type.name} ${shape.join('x')}`)).toContain(
    'blk.0.ffn_down.weight Q4_0 32x64',
  )
})

test('version 2 and an own alignment are read', () => {
  const { version, tensors } = parse({
    version: 2,
    alignment: 64,
    keys: [['general.alignment', uint32Value(64)]],
    tensors: [row({ dims: [4, 2] }), row({ name: 'b', dims: [1], offset: 64 })],
    data: new Uint8Array(68),
  })
  expect(version).toBe(2)
  expect(tensors.map(({ offsetBytes, sizeBytes, shape }) => [offsetBytes % 64, sizeBytes, shape])).toEqual([
    [0, 32, [2, 4]],
    [0, 4, [1]],
  ])
})

test('a prefix that ends inside the head asks for more, wherever it ends', () => {
  const bytes = ggufBytes({
    keys: [
      ['text', stringValue('some text')],
      ['list', arrayValue(8, 2, Buffer.concat([text('ab'), text('cd')]))],
    ],
    tensors: [row({})],
    data: new Uint8Array(32),
  })
  const headLength = bytes.length - 64
  for (let length = 0; length < headLength; length++) {
    expect(() => parseGguf(bytes.subarray(0, length), bytes.length)).toThrow(MoreBytesNeeded)
  }
})

test('a file cut anywhere is refused as truncated', async () => {
  const bytes = ggufBytes({ keys: [['text', stringValue('some text')]], tensors: [row({})], data: new Uint8Array(32) })
  for (let length = 0; length < bytes.length; length++) {
    await expectCode(() => parseGguf(bytes.subarray(0, length), length), 'truncated_file')
  }
})

test('a file that ends inside an array never asks for more', () => {
  const bytes = ggufBytes({ keys: [['list', arrayValue(0, 40, Buffer.alloc(40))]] })
  const start = 24 + text('list').length
  for (let length = start; length < start + 4 + 12 + 40; length++) {
    expect(() => parseGguf(bytes.subarray(0, length), length)).toThrow(WeightsError)
  }
})

test('prototype names are ordinary keys', () => {
  const { metadata } = parse({ keys: [['__proto__', uint32Value(1)]] })
  expect([...metadata]).toEqual([['__proto__', 1]])
})

describe('refused', () => {
  const HUGE = 2n ** 63n
  const cases: [string, GgufParts, string, string[]][] = [
    ['another magic', { magic: 'GGML' }, 'invalid_gguf', ['"GGUF"']],
    ['version 1', { version: 1 }, 'unsupported_gguf_version', ['version 1']],
    ['version 4', { version: 4 }, 'unsupported_gguf_version', ['version 4']],
    ['big-endian', { version: 0x03000000 }, 'unsupported_gguf_version', ['big-endian']],
    ['a lying tensor count', { tensorCount: HUGE }, 'invalid_gguf', ['number of tensors']],
    ['a lying key count', { keyCount: HUGE }, 'invalid_gguf', ['number of keys']],
    ['more keys than there are', { keyCount: 2, keys: [['a', uint32Value(1)]] }, 'invalid_gguf', ['a key of 0']],
    ['the same key twice', { keys: ['a', 'a'].map((key) => [key, uint32Value(1)] as const) }, 'duplicate_key', ['"a"']],
    ['an empty key', { keys: [['', uint32Value(1)]] }, 'invalid_gguf', ['0 characters']],
    ['an unknown value type', { keys: [['a', { type: 13, bytes: u32(0) }]] }, 'invalid_gguf', ['type 13']],
    ['a boolean of 2', { keys: [['a', { type: 7, bytes: Uint8Array.of(2) }]] }, 'invalid_gguf', ['byte 2']],
    ['a string longer than the file', { keys: [['a', { type: 8, bytes: u64(1000) }]] }, 'invalid_gguf', ['1000']],
    ['a string of 2^63 bytes', { keys: [['a', { type: 8, bytes: u64(HUGE) }]] }, 'invalid_gguf', [String(HUGE)]],
    [
      'a string that is not UTF-8',
      { keys: [['a', { type: 8, bytes: Buffer.concat([u64(1), Buffer.of(0xff)]) }]] },
      'invalid_utf8',
      ['"a"'],
    ],
    ['an array of 2^40 bytes', { keys: [['a', arrayValue(0, 2n ** 40n, Buffer.of())]] }, 'invalid_gguf', ['"a"']],
    ['an array of 2^63 strings', { keys: [['a', arrayValue(8, HUGE, Buffer.of())]] }, 'invalid_gguf', ['"a"']],
    ['an array of an unknown type', { keys: [['a', arrayValue(99, 1, u32(0))]] }, 'invalid_gguf', ['type 99']],
    [
      'arrays nested too deep',
      { keys: [['a', [1, 2, 3, 4].reduce((inner) => arrayValue(9, 1, inner.bytes), arrayValue(0, 0, Buffer.of()))]] },
      'invalid_gguf',
      ['deeper than 4'],
    ],
    ['an alignment of 0', { keys: [['general.alignment', uint32Value(0)]] }, 'invalid_gguf', ['alignment 0']],
    ['an alignment of 48', { keys: [['general.alignment', uint32Value(48)]] }, 'invalid_gguf', ['alignment 48']],
    ['an alignment of 2^31', { keys: [['general.alignment', uint32Value(2 ** 31)]] }, 'invalid_gguf', ['alignment']],
    ['an alignment of text', { keys: [['general.alignment', stringValue('32')]] }, 'invalid_gguf', ['alignment 32']],
    ['the same tensor twice', withTensors([row({}), row({ offset: 32 })]), 'duplicate_key', ['"a" twice']],
    ['an unknown tensor type', withTensors([row({ type: 4 })]), 'invalid_gguf', ['"a"', 'type 4']],
    ['five dimensions', withTensors([row({ dims: [1, 1, 1, 1, 1] })]), 'invalid_gguf', ['5 dimensions']],
    ['a dimension of 0', withTensors([row({ dims: [0] })]), 'invalid_gguf', ['[0]']],
    ['a dimension of 2^63', withTensors([row({ dims: [HUGE] })]), 'invalid_gguf', ['dimension']],
    ['sizes whose product overflows', withTensors([row({ dims: [2n ** 40n, 2n ** 40n] })]), 'invalid_gguf', ['shape']],
    ['rows that are no whole blocks', withTensors([row({ dims: [16], type: 8 })]), 'invalid_gguf', ['multiple of 32']],
    ['an unaligned offset', withTensors([row({ offset: 4 })]), 'invalid_gguf', ['multiple of 32']],
    ['an offset of 2^63', withTensors([row({ offset: HUGE })]), 'invalid_gguf', ['offset']],
    ['a tensor beyond the end', withTensors([row({ offset: 64 })]), 'truncated_file', ['"a"']],
    ['a tensor larger than the file', withTensors([row({ dims: [1024] })]), 'truncated_file', ['"a"']],
    [
      'overlapping tensors',
      withTensors([row({ dims: [16] }), row({ name: 'b', offset: 32 })]),
      'invalid_gguf',
      ['"b"'],
    ],
  ]
  test.each(cases)('%s', async (_, parts, code, words) => {
    await expectCode(() => parse(parts), code, ...words)
  })
})
