/**
 * ONNX operators in float64, straight from the specification: one entry per operator, no speed.
 *
 * Source: ONNX operator specification, opset 21; for the `com.microsoft` ones
 * https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md
 */
import { type Attributes, readFloat, readInt, readInts, readText } from '#numerics/graph/attributes.js'
import type { Node } from '#numerics/graph/graph.js'
import type { DType } from '#numerics/tensor/dtype.js'
import { elementCount } from '#numerics/tensor/host-tensor.js'
import {
  at,
  broadcastShape,
  forEachIndex,
  generate,
  type ReferenceTensor,
  stridesOf,
  toReference,
  withAxis,
} from './reference-tensor.js'

type Inputs = readonly (ReferenceTensor | null)[]
export type ReferenceOperator = (inputs: Inputs, attributes: Attributes, node: Node) => readonly ReferenceTensor[]

function unary(operation: (x: number) => number, dtype?: DType): ReferenceOperator {
  return ([x]) => [{ dtype: dtype ?? x!.dtype, shape: x!.shape, data: x!.data.map(operation) }]
}

function binary(operation: (a: number, b: number) => number, dtype?: DType): ReferenceOperator {
  return ([a, b]) => {
    const isInteger = a!.dtype === 'int64' || a!.dtype === 'int32'
    const shape = broadcastShape(a!.shape, b!.shape)
    const compute = (index: readonly number[]): number => {
      const result = operation(at(a!, index), at(b!, index))
      return isInteger ? Math.trunc(result) : result
    }
    return [generate(dtype ?? a!.dtype, shape, compute)]
  }
}

const sigmoid = (x: number): number => 1 / (1 + Math.exp(-x))

/** Product of the last two axes with the flags of Gemm and FusedMatMul. */
const product: ReferenceOperator = ([a, b, c], attributes) => {
  const swap = (tensor: ReferenceTensor, flag: string): ReferenceTensor => {
    if (readInt(attributes, flag, 0) === 0) return tensor
    const rank = tensor.shape.length
    const shape = [...tensor.shape.slice(0, -2), tensor.shape[rank - 1]!, tensor.shape[rank - 2]!]
    return generate(tensor.dtype, shape, (index) => at(tensor, [...index.slice(0, -2), index.at(-1)!, index.at(-2)!]))
  }
  const left = swap(a!, 'transA')
  const right = swap(b!, 'transB')
  const alpha = readFloat(attributes, 'alpha', 1)
  const beta = readFloat(attributes, 'beta', 1)
  const batch = broadcastShape(left.shape.slice(0, -2), right.shape.slice(0, -2))
  const inner = left.shape.at(-1)!
  const shape = [...batch, left.shape.at(-2)!, right.shape.at(-1)!]
  const result = generate(a!.dtype, shape, (index) => {
    let sum = 0
    const [row, column] = [index.at(-2)!, index.at(-1)!]
    const lead = index.slice(0, -2)
    for (let k = 0; k < inner; k++) sum += at(left, [...lead, row, k]) * at(right, [...lead, k, column])
    return alpha * sum + (c ? beta * at(c, index) : 0)
  })
  return [result]
}

function reduction(combine: (values: readonly number[]) => number): ReferenceOperator {
  return ([x, axes], attributes) => {
    const rank = x!.shape.length
    const reduced = axes
      ? Array.from(axes.data, (axis) => (axis < 0 ? axis + rank : axis))
      : x!.shape.map((_, axis) => axis)
    const keptShape = x!.shape.map((size, axis) => (reduced.includes(axis) ? 1 : size))
    const groups = Array.from({ length: elementCount(keptShape) }, (): number[] => [])
    const strides = stridesOf(keptShape)
    forEachIndex(x!.shape, (index, flat) => {
      const place = index.reduce((sum, i, axis) => sum + (reduced.includes(axis) ? 0 : i * strides[axis]!), 0)
      groups[place]!.push(x!.data[flat]!)
    })
    const shape =
      readInt(attributes, 'keepdims', 1) === 1 ? keptShape : x!.shape.filter((_, axis) => !reduced.includes(axis))
    return [{ dtype: x!.dtype, shape, data: Float64Array.from(groups, combine) }]
  }
}

