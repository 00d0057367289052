/**
 * ONNX models as plain data, and their encoding to protobuf bytes.
 *
 * Knows the file format, not the graph: names are strings here. Fields are written in the order of their numbers, which
 * are onnx.proto's (https://github.com/onnx/onnx/blob/main/onnx/onnx.proto); each message here lists those it uses.
 */

import { dirname, isAbsolute, relative, sep } from 'node:path'
import { GraphError } from '#base/errors/errors.js'
import { ProtobufWriter } from '#base/protobuf/protobuf-writer.js'
import type { DType } from '#numerics/tensor/dtype.js'
import type { HostTensor } from '#numerics/tensor/host-tensor.js'
import { ONNX_DATA_TYPES } from './data-types.js'

// The operator sets and file version every emitted model declares, in one place.
//
// ONNX Runtime 1.30 runs opset 21 fully on the CPU; newer sets only add operators this project does not use
// (opset 23 renames what ONNX Runtime already offers as `SimplifiedLayerNormalization` and `com.microsoft.RotaryEmbedding`).

/** Operator domains and their versions. */
const OPSETS: readonly { readonly domain: '' | 'com.microsoft'; readonly version: number }[] = [
  { domain: '', version: 21 },
  { domain: 'com.microsoft', version: 1 },
]

/** ONNX file format version that belongs to opset 21. */
const IR_VERSION = 10

// References from a model file to tensors that lie in other files (ONNX external data).
//
// Source: onnx.proto, `TensorProto.external_data`: keys `location` (POSIX path relative to the model), `offset`, `length`.
// ONNX Runtime maps such ranges instead of reading them; offsets on page borders (4096) let processes share the pages.

/** A range of bytes of a file beside the model. */
interface ExternalRange {
  /** Path relative to the model's directory, or absolute. */
  readonly file: string
  readonly offsetBytes: number
  readonly sizeBytes: number
}

/**
 * The key-value entries that describe a range.
 *
 * @param range where the bytes lie
 * @param modelPath the model file that will refer to them
 */
export function externalDataEntries(
  range: ExternalRange,
  modelPath: string,
): readonly { readonly key: string; readonly value: string }[] {
  const path = isAbsolute(range.file) ? relative(dirname(modelPath), range.file) : range.file
  return [
    { key: 'location', value: path.split(sep).join('/') },
    { key: 'offset', value: String(range.offsetBytes) },
    { key: 'length', value: String(range.sizeBytes) },
  ]
}

/** A graph's input or output, or a value between its nodes; symbolic sizes are text. */
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
  /** What is known of values between nodes; default nothing. */
  readonly values?: readonly ValueDeclaration[]
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
  const model = new ProtobufWriter().integer(1, IR_VERSION).string(2, 'trainyard').message(7, toGraph(graph, modelPath))
  for (const { domain, version } of OPSETS) {
    model.message(8, new ProtobufWriter().string(1, domain).integer(2, version))
  }
  return model.finish()
}

/** GraphProto: 1 node, 2 name, 5 initializer, 11 input, 12 output, 13 value_info. */
function toGraph(graph: GraphDeclaration, modelPath: string): ProtobufWriter {
  const message = new ProtobufWriter()
  for (const node of graph.nodes) message.message(1, toNode(node, modelPath))
  message.string(2, graph.name)
  for (const initializer of graph.initializers) message.message(5, toInitializer(initializer, modelPath))
  for (const input of graph.inputs) message.message(11, toValue(input))
  for (const output of graph.outputs) message.message(12, toValue(output))
  for (const value of graph.values ?? []) message.message(13, toValue(value))
  return message
}

/** NodeProto: 1 input, 2 output, 3 name, 4 op_type, 5 attribute, 7 domain. */
function toNode(node: NodeDeclaration, modelPath: string): ProtobufWriter {
  const message = new ProtobufWriter()
  for (const input of node.inputs) message.string(1, input)
  for (const output of node.outputs) message.string(2, output)
  message.string(3, node.name).string(4, node.op)
  for (const [name, value] of Object.entries(node.attributes)) message.message(5, toAttribute(name, value, modelPath))
  return message.string(7, node.domain)
}

/** ValueInfoProto (1 name, 2 type) → TypeProto (1 tensor_type) → Tensor (1 elem_type, 2 shape) → TensorShapeProto (1 dim). */
function toValue(value: ValueDeclaration): ProtobufWriter {
  const shape = new ProtobufWriter()
  for (const size of value.shape) {
    // Dimension: 1 dim_value, 2 dim_param
    const dimension = new ProtobufWriter()
    shape.message(1, typeof size === 'number' ? dimension.integer(1, size) : dimension.string(2, size))
  }
  const tensor = new ProtobufWriter().integer(1, ONNX_DATA_TYPES[value.dtype]).message(2, shape)
  return new ProtobufWriter().string(1, value.name).message(2, new ProtobufWriter().message(1, tensor))
}

/** TensorProto: 1 dims, 2 data_type, 8 name, 9 raw_data, 13 external_data, 14 data_location. */
function toInitializer(initializer: InitializerDeclaration, modelPath: string): ProtobufWriter {
  if (initializer.kind === 'inline') return toTensor(initializer.data, initializer.name)
  const message = new ProtobufWriter()
    .integers(1, initializer.shape)
    .integer(2, ONNX_DATA_TYPES[initializer.dtype])
    .string(8, initializer.name)
  for (const { key, value } of externalDataEntries(initializer, modelPath)) {
    message.message(13, new ProtobufWriter().string(1, key).string(2, value))
  }
  return message.integer(14, EXTERNAL)
}

/** TensorProto.DataLocation. */
const EXTERNAL = 1

function toTensor(tensor: HostTensor, name: string | null): ProtobufWriter {
  const { buffer, byteOffset, byteLength } = tensor.data
  const message = new ProtobufWriter().integers(1, tensor.shape).integer(2, ONNX_DATA_TYPES[tensor.dtype])
  if (name !== null) message.string(8, name)
  return message.bytes(9, new Uint8Array(buffer, byteOffset, byteLength))
}

/** AttributeProto.AttributeType. */
const ATTRIBUTE_TYPES = { float: 1, int: 2, string: 3, tensor: 4, graph: 5, ints: 7 } as const

/** AttributeProto: 1 name, 2 f, 3 i, 4 s, 5 t, 6 g, 8 ints, 20 type. */
function toAttribute(name: string, attribute: AttributeDeclaration, modelPath: string): ProtobufWriter {
  const message = new ProtobufWriter().string(1, name)
  switch (attribute.kind) {
    case 'float':
      message.float(2, attribute.value)
      break
    case 'int':
      message.integer(3, attribute.value)
      break
    case 'string':
      message.string(4, attribute.value)
      break
    case 'tensor':
      message.message(5, toTensor(attribute.value, null))
      break
    case 'graph':
      message.message(6, toGraph(attribute.value, modelPath))
      break
    case 'ints':
      message.integers(8, attribute.value)
      break
  }
  return message.integer(20, ATTRIBUTE_TYPES[attribute.kind])
}
