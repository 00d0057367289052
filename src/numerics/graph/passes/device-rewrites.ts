/**
 * What single nodes become where an accelerator's kernel is missing, crashes, or gives wrong numbers without an error.
 *
 * Each rule names the defect and how it shows. They were found with ONNX Runtime 1.30 by comparing every value of step and train
 * graphs with the CPU's.
 */
import { GraphError } from '#base/errors/errors.js'
import { int, ints, readFloat, readInt } from '../attributes.js'
import { addDims, canonicalShape, dimTerms } from '../dims.js'
import type { Attribute, Dim, Node, Shape, Value } from '../graph.js'

/** Makes nodes in place of one. */
export interface Emitter {
  /** The value of a new node of one output; `into` is an old value that it makes from now on. */
  one(op: string, inputs: readonly Value[], how: EmittedNode): Value
  scalar(value: number): Value
  int64s(values: readonly number[]): Value
  /** A new name for a value that nothing reads. */
  unread(like: Value): Value
}

interface EmittedNode {
  readonly shape: Shape
  readonly attributes?: Readonly<Record<string, Attribute>>
  readonly into?: Value
}

/** What a rule may ask of the graph around its node. */
export interface RuleContext {
  readonly emit: Emitter
  /** Whether anything reads the value. */
  readonly isRead: (value: Value) => boolean
  /** Whether a size may be 0. */
  readonly mayBeZero: (dim: Dim) => boolean
}

/** A node for the old one, after those that were emitted; null: they make all of its outputs; the same node: nothing to do. */
export type DeviceRule = (node: Node, context: RuleContext) => Node | null

/**
 * 1 / rms by hand. WebGPU writes the mean where the second output of the norm belongs, so gradients come out up to 1e19 times too large,
 * and no error says so.
 */
export const inverseRmsByHand: DeviceRule = (node, { emit, isRead }) => {
  const [x, inverse] = [node.inputs[0], node.outputs[1]]
  if (!x || inverse === undefined || !isRead(inverse)) return node
  if (x.dtype !== 'float32') {
    throw new GraphError('no_device_rule', `1 / rms of ${x.dtype} has no rule for devices, only of float32: ${x.name}`)
  }
  const epsilon = readFloat(node.attributes, 'epsilon', 1e-5)
  const squares = emit.one('Mul', [x, x], { shape: x.shape })
  const axes = emit.int64s([-1])
  const { shape } = inverse
  const mean = emit.one('ReduceMean', [squares, axes], { shape, attributes: { keepdims: int(1) } })
  const kept = emit.one('Add', [mean, emit.scalar(epsilon)], { shape })
  emit.one('Reciprocal', [emit.one('Sqrt', [kept], { shape })], { shape, into: inverse })
  const outputs = node.outputs.map((value) => (value === inverse ? emit.unread(inverse) : value))
  return { ...node, outputs }
}

/**
 * Transposes and a factor as nodes of their own: FusedMatMul has no WebGPU kernel, and each would cost a way to the host and back. Of two
 * matrices Gemm does the same in one.
 */
export const productByParts: DeviceRule = (node, { emit }) => {
  const [a, b] = node.inputs
  const [y] = node.outputs
  if (!a || !b || y === undefined) return node
  const [transA, transB] = [readInt(node.attributes, 'transA', 0) === 1, readInt(node.attributes, 'transB', 0) === 1]
  const alpha = readFloat(node.attributes, 'alpha', 1)
  if (a.shape.length === 2 && b.shape.length === 2) {
    return { ...node, op: 'Gemm', domain: '' }
  }
  const left = transA ? swapLastTwo(emit, a) : a
  const right = transB ? swapLastTwo(emit, b) : b
  const product: Node = { ...node, op: 'MatMul', domain: '', inputs: [left, right], attributes: {} }
  if (alpha === 1) return product
  const factor = emit.scalar(alpha)
  // A known inner size is that of a head: queries are smaller than their scores. Else the result is the smaller one.
  if (typeof left.shape.at(-1) === 'number') {
    return { ...product, inputs: [emit.one('Mul', [left, factor], { shape: left.shape }), right] }
  }
  const plain = emit.one('MatMul', [left, right], { shape: y.shape })
  emit.one('Mul', [plain, factor], { shape: y.shape, into: y })
  return null
}

/**
 * An inner size that may be 0 is made one larger with zeros. A product of nothing ends the process on WebGPU (a null pointer in the
 * library), and is an error on others (onnxruntime issue 21483); on the CPU it is 0.
 */
export const innerNeverZero: DeviceRule = (node, { emit, mayBeZero }) => {
  const [a, b, ...more] = node.inputs
  if (!a || !b) return node
  // MatMul has no transposes, and may have a vector
  const ofA = a.shape.length - (readInt(node.attributes, 'transA', 0) === 1 ? 2 : 1)
  const ofB = Math.max(0, b.shape.length - (readInt(node.attributes, 'transB', 0) === 1 ? 1 : 2))
  if (!mayBeZero(a.shape[ofA] ?? 1)) return node
  return { ...node, inputs: [padded(emit, a, ofA), padded(emit, b, ofB), ...more] }
}

/** LogSoftmax has no WebGPU kernel: x less its largest, less the logarithm of the sum of exponentials. */
export const logSoftmaxByParts: DeviceRule = (node, { emit }) => {
  const [x] = node.inputs
  const [y] = node.outputs
  if (!x || y === undefined) return node
  const given = readInt(node.attributes, 'axis', -1)
  const axis = given < 0 ? given + x.shape.length : given
  const reduced = x.shape.map((dim, at) => (at === axis ? 1 : dim))
  const axes = emit.int64s([axis])
  const kept = { shape: reduced, attributes: { keepdims: int(1) } }
  const below = emit.one('Sub', [x, emit.one('ReduceMax', [x, axes], kept)], { shape: x.shape })
  const sum = emit.one('ReduceSum', [emit.one('Exp', [below], { shape: x.shape }), axes], kept)
  emit.one('Sub', [below, emit.one('Log', [sum], { shape: reduced })], { shape: x.shape, into: y })
  return null
}

/** Whether a size may be 0, where the given symbols never are. */
export function dimMayBeZero(dim: Dim, neverZero: ReadonlySet<string>): boolean {
  if (typeof dim === 'number') return dim === 0
  const terms = dimTerms(dim)
  const isPositive = terms.some(({ symbols }) => symbols.every((symbol) => neverZero.has(symbol)))
  return !(isPositive && terms.every(({ coefficient }) => coefficient > 0))
}

function swapLastTwo(emit: Emitter, x: Value): Value {
  const order = x.shape.map((_, axis) => axis)
  const [last, before] = [order.length - 1, order.length - 2]
  order[last] = before
  order[before] = last
  const shape = order.map((axis) => x.shape[axis] as Dim)
  return emit.one('Transpose', [x], { shape, attributes: { perm: ints(order) } })
}

function padded(emit: Emitter, x: Value, axis: number): Value {
  const rank = x.shape.length
  const sizes = Array.from({ length: 2 * rank }, (_, at) => (at === rank + axis ? 1 : 0))
  const shape = canonicalShape(x.shape.map((dim, at) => (at === axis ? addDims(dim, 1) : dim)))
  return emit.one('Pad', [x, emit.int64s(sizes)], { shape })
}
