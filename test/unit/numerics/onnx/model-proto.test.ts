/**
 * The bytes of models, read back by a reader of the tests' own; field numbers are onnx.proto's. That ONNX Runtime accepts them
 * is checked by every numeric test.
 */
import { createHash } from 'node:crypto'
import { describe, expect, test } from 'vitest'
import { GraphError } from '#base/errors/errors.js'
import type { Value } from '#numerics/graph/graph.js'
import { toOnnxModel } from '#numerics/graph/to-onnx.js'
import { usedValues } from '#numerics/graph/traverse.js'
import { dtypeFromOnnx, ONNX_DATA_TYPES } from '#numerics/onnx/data-types.js'
import { encodeModel, externalDataEntries, type GraphDeclaration } from '#numerics/onnx/model-proto.js'
import { float32Tensor, int64Tensor } from '#numerics/tensor/host-tensor.js'
import { buildSmallNetwork } from '../../../support/model/small-network.js'
import {
  asBytes,
  integersAt,
  type Message,
  messagesAt,
  readMessage,
  readPacked,
  textsAt,
} from '../../../support/protobuf-reader.js'

const empty: GraphDeclaration = { name: 'g', inputs: [], outputs: [], initializers: [], nodes: [] }

function decode(graph: GraphDeclaration): Message {
  return readMessage(encodeModel(graph, '/models/a/model.onnx'))
}

function graphOf(graph: GraphDeclaration): Message {
  return messagesAt(decode(graph), 7)[0]!
}

test('a model declares its versions and domains', () => {
  const model = decode(empty)
  expect(integersAt(model, 1)).toEqual([10])
  expect(textsAt(model, 2)).toEqual(['trainyard'])
  expect(messagesAt(model, 8).map((set) => [...textsAt(set, 1), ...integersAt(set, 2)])).toEqual([
    ['', 21],
    ['com.microsoft', 1],
  ])
})

test('values keep symbolic sizes, scalars have an empty shape', () => {
  const inputs = [
    { name: 'x', dtype: 'float32' as const, shape: ['C+S', 4, 0] },
    { name: 's', dtype: 'int64' as const, shape: [] },
  ]
  const [x, s] = messagesAt(graphOf({ ...empty, inputs }), 11).map((value) => {
    const tensor = messagesAt(messagesAt(value, 2)[0]!, 1)[0]!
    const dims = messagesAt(messagesAt(tensor, 2)[0]!, 1)
    return {
      name: textsAt(value, 1),
      type: integersAt(tensor, 1),
      dims: dims.map((d) => [...textsAt(d, 2), ...integersAt(d, 1)]),
    }
  })
  expect(x).toEqual({ name: ['x'], type: [1], dims: [['C+S'], [4], [0]] })
  expect(s).toEqual({ name: ['s'], type: [7], dims: [] })
})

test('inline constants carry their bytes, also from a view into a larger buffer', () => {
  const data = Float32Array.of(9, 1, 2, 9).subarray(1, 3)
  const large = new Float32Array(5000).map((_, i) => i)
  const graph: GraphDeclaration = {
    ...empty,
    initializers: [
      { kind: 'inline', name: 'w', data: float32Tensor(data, [2]) },
      { kind: 'inline', name: 'large', data: float32Tensor(large, [50, 100]) },
      { kind: 'inline', name: 'i', data: int64Tensor([-1]) },
    ],
  }
  const [w, l, i] = messagesAt(graphOf(graph), 5)
  expect([...new Float32Array(Uint8Array.from(asBytes(w!.get(9)?.[0])).buffer)]).toEqual([1, 2])
  expect(new Float32Array(Uint8Array.from(asBytes(l!.get(9)?.[0])).buffer)).toEqual(large)
  expect(readPacked(asBytes(l!.get(1)?.[0]))).toEqual([50, 100])
  expect([...asBytes(i!.get(9)?.[0])]).toEqual(Array.from({ length: 8 }, () => 255))
})

const attributes = {
  i: { kind: 'int', value: 2 ** 40 },
  f: { kind: 'float', value: 0.1 },
  s: { kind: 'string', value: 'añd ≤ 😀' },
  is: { kind: 'ints', value: [1, -2, 0, 127, 128, 2 ** 53 - 1, -(2 ** 53) + 1] },
  none: { kind: 'ints', value: [] },
  t: { kind: 'tensor', value: float32Tensor(Float32Array.of(7), [1]) },
  g: { kind: 'graph', value: { ...empty, name: 'body' } },
} as const
const anyNode = { name: 'n', op: 'Any', domain: '', inputs: ['a', ''], outputs: ['y'], attributes }

