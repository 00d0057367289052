/**
 * The bytes of models, read back with the same descriptors. That ONNX Runtime accepts them is checked by every numeric test.
 */
import onnxProto from 'onnx-proto'
import { describe, expect, test } from 'vitest'
import { GraphError } from '#base/errors.js'
import { dtypeFromOnnx, ONNX_DATA_TYPES } from '#numerics/onnx/data-types.js'
import { externalDataEntries } from '#numerics/onnx/external-data.js'
import { encodeModel, type GraphDeclaration } from '#numerics/onnx/model-proto.js'
import { float32Tensor, int64Tensor } from '#numerics/tensor/host-tensor.js'

const empty: GraphDeclaration = { name: 'g', inputs: [], outputs: [], initializers: [], nodes: [] }

function decode(graph: GraphDeclaration): onnxProto.onnx.ModelProto {
  return onnxProto.onnx.ModelProto.decode(encodeModel(graph, '/models/a/model.onnx'))
}

test('a model declares its versions and domains', () => {
  const model = decode(empty)
  expect(Number(model.irVersion)).toBe(10)
  expect(model.opsetImport.map(({ domain, version }) => [domain, Number(version)])).toEqual([
    ['', 21],
    ['com.microsoft', 1],
  ])
})

test('values keep symbolic sizes, scalars have an empty shape', () => {
  const inputs = [
    { name: 'x', dtype: 'float32' as const, shape: ['C+S', 4] },
    { name: 's', dtype: 'int64' as const, shape: [] },
  ]
  const [x, s] = decode({ ...empty, inputs }).graph?.input ?? []
  const dims = x?.type?.tensorType?.shape?.dim?.map(({ dimParam, dimValue }) => dimParam || Number(dimValue))
  expect(dims).toEqual(['C+S', 4])
  expect(s?.type?.tensorType?.shape?.dim).toEqual([])
  expect(s?.type?.tensorType?.elemType).toBe(7)
})

test('inline constants carry their bytes, also from a view into a larger buffer', () => {
  const data = Float32Array.of(9, 1, 2, 9).subarray(1, 3)
  const graph: GraphDeclaration = {
    ...empty,
    initializers: [
      { kind: 'inline', name: 'w', data: float32Tensor(data, [2]) },
      { kind: 'inline', name: 'i', data: int64Tensor([-1]) },
    ],
  }
  const [w, i] = decode(graph).graph?.initializer ?? []
  expect([...new Float32Array(Uint8Array.from(w?.rawData ?? []).buffer)]).toEqual([1, 2])
  expect([...(i?.rawData ?? [])]).toEqual(Array.from({ length: 8 }, () => 255))
})

test('attributes of every kind, bodies included', () => {
  const attributes = {
    i: { kind: 'int', value: 2 ** 40 },
    f: { kind: 'float', value: 0.5 },
    s: { kind: 'string', value: 'add' },
    is: { kind: 'ints', value: [1, -2] },
    t: { kind: 'tensor', value: float32Tensor(Float32Array.of(7), [1]) },
    g: { kind: 'graph', value: { ...empty, name: 'body' } },
  } as const
  const node = { name: 'n', op: 'Any', domain: '', inputs: ['a', ''], outputs: ['y'], attributes }
  const [decoded] = decode({ ...empty, nodes: [node] }).graph?.node ?? []
  const byName = new Map(decoded?.attribute?.map((attribute) => [attribute.name, attribute]))
  expect(decoded?.input).toEqual(['a', ''])
  expect(Number(byName.get('i')?.i)).toBe(2 ** 40)
  expect(byName.get('f')?.f).toBe(0.5)
  expect(new TextDecoder().decode(byName.get('s')?.s ?? new Uint8Array())).toBe('add')
  expect(byName.get('is')?.ints?.map(Number)).toEqual([1, -2])
  expect(byName.get('t')?.t?.dims?.map(Number)).toEqual([1])
  expect(byName.get('g')?.g?.name).toBe('body')
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
    const initializer = { kind: 'external', name: 'w', dtype: 'uint8', shape: [16], file: 'w.bin' } as const
    const graph = { ...empty, initializers: [{ ...initializer, offsetBytes: 0, sizeBytes: 16 }] }
    expect(decode(graph).graph?.initializer?.[0]).toMatchObject({ name: 'w', dataLocation: 1, dataType: 2 })
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
