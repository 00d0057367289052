/**
 * ONNX models as plain data, and their encoding to protobuf bytes. The only importer of `onnx-proto`.
 *
 * Knows the file format, not the graph: names are strings here. `onnx-proto` carries the descriptors of onnx 1.10,
 * whose field numbers later versions keep; every field used here exists in it.
 */
import onnxProto from 'onnx-proto'
import { GraphError } from '#base/errors.js'
import type { DType } from '#numerics/tensor/dtype.js'
import type { HostTensor } from '#numerics/tensor/host-tensor.js'
import { ONNX_DATA_TYPES } from './data-types.js'
import { type ExternalRange, externalDataEntries } from './external-data.js'
import { IR_VERSION, OPSETS } from './opsets.js'

const { onnx } = onnxProto
type AttributeMessage = onnxProto.onnx.IAttributeProto
type GraphMessage = onnxProto.onnx.IGraphProto
type TensorMessage = onnxProto.onnx.ITensorProto

/** A graph input or output; symbolic sizes are text. */
export interface ValueDeclaration {
  readonly name: string
  readonly dtype: DType
  readonly shape: readonly (number | string)[]
}

/** An attribute by kind; a `graph` is the body of a control-flow operator. */
export type AttributeDeclaration =
  | { readonly kind: 'int'; readonly value: number }
  | { readonly kind: 'float'; readonly value: number }
  | { readonly kind: 'string'; readonly value: string }
  | { readonly kind: 'ints'; readonly value: readonly number[] }
  | { readonly kind: 'tensor'; readonly value: HostTensor }
  | { readonly kind: 'graph'; readonly value: GraphDeclaration }

/** A node; empty names stand for omitted optional inputs and outputs. */
export interface NodeDeclaration {
  readonly name: string
  readonly op: string
  readonly domain: string
  readonly inputs: readonly string[]
  readonly outputs: readonly string[]
  readonly attributes: Readonly<Record<string, AttributeDeclaration>>
}

/** A constant with its bytes in the model or in another file. */
export type InitializerDeclaration =
  | { readonly kind: 'inline'; readonly name: string; readonly data: HostTensor }
  | ({
      readonly kind: 'external'
      readonly name: string
      readonly dtype: DType
      readonly shape: readonly number[]
    } & ExternalRange)

/** A graph as the file format sees it. */
export interface GraphDeclaration {
  readonly name: string
  readonly inputs: readonly ValueDeclaration[]
  readonly outputs: readonly ValueDeclaration[]
  readonly initializers: readonly InitializerDeclaration[]
  readonly nodes: readonly NodeDeclaration[]
}

/**
 * The bytes of a model file.
 *
 * @param modelPath where the bytes will be written; external data is referred to relative to it
 * @throws {GraphError} `model_too_large` if inline constants exceed protobuf's 2 GB
 */
export function encodeModel(graph: GraphDeclaration, modelPath: string): Uint8Array {
  const inlineBytes = graph.initializers.reduce(
    (sum, initializer) => sum + (initializer.kind === 'inline' ? initializer.data.data.byteLength : 0),
    0,
  )
  if (inlineBytes >= 2 ** 31 - 2 ** 20) {
    throw new GraphError('model_too_large', `graph "${graph.name}" holds ${inlineBytes} bytes inline, limit 2 GB`, {
      hint: 'put weights into external data files',
    })
  }
  return onnx.ModelProto.encode({
    irVersion: IR_VERSION,
    producerName: 'trainyard',
    opsetImport: OPSETS.map(({ domain, version }) => ({ domain, version })),
    graph: toGraphMessage(graph, modelPath),
  }).finish()
}

function toGraphMessage(graph: GraphDeclaration, modelPath: string): GraphMessage {
  return {
    name: graph.name,
    input: graph.inputs.map(toValueMessage),
    output: graph.outputs.map(toValueMessage),
    initializer: graph.initializers.map((initializer) => toInitializerMessage(initializer, modelPath)),
    node: graph.nodes.map((node) => ({
      name: node.name,
      opType: node.op,
      domain: node.domain,
      input: [...node.inputs],
      output: [...node.outputs],
      attribute: Object.entries(node.attributes).map(([name, value]) => toAttributeMessage(name, value, modelPath)),
    })),
  }
}

function toValueMessage(value: ValueDeclaration): onnxProto.onnx.IValueInfoProto {
  const dim = value.shape.map((size) => (typeof size === 'number' ? { dimValue: size } : { dimParam: size }))
  return { name: value.name, type: { tensorType: { elemType: ONNX_DATA_TYPES[value.dtype], shape: { dim } } } }
}

function toInitializerMessage(initializer: InitializerDeclaration, modelPath: string): TensorMessage {
  if (initializer.kind === 'inline') return { ...toTensorMessage(initializer.data), name: initializer.name }
  return {
    name: initializer.name,
    dataType: ONNX_DATA_TYPES[initializer.dtype],
    dims: [...initializer.shape],
    dataLocation: onnx.TensorProto.DataLocation.EXTERNAL,
    externalData: [...externalDataEntries(initializer, modelPath)],
  }
}

function toTensorMessage(tensor: HostTensor): TensorMessage {
  const { buffer, byteOffset, byteLength } = tensor.data
  return {
    dataType: ONNX_DATA_TYPES[tensor.dtype],
    dims: [...tensor.shape],
    rawData: new Uint8Array(buffer, byteOffset, byteLength),
  }
}

function toAttributeMessage(name: string, attribute: AttributeDeclaration, modelPath: string): AttributeMessage {
  const { AttributeType } = onnx.AttributeProto
  switch (attribute.kind) {
    case 'int':
      return { name, type: AttributeType.INT, i: attribute.value }
    case 'float':
      return { name, type: AttributeType.FLOAT, f: attribute.value }
    case 'string':
      return { name, type: AttributeType.STRING, s: new TextEncoder().encode(attribute.value) }
    case 'ints':
      return { name, type: AttributeType.INTS, ints: [...attribute.value] }
    case 'tensor':
      return { name, type: AttributeType.TENSOR, t: toTensorMessage(attribute.value) }
    case 'graph':
      return { name, type: AttributeType.GRAPH, g: toGraphMessage(attribute.value, modelPath) }
  }
}