/** Rewrites every line along an axis. */
function alongAxis(
  x: ReferenceTensor,
  axis: number,
  line: (values: readonly number[]) => readonly number[],
): ReferenceTensor {
  const place = axis < 0 ? axis + x.shape.length : axis
  return generate(x.dtype, x.shape, (index) => {
    const values = Array.from({ length: x.shape[place]! }, (_, i) => at(x, withAxis(index, place, i)))
    return line(values)[index[place]!]!
  })
}

function softmaxLine(values: readonly number[]): readonly number[] {
  const greatest = Math.max(...values)
  const exponentials = values.map((value) => Math.exp(value - greatest))
  const sum = exponentials.reduce((a, b) => a + b, 0)
  return exponentials.map((value) => value / sum)
}

function rmsNorm(
  x: ReferenceTensor,
  weight: ReferenceTensor,
  epsilon: number,
): readonly [ReferenceTensor, ReferenceTensor] {
  const last = x.shape.length - 1
  const scale = generate('float32', [...x.shape.slice(0, -1), 1], (index) => {
    let sum = 0
    for (let i = 0; i < x.shape[last]!; i++) sum += at(x, withAxis(index, last, i)) ** 2
    return 1 / Math.sqrt(sum / x.shape[last]! + epsilon)
  })
  return [
    generate(x.dtype, x.shape, (index, flat) => x.data[flat]! * at(scale, index) * weight.data[index[last]!]!),
    scale,
  ]
}

/** Halves of each head rotated by the angles of the position; [B, H, T, D] or [B, T, H*D] with `num_heads`. */
const rotary: ReferenceOperator = ([x, positions, cos, sin], attributes) => {
  const isHeads = x!.shape.length === 4
  const headSize = isHeads ? x!.shape[3]! : x!.shape[2]! / readInt(attributes, 'num_heads', 1)
  const half = headSize / 2
  return [
    generate(x!.dtype, x!.shape, (index) => {
      const [batch, token] = [index[0]!, isHeads ? index[2]! : index[1]!]
      const last = index.length - 1
      const element = index[last]! % headSize
      const pair = element % half
      const position = at(positions!, [batch, token])
      const other = at(x!, withAxis(index, last, index[last]! + (element < half ? half : -half)))
      const sine = at(sin!, [position, pair])
      return at(x!, index) * at(cos!, [position, pair]) + (element < half ? -other : other) * sine
    }),
  ]
}

function wrap(index: number, size: number): number {
  return index < 0 ? index + size : index
}

function positiveAxis(attributes: Attributes, rank: number, fallback = 0): number {
  return wrap(readInt(attributes, 'axis', fallback), rank)
}

const concat: ReferenceOperator = (inputs, attributes) => {
  const axis = positiveAxis(attributes, inputs[0]!.shape.length)
  const starts: number[] = []
  let total = 0
  for (const input of inputs) {
    starts.push(total)
    total += input!.shape[axis]!
  }
  return [
    generate(inputs[0]!.dtype, withAxis(inputs[0]!.shape, axis, total), (index) => {
      const part = starts.findLastIndex((start, i) => index[axis]! >= start && inputs[i]!.shape[axis]! > 0)
      return at(inputs[part]!, withAxis(index, axis, index[axis]! - starts[part]!))
    }),
  ]
}

const split: ReferenceOperator = ([x, sizes], attributes) => {
  const axis = positiveAxis(attributes, x!.shape.length)
  let start = 0
  return Array.from(sizes!.data, (size) => {
    const from = start
    start += size
    return generate(x!.dtype, withAxis(x!.shape, axis, size), (index) =>
      at(x!, withAxis(index, axis, index[axis]! + from)),
    )
  })
}

