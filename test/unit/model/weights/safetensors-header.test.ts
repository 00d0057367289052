/**
 * Safetensors headers: every way a header can lie is refused with its own message.
 */
import { describe, expect, test } from 'vitest'
import { decodeSafetensors, encodeSafetensors } from '../../../../src/model/weights/safetensors.js'
import { parseHeaderLength } from '../../../../src/model/weights/safetensors-header.js'
import { float32Tensor } from '../../../../src/numerics/tensor/host-tensor.js'
import { expectCode } from '../../../support/expect-code.js'

/** A file with this header text (or object) and `dataBytes` zero bytes; `claimed` replaces the true header length. */
function file(header: unknown, dataBytes: number, claimed?: bigint): Uint8Array {
  const json = Buffer.from(typeof header === 'string' ? header : JSON.stringify(header))
  const prefix = Buffer.alloc(8)
  prefix.writeBigUInt64LE(claimed ?? BigInt(json.length))
  return Uint8Array.from(Buffer.concat([prefix, json, Buffer.alloc(dataBytes)]))
}

const entry = (begin: number, end: number, shape = [(end - begin) / 4], dtype: unknown = 'F32') => ({
  dtype,
  shape,
  data_offsets: [begin, end],
})

describe('refused', () => {
  const cases: [string, Uint8Array, string, string[]][] = [
    ['an empty file', new Uint8Array(), 'truncated_file', ['0 bytes']],
    ['a file shorter than the length field', new Uint8Array(7), 'truncated_file', ['7 bytes']],
    ['a header longer than the file', file({}, 0, 1000n), 'truncated_file', ['1000']],
    ['a header of 2^63 bytes', file({}, 0, 1n << 63n), 'invalid_safetensors', ['9223372036854775808']],
    ['a header over 25 MB', file({}, 0, 25_000_001n), 'invalid_safetensors', ['25000001']],
    ['an empty header', file('', 0), 'invalid_json', []],
    ['a torn header', file('{"a":', 0), 'invalid_json', []],
    ['an array for a header', file('[]', 0), 'invalid_json', ['not a JSON object']],
    ['null for a header', file('null', 0), 'invalid_json', ['not a JSON object']],
    ['a header that is not UTF-8', Uint8Array.from([2, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xfe]), 'invalid_utf8', []],
    ['a tensor that is not an object', file({ a: 1 }, 0), 'invalid_safetensors', ['"a"']],
    ['an unknown field', file({ a: { ...entry(0, 4), extra: 1 } }, 4), 'invalid_safetensors', ['"extra"']],
    ['an unknown dtype', file({ a: entry(0, 4, [4], 'F8_E8M0') }, 4), 'unsupported_dtype', ['"a"', 'F8_E8M0', 'BF16']],
    ['a dtype that is an object key', file({ a: entry(0, 4, [1], 'constructor') }, 4), 'unsupported_dtype', []],
    ['no dtype', file({ a: { shape: [1], data_offsets: [0, 4] } }, 4), 'unsupported_dtype', ['"a"']],
    ['no shape', file({ a: { dtype: 'F32', data_offsets: [0, 4] } }, 4), 'invalid_safetensors', ['shape']],
    ['a negative size', file({ a: entry(0, 4, [-1]) }, 4), 'invalid_safetensors', ['[-1]']],
    ['a fractional size', file({ a: entry(0, 4, [0.5]) }, 4), 'invalid_safetensors', ['[0.5]']],
    ['a size as text', file('{"a":{"dtype":"F32","shape":["1"],"data_offsets":[0,4]}}', 4), 'invalid_safetensors', []],
    ['a size beyond 2^53', file({ a: entry(0, 4, [2 ** 60]) }, 4), 'invalid_safetensors', []],
    ['sizes whose product overflows', file({ a: entry(0, 4, [2 ** 40, 2 ** 40]) }, 4), 'invalid_safetensors', []],
    ['nine dimensions', file({ a: entry(0, 4, [1, 1, 1, 1, 1, 1, 1, 1, 1]) }, 4), 'invalid_safetensors', ['8 sizes']],
    ['no offsets', file({ a: { dtype: 'F32', shape: [1] } }, 4), 'invalid_safetensors', ['offsets']],
    ['three offsets', file({ a: { ...entry(0, 4), data_offsets: [0, 4, 8] } }, 4), 'invalid_safetensors', ['offsets']],
    ['a negative offset', file({ a: entry(-4, 0) }, 4), 'invalid_safetensors', ['offsets']],
    ['an end before its begin', file({ a: entry(4, 0, [1]) }, 4), 'invalid_safetensors', ['-4 bytes']],
    ['fewer bytes than shape times dtype', file({ a: entry(0, 4, [2]) }, 4), 'invalid_safetensors', ['expected 8']],
    ['more bytes than shape times dtype', file({ a: entry(0, 8, [1]) }, 8), 'invalid_safetensors', ['expected 4']],
    ['a tensor beyond the end', file({ a: entry(0, 8) }, 4), 'truncated_file', ['"a"']],
    ['a tensor far beyond the end', file({ a: entry(2 ** 52, 2 ** 52 + 4) }, 4), 'truncated_file', ['"a"']],
    ['overlapping tensors', file({ a: entry(0, 8), b: entry(4, 12) }, 12), 'invalid_safetensors', ['"b" overlap']],
    ['equal ranges', file({ a: entry(0, 4), b: entry(0, 4) }, 4), 'invalid_safetensors', ['overlap']],
    ['a hole between tensors', file({ a: entry(0, 4), b: entry(8, 12) }, 12), 'invalid_safetensors', ['4 unused']],
    ['a hole before the first tensor', file({ a: entry(4, 8) }, 8), 'invalid_safetensors', ['4 unused']],
    ['bytes after the last tensor', file({ a: entry(0, 4) }, 5), 'invalid_safetensors', ['1 bytes after']],
    ['metadata that is not text', file({ __metadata__: { a: 1 } }, 0), 'invalid_safetensors', ['"a"']],
    ['metadata that is a list', file({ __metadata__: [] }, 0), 'invalid_safetensors', ['not an object']],
    [
      'the same tensor twice',
      file(`{"a":${JSON.stringify(entry(0, 4))},"a":${JSON.stringify(entry(4, 8))}}`, 8),
      'duplicate_key',
      ['"a" twice'],
    ],
    [
      'the same tensor twice, spelled differently',
      file(`{"a":${JSON.stringify(entry(0, 4))},"\\u0061":${JSON.stringify(entry(4, 8))}}`, 8),
      'duplicate_key',
      ['"a" twice'],
    ],
    [
      'the same field twice',
      file('{"a":{"dtype":"F32","dtype":"F32","shape":[1],"data_offsets":[0,4]}}', 4),
      'duplicate_key',
      ['"dtype" twice'],
    ],
  ]
  test.each(cases)('%s', async (_, bytes, code, words) => {
    await expectCode(() => decodeSafetensors(bytes), code, ...words)
  })
})

test('a lying header length is refused before anything is allocated', async () => {
  const prefix = Uint8Array.from([0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff])
  await expectCode(() => parseHeaderLength(prefix, 1 << 30, 'file'), 'invalid_safetensors', '18446744073709551615')
})

test('names of the prototype chain are ordinary tensor names', () => {
  const names = ['__proto__', 'constructor', 'toString', '']
  const tensors = new Map(names.map((name, i) => [name, float32Tensor(Float32Array.of(i), [1])]))
  const { tensors: read } = decodeSafetensors(encodeSafetensors(tensors))
  expect([...read.keys()].sort()).toEqual([...names].sort())
  expect(read.get('__proto__')?.data).toEqual(Float32Array.of(0))
  expect(Object.keys({})).toEqual([])
})

test('empty tensors may lie between others', () => {
  const bytes = file({ a: entry(0, 4), none: entry(4, 4, [0, 3]), b: entry(4, 8) }, 8)
  expect(decodeSafetensors(bytes).tensors.get('none')?.shape).toEqual([0, 3])
})
