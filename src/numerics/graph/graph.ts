/**
 * The typed graph: frozen values and nodes, and nothing else. Builders make it, passes rewrite it, `to-onnx.ts` writes it.
 *
 * Operator names and attributes are ONNX's own (opset in `numerics/onnx/model-proto.ts`): the graph needs no translation table.
 */
import type { DType } from '#numerics/tensor/dtype.js'
import type { HostTensor } from '#numerics/tensor/host-tensor.js'

/** A size: a number, or a symbol with an optional integer factor, in canonical text: `"B"`, `"2*S"`, `"C+S"`. */
export type Dim = number | string
export type Shape = readonly Dim[]

/** The result of a node, an input or an initializer. Identity is the object; `name` is unique in its graph. */
export interface Value {
  readonly name: string
  readonly dtype: DType
  readonly shape: Shape
}

export type Attribute =
  | { readonly kind: 'int'; readonly value: number }
  | { readonly kind: 'float'; readonly value: number }
  | { readonly kind: 'string'; readonly value: string }
  | { readonly kind: 'ints'; readonly value: readonly number[] }
  | { readonly kind: 'tensor'; readonly value: HostTensor }
  | { readonly kind: 'graph'; readonly value: Graph }

export interface Node {
  readonly op: string
  /** `''` for ONNX's own operators, `'com.microsoft'` for ONNX Runtime's. */
  readonly domain: '' | 'com.microsoft'
  /** `null` stands for an omitted optional input. */
  readonly inputs: readonly (Value | null)[]
  readonly outputs: readonly Value[]
  readonly attributes: Readonly<Record<string, Attribute>>
  /** The scope in which the builder made the node, for example `layers.3/attention`; for messages and dumps. */
  readonly scope: string
}

/** A constant: bytes inside the model, or a range of an external file beside it (mapped at load). */
export type Initializer =
  | { readonly kind: 'inline'; readonly value: Value; readonly data: HostTensor }
  | {
      readonly kind: 'external'
      readonly value: Value
      readonly file: string
      readonly offsetBytes: number
      readonly sizeBytes: number
    }

/** Nodes are in topological order. A subgraph (the body of a Loop) may use values of the graph around it. */
export interface Graph {
  readonly name: string
  readonly inputs: readonly Value[]
  readonly outputs: readonly Value[]
  readonly initializers: readonly Initializer[]
  readonly nodes: readonly Node[]
}