test('attributes of every kind, bodies included', () => {
  const [node] = messagesAt(graphOf({ ...empty, nodes: [anyNode] }), 1)
  const byName = new Map(messagesAt(node!, 5).map((attribute) => [textsAt(attribute, 1)[0], attribute]))
  const at = (name: string): Message => byName.get(name)!
  expect(textsAt(node!, 1)).toEqual(['a', ''])
  expect(integersAt(at('i'), 3)).toEqual([2 ** 40])
  expect(new Float32Array(Uint8Array.from(asBytes(at('f').get(2)?.[0])).buffer)[0]).toBe(Math.fround(0.1))
  expect(textsAt(at('s'), 4)).toEqual(['añd ≤ 😀'])
  expect(readPacked(asBytes(at('is').get(8)?.[0]))).toEqual(attributes.is.value)
  expect(at('none').get(8)).toBeUndefined()
  expect(readPacked(asBytes(messagesAt(at('t'), 5)[0]!.get(1)?.[0]))).toEqual([1])
  expect(textsAt(messagesAt(at('g'), 6)[0]!, 2)).toEqual(['body'])
  expect([...byName.values()].map((attribute) => integersAt(attribute, 20)[0])).toEqual([2, 1, 3, 7, 7, 4, 5])
})

test.each([0.5, 2 ** 53, Number.NaN])('%d is no integer of a model file', (value) => {
  const nodes = [{ ...anyNode, attributes: { i: { kind: 'int' as const, value } } }]
  expect(() => encodeModel({ ...empty, nodes }, '/m.onnx')).toThrow(GraphError)
})

test('values between nodes are declared, except for outputs and what nobody uses', () => {
  const graph = buildSmallNetwork({ isRecomputed: false }).build()
  const declared = (isDeclared?: (value: Value) => boolean): string[] =>
    messagesAt(messagesAt(readMessage(toOnnxModel(graph, '/m.onnx', isDeclared)), 7)[0]!, 13).map(
      (value) => textsAt(value, 1)[0]!,
    )
  const outputs = new Set(graph.outputs.map(({ name }) => name))
  const used = new Set(graph.nodes.flatMap((node) => usedValues(node)))
  const between = graph.nodes
    .flatMap((node) => node.outputs)
    .filter((value) => used.has(value) && !outputs.has(value.name))
  expect(between.length).toBeGreaterThan(10)
  expect(declared()).toEqual(between.map(({ name }) => name))
  const matrices = between.filter(({ shape }) => shape.length === 2).map(({ name }) => name)
  expect(declared(({ shape }) => shape.length === 2)).toEqual(matrices)
})

test('the bytes are those protobufjs 6 wrote for the same models', () => {
  const digest = (bytes: Uint8Array): string => createHash('sha256').update(bytes).digest('hex')
  expect(digest(encodeModel({ ...empty, nodes: [anyNode] }, '/m.onnx'))).toBe(
    '5f4678b543478fbc664f2f02048ba05e5dfd453855687cb8b1d110cb0e3e48ef',
  )
  expect(digest(toOnnxModel(buildSmallNetwork({ isRecomputed: true }).build(), '/m.onnx', () => false))).toBe(
    '6aee057df6f8405788daea377967879a613df79aa5873534638caaa94b19d1e8',
  )
})

describe('external data', () => {
  test('is referred to relative to the model', () => {
    const range = { file: '/models/a/weights/w.bin', offsetBytes: 4096, sizeBytes: 16 }
    expect(externalDataEntries(range, '/models/a/model.onnx')).toEqual([
      { key: 'location', value: 'weights/w.bin' },
      { key: 'offset', value: '4096' },
      { key: 'length', value: '16' },
    ])
    expect(externalDataEntries({ ...range, file: 'w.bin' }, '/models/a/model.onnx')[0]?.value).toBe('w.bin')
  })

  test('is marked as such', () => {
    const initializer = { kind: 'external', name: 'w', dtype: 'uint8', shape: [16], file: '/w.bin' } as const
    const graph = { ...empty, initializers: [{ ...initializer, offsetBytes: 5e9, sizeBytes: 16 }] }
    const [tensor] = messagesAt(graphOf(graph), 5)
    expect(textsAt(tensor!, 8)).toEqual(['w'])
    expect([integersAt(tensor!, 2), integersAt(tensor!, 14), readPacked(asBytes(tensor!.get(1)?.[0]))]).toEqual([
      [2],
      [1],
      [16],
    ])
    expect(messagesAt(tensor!, 13).map((entry) => [...textsAt(entry, 1), ...textsAt(entry, 2)])).toEqual([
      ['location', '../../w.bin'],
      ['offset', '5000000000'],
      ['length', '16'],
    ])
  })
})

test('a model that protobuf cannot hold is refused before it is encoded', () => {
  const data = float32Tensor(new Float32Array(2 ** 28), [2 ** 28])
  const initializers = ['a', 'b'].map((name) => ({ kind: 'inline' as const, name, data }))
  expect(() => encodeModel({ ...empty, initializers }, '/m.onnx')).toThrow(GraphError)
})

test('data type numbers go both ways', () => {
  for (const [dtype, code] of Object.entries(ONNX_DATA_TYPES)) expect(dtypeFromOnnx(code)).toBe(dtype)
  expect(dtypeFromOnnx(8)).toBeNull()
})