const slice: ReferenceOperator = ([x, starts, ends, axes, steps]) => {
  const shape = [...x!.shape]
  const from = x!.shape.map(() => 0)
  const step = x!.shape.map(() => 1)
  for (const [i, given] of Array.from(axes!.data).entries()) {
    const axis = wrap(given, x!.shape.length)
    const size = x!.shape[axis]!
    const bound = (value: number): number => Math.min(Math.max(wrap(value, size), 0), size)
    from[axis] = bound(starts!.data[i]!)
    step[axis] = steps?.data[i] ?? 1
    shape[axis] = Math.max(0, Math.ceil((bound(ends!.data[i]!) - from[axis]!) / step[axis]!))
  }
  return [
    generate(x!.dtype, shape, (index) =>
      at(
        x!,
        index.map((i, axis) => from[axis]! + i * step[axis]!),
      ),
    ),
  ]
}

const reshape: ReferenceOperator = ([x, target]) => {
  const shape = Array.from(target!.data, (size, axis) => (size === 0 ? x!.shape[axis]! : size))
  const free = shape.indexOf(-1)
  if (free >= 0) shape[free] = x!.data.length / elementCount(shape.map((size) => (size === -1 ? 1 : size)))
  return [{ dtype: x!.dtype, shape, data: x!.data }]
}

/** Unsqueeze, Squeeze and whatever else only renames axes: the builder knows the rank, data tells the sizes. */
function relabel(newShape: (shape: readonly number[], axes: readonly number[]) => number[]): ReferenceOperator {
  return ([x, axes]) => [{ dtype: x!.dtype, shape: newShape(x!.shape, Array.from(axes!.data)), data: x!.data }]
}

function unsqueezed(shape: readonly number[], axes: readonly number[]): number[] {
  const rank = shape.length + axes.length
  const added = axes.map((axis) => wrap(axis, rank))
  const rest = [...shape]
  return Array.from({ length: rank }, (_, axis) => (added.includes(axis) ? 1 : rest.shift()!))
}

const pad: ReferenceOperator = ([x, pads, value]) => {
  const rank = x!.shape.length
  const shape = x!.shape.map((size, axis) => size + pads!.data[axis]! + pads!.data[axis + rank]!)
  return [
    generate(x!.dtype, shape, (index) => {
      const inner = index.map((i, axis) => i - pads!.data[axis]!)
      const isInside = inner.every((i, axis) => i >= 0 && i < x!.shape[axis]!)
      return isInside ? at(x!, inner) : (value?.data[0] ?? 0)
    }),
  ]
}

const gather: ReferenceOperator = ([data, indices], attributes) => {
  const axis = positiveAxis(attributes, data!.shape.length)
  const depth = indices!.shape.length
  const shape = [...data!.shape.slice(0, axis), ...indices!.shape, ...data!.shape.slice(axis + 1)]
  return [
    generate(data!.dtype, shape, (index) => {
      const row = wrap(at(indices!, index.slice(axis, axis + depth)), data!.shape[axis]!)
      return at(data!, [...index.slice(0, axis), row, ...index.slice(axis + depth)])
    }),
  ]
}

const gatherElements: ReferenceOperator = ([data, indices], attributes) => {
  const axis = positiveAxis(attributes, data!.shape.length)
  const pick = (index: readonly number[], flat: number): number =>
    at(data!, withAxis(index, axis, wrap(indices!.data[flat]!, data!.shape[axis]!)))
  return [generate(data!.dtype, indices!.shape, pick)]
}

function flatPlace(shape: readonly number[], index: readonly number[]): number {
  return index.reduce((flat, i, axis) => flat * shape[axis]! + i, 0)
}

const scatterElements: ReferenceOperator = ([data, indices, updates], attributes) => {
  const axis = positiveAxis(attributes, data!.shape.length)
  const isAdding = readText(attributes, 'reduction', 'none') === 'add'
  const result = data!.data.slice()
  forEachIndex(indices!.shape, (index, flat) => {
    const place = flatPlace(data!.shape, withAxis(index, axis, wrap(indices!.data[flat]!, data!.shape[axis]!)))
    result[place] = (isAdding ? result[place]! : 0) + updates!.data[flat]!
  })
  return [{ ...data!, data: result }]
}

/** Index tuple of a GatherND or ScatterND, from the leading part of the result's index. */
function tuple(data: ReferenceTensor, indices: ReferenceTensor, lead: readonly number[]): number[] {
  return Array.from({ length: indices.shape.at(-1)! }, (_, i) => wrap(at(indices, [...lead, i]), data.shape[i]!))
}

