/**
 * Safetensors content: what is written is read back, and the same input gives the same bytes.
 */
import { expect, test } from 'vitest'
import { decodeSafetensors, encodeSafetensors, toFloat32 } from '../../../../src/model/weights/safetensors.js'
import { float32Tensor, type HostTensor, int64Tensor } from '../../../../src/numerics/tensor/host-tensor.js'
import { expectCode } from '../../../support/expect-code.js'

const TENSORS: ReadonlyMap<string, HostTensor> = new Map<string, HostTensor>([
  ['bytes', { dtype: 'uint8', shape: [3], data: Uint8Array.of(1, 2, 255) }],
  ['flags', { dtype: 'bool', shape: [2], data: Uint8Array.of(0, 1) }],
  ['small', { dtype: 'int8', shape: [1, 2], data: Int8Array.of(-128, 127) }],
  ['half', { dtype: 'float16', shape: [2], data: Uint16Array.of(0x3c00, 0xc000) }],
  ['brain', { dtype: 'bfloat16', shape: [2], data: Uint16Array.of(0x3f80, 0xc000) }],
  ['single', float32Tensor(Float32Array.of(1.5, -0, 3e38), [3])],
  ['double', { dtype: 'float64', shape: [], data: Float64Array.of(0.1) }],
  ['count', int64Tensor([2 ** 40, -1])],
  ['index', { dtype: 'int32', shape: [1], data: Int32Array.of(-5) }],
])

test('every dtype is read back as it was written', () => {
  const { tensors, metadata } = decodeSafetensors(encodeSafetensors(TENSORS, { format: 'pt', step: '3' }))
  expect(new Map([...tensors].sort())).toEqual(new Map([...TENSORS].sort()))
  expect([...metadata]).toEqual([
    ['format', 'pt'],
    ['step', '3'],
  ])
})

test('the bytes do not depend on the order of tensors or metadata', () => {
  const forward = encodeSafetensors(TENSORS, { a: '1', b: '2' })
  const backward = encodeSafetensors(new Map([...TENSORS].reverse()), { b: '2', a: '1' })
  expect(backward).toEqual(forward)
})

test('data starts at a multiple of 8 and wide elements come first', () => {
  const bytes = encodeSafetensors(TENSORS)
  const length = Number(new DataView(bytes.buffer).getBigUint64(0, true))
  expect(length % 8).toBe(0)
  const names = Object.keys(JSON.parse(Buffer.from(bytes.subarray(8, 8 + length)).toString()) as object)
  expect(names).toEqual(['count', 'double', 'index', 'single', 'brain', 'half', 'bytes', 'flags', 'small'])
})

test('decoded tensors do not share memory with the bytes they came from', () => {
  const bytes = encodeSafetensors(new Map([['a', float32Tensor(Float32Array.of(7), [1])]]))
  const { tensors } = decodeSafetensors(bytes)
  bytes.fill(0)
  expect(tensors.get('a')?.data).toEqual(Float32Array.of(7))
})

test('floating tensors widen to float32', () => {
  const values = ['half', 'brain', 'single', 'double'].map((name) => [...toFloat32(TENSORS.get(name)!, name)])
  expect(values).toEqual([[1, -2], [1, -2], [1.5, -0, Math.fround(3e38)], [Math.fround(0.1)]])
})

test('integer tensors are no weights', async () => {
  await expectCode(() => toFloat32(TENSORS.get('count')!, 'count'), 'unsupported_dtype', '"count"', 'int64')
})

test('a tensor whose data does not fill its shape is not written', async () => {
  const wrong: HostTensor = { dtype: 'float32', shape: [2], data: new Float32Array(3) }
  await expectCode(() => encodeSafetensors(new Map([['a', wrong]])), 'size_mismatch', '"a"', '3 elements')
})

test('the reserved name is not written', async () => {
  const tensors = new Map([['__metadata__', float32Tensor(new Float32Array(1), [1])]])
  await expectCode(() => encodeSafetensors(tensors), 'invalid_name')
})