const gatherND: ReferenceOperator = ([data, indices]) => {
  const lead = indices!.shape.length - 1
  const shape = [...indices!.shape.slice(0, -1), ...data!.shape.slice(indices!.shape.at(-1)!)]
  const pick = (index: readonly number[]): number =>
    at(data!, [...tuple(data!, indices!, index.slice(0, lead)), ...index.slice(lead)])
  return [generate(data!.dtype, shape, pick)]
}

const scatterND: ReferenceOperator = ([data, indices, updates]) => {
  const lead = indices!.shape.length - 1
  const result = data!.data.slice()
  forEachIndex(updates!.shape, (index, flat) => {
    const target = [...tuple(data!, indices!, index.slice(0, lead)), ...index.slice(lead)]
    result[flatPlace(data!.shape, target)] = updates!.data[flat]!
  })
  return [{ ...data!, data: result }]
}

const topK: ReferenceOperator = ([x, k], attributes) => {
  const axis = positiveAxis(attributes, x!.shape.length, -1)
  const shape = withAxis(x!.shape, axis, k!.data[0]!)
  const indices = generate('int64', shape, (index) => {
    const line = Array.from({ length: x!.shape[axis]! }, (_, i) => ({ i, value: at(x!, withAxis(index, axis, i)) }))
    return line.sort((a, b) => b.value - a.value || a.i - b.i)[index[axis]!]!.i
  })
  const values = generate(x!.dtype, shape, (index, flat) => at(x!, withAxis(index, axis, indices.data[flat]!)))
  return [values, indices]
}

const argMax: ReferenceOperator = ([x], attributes) => {
  const axis = positiveAxis(attributes, x!.shape.length)
  const kept = generate('int64', withAxis(x!.shape, axis, 1), (index) => {
    const line = Array.from({ length: x!.shape[axis]! }, (_, i) => at(x!, withAxis(index, axis, i)))
    return line.indexOf(Math.max(...line))
  })
  const shape = readInt(attributes, 'keepdims', 1) === 1 ? kept.shape : x!.shape.filter((_, other) => other !== axis)
  return [{ ...kept, shape }]
}

const oneHot: ReferenceOperator = ([indices, depth, values], attributes) => {
  const rank = indices!.shape.length + 1
  const axis = positiveAxis(attributes, rank, -1)
  const shape = [...indices!.shape]
  shape.splice(axis, 0, depth!.data[0]!)
  return [
    generate(values!.dtype, shape, (index) => {
      const place = at(
        indices!,
        index.filter((_, other) => other !== axis),
      )
      return values!.data[wrap(place, depth!.data[0]!) === index[axis] ? 1 : 0]!
    }),
  ]
}

const cumSum: ReferenceOperator = ([x, axisTensor], attributes) => {
  const isExclusive = readInt(attributes, 'exclusive', 0) === 1
  const isReversed = readInt(attributes, 'reverse', 0) === 1
  const line = (values: readonly number[]): number[] => {
    const ordered = isReversed ? values.toReversed() : [...values]
    let total = 0
    const sums = ordered.map((value) => {
      const before = total
      total += value
      return isExclusive ? before : total
    })
    return isReversed ? sums.reverse() : sums
  }
  return [alongAxis(x!, axisTensor!.data[0]!, line)]
}

/** Dequantized weight times input, as MatMulNBits defines the packing: low half of a byte first, blocks along K. */
const matMulNBits: ReferenceOperator = ([x, quantized, scales, zeroPoints, , bias], attributes) => {
  const [columns, rows] = [readInt(attributes, 'K', 0), readInt(attributes, 'N', 0)]
  const [bits, blockSize] = [readInt(attributes, 'bits', 4), readInt(attributes, 'block_size', 32)]
  const blocks = Math.ceil(columns / blockSize)
  const perByte = 8 / bits
  const unpack = (data: Float64Array, start: number, i: number): number =>
    Math.floor(data[start + Math.floor(i / perByte)]! / 2 ** (bits * (i % perByte))) % 2 ** bits
  const weight = (row: number, column: number): number => {
    const block = Math.floor(column / blockSize)
    const zero = zeroPoints ? unpack(zeroPoints.data, row * Math.ceil(blocks / perByte), block) : 2 ** (bits - 1)
    const start = ((row * blocks + block) * blockSize) / perByte
    return (unpack(quantized!.data, start, column % blockSize) - zero) * scales!.data[row * blocks + block]!
  }
  return [
    generate(x!.dtype, [...x!.shape.slice(0, -1), rows], (index) => {
      const row = index.at(-1)!
      let sum = bias?.data[row] ?? 0
      for (let k = 0; k < columns; k++) sum += at(x!, [...index.slice(0, -1), k]) * weight(row, k)
      return sum
    }),
  ]
}

/** Integer product with a scale each: (a - a's zero point) · (b - b's), times both scales; b's may be one per column. */
const matMulIntegerToFloat: ReferenceOperator = ([a, b, aScale, bScale, aZero, bZero]) => {
  const [inner, columns] = b!.shape as [number, number]
  const perColumn = (tensor: ReferenceTensor | null | undefined, column: number): number =>
    !tensor ? 0 : tensor.data[tensor.data.length === 1 ? 0 : column]!
  return [
    generate('float32', [a!.shape[0]!, columns], ([row = 0, column = 0]) => {
      let sum = 0
      for (let k = 0; k < inner; k++) {
        sum += (at(a!, [row, k]) - perColumn(aZero, 0)) * (at(b!, [k, column]) - perColumn(bZero, column))
      }
      return sum * perColumn(aScale, 0) * perColumn(bScale, column)
    }),
  ]
}

const cast: ReferenceOperator = ([x], _attributes, node) => {
  const dtype = node.outputs[0]!.dtype
  const convert = (value: number): number =>
    dtype === 'bool' ? Number(value !== 0) : dtype.startsWith('float') ? value : Math.trunc(value)
  return [{ dtype, shape: x!.shape, data: x!.data.map(convert) }]
}

const same: ReferenceOperator = ([x]) => [x!]

/** Operator name → reference. */
export const REFERENCE_OPERATORS: ReadonlyMap<string, ReferenceOperator> = new Map(
  Object.entries<ReferenceOperator>({
    Add: binary((a, b) => a + b),
    Sub: binary((a, b) => a - b),
    Mul: binary((a, b) => a * b),
    Div: binary((a, b) => a / b),
    Pow: binary((a, b) => a ** b),
    Min: (inputs, attributes, node) => [inputs.reduce((a, b) => binary(Math.min)([a, b], attributes, node)[0]!)!],
    Max: (inputs, attributes, node) => [inputs.reduce((a, b) => binary(Math.max)([a, b], attributes, node)[0]!)!],
    Equal: binary((a, b) => Number(a === b), 'bool'),
    Less: binary((a, b) => Number(a < b), 'bool'),
    Greater: binary((a, b) => Number(a > b), 'bool'),
    LessOrEqual: binary((a, b) => Number(a <= b), 'bool'),
    GreaterOrEqual: binary((a, b) => Number(a >= b), 'bool'),
    And: binary((a, b) => a * b),
    Or: binary((a, b) => Math.max(a, b)),
    Not: unary((x) => 1 - x),
    Neg: unary((x) => -x),
    Abs: unary(Math.abs),
    Sign: unary(Math.sign),
    Exp: unary(Math.exp),
    Log: unary(Math.log),
    Sqrt: unary(Math.sqrt),
    Sin: unary(Math.sin),
    Cos: unary(Math.cos),
    Reciprocal: unary((x) => 1 / x),
    Sigmoid: unary(sigmoid),
    Tanh: unary(Math.tanh),
    IsNaN: unary((x) => Number(Number.isNaN(x)), 'bool'),
    QuickGelu: ([x], attributes) => {
      const alpha = readFloat(attributes, 'alpha', 1.702)
      return [{ ...x!, data: x!.data.map((value) => value * sigmoid(alpha * value)) }]
    },
    Identity: same,
    StopGradient: same,
    RowAttention: same,
    Cast: cast,
    Clip: ([x, low, high]) => [
      {
        ...x!,
        data: x!.data.map((value) => Math.min(Math.max(value, low?.data[0] ?? -Infinity), high?.data[0] ?? Infinity)),
      },
    ],
    Where: ([condition, a, b]) => {
      const shape = broadcastShape(condition!.shape, broadcastShape(a!.shape, b!.shape))
      return [generate(a!.dtype, shape, (index) => (at(condition!, index) !== 0 ? at(a!, index) : at(b!, index)))]
    },
    MatMul: product,
    FusedMatMul: product,
    Gemm: product,
    MatMulNBits: matMulNBits,
    MatMulIntegerToFloat: matMulIntegerToFloat,
    ReduceSum: reduction((values) => values.reduce((a, b) => a + b, 0)),
    ReduceMean: reduction((values) => values.reduce((a, b) => a + b, 0) / values.length),
    ReduceMax: reduction((values) => Math.max(...values)),
    ArgMax: argMax,
    Softmax: ([x], attributes) => [alongAxis(x!, readInt(attributes, 'axis', -1), softmaxLine)],
    LogSoftmax: ([x], attributes) => [
      alongAxis(x!, readInt(attributes, 'axis', -1), (values) => softmaxLine(values).map(Math.log)),
    ],
    SimplifiedLayerNormalization: ([x, weight], attributes) =>
      rmsNorm(x!, weight!, readFloat(attributes, 'epsilon', 1e-5)),
    SkipSimplifiedLayerNormalization: ([x, skip, weight, bias], attributes) => {
      const sum = generate(
        x!.dtype,
        x!.shape,
        (index) => at(x!, index) + at(skip!, index) + (bias ? at(bias, index) : 0),
      )
      const [normed, scale] = rmsNorm(sum, weight!, readFloat(attributes, 'epsilon', 1e-5))
      return [normed, scale, scale, sum]
    },
    RotaryEmbedding: rotary,
    Reshape: reshape,
    Unsqueeze: relabel(unsqueezed),
    Squeeze: relabel((shape, axes) =>
      shape.filter((_, axis) => !axes.some((given) => wrap(given, shape.length) === axis)),
    ),
    Transpose: ([x], attributes) => {
      const order = readInts(attributes, 'perm') ?? x!.shape.map((_, axis) => x!.shape.length - 1 - axis)
      const shape = order.map((axis) => x!.shape[axis]!)
      return [
        generate(x!.dtype, shape, (index) =>
          at(
            x!,
            order.map((_, axis) => index[order.indexOf(axis)]!),
          ),
        ),
      ]
    },
    Concat: concat,
    Split: split,
    Slice: slice,
    Pad: pad,
    Expand: ([x, target]) => [
      generate(x!.dtype, broadcastShape(x!.shape, Array.from(target!.data)), (index) => at(x!, index)),
    ],
    Tile: ([x, repeats]) => [
      generate(
        x!.dtype,
        x!.shape.map((size, axis) => size * repeats!.data[axis]!),
        (index) =>
          at(
            x!,
            index.map((i, axis) => i % x!.shape[axis]!),
          ),
      ),
    ],
    Shape: ([x], attributes) => {
      const shape = x!.shape.slice(readInt(attributes, 'start', 0), readInt(attributes, 'end', x!.shape.length))
      return [{ dtype: 'int64', shape: [shape.length], data: Float64Array.from(shape) }]
    },
    Size: ([x]) => [{ dtype: 'int64', shape: [], data: Float64Array.of(x!.data.length) }],
    ConstantOfShape: ([target], attributes) => {
      const value = attributes['value']
      const fill = value?.kind === 'tensor' ? toReference(value.value) : { dtype: 'float32' as const, data: [0] }
      return [generate(fill.dtype, Array.from(target!.data), () => fill.data[0]!)]
    },
    Range: ([start, limit, delta]) => {
      const count = Math.max(0, Math.ceil((limit!.data[0]! - start!.data[0]!) / delta!.data[0]!))
      return [generate(start!.dtype, [count], ([i]) => start!.data[0]! + i! * delta!.data[0]!)]
    },
    Gather: gather,
    GatherElements: gatherElements,
    GatherND: gatherND,
    ScatterElements: scatterElements,
    ScatterND: scatterND,
    TopK: topK,
    OneHot: oneHot,
    CumSum: cumSum,
  }),
)
