/**
 * Linear layers as products of 8-bit integers, with a scale for each row of the input and for each output.
 *
 * A row's scale comes from that row alone and integer sums are exact, so a row's result does not depend on who shares the
 * product; ONNX Runtime's own dynamic quantization has one scale for the whole tensor. Inputs are smoothed first: a channel that
 * is often large is divided by a factor its weights are multiplied by, or it would take the small ones' precision. Where
 * inputs have rare extremes they are given as two integers, x = s (q1 + q2 / 254), for two products.
 * Source: SmoothQuant (arXiv:2211.10438) with its alpha of 0.5.
 */
import type { Attributes } from '#numerics/graph/attributes.js'
import { int } from '#numerics/graph/attributes.js'
import type { GraphBuilder } from '#numerics/graph/builder.js'
import { multiplyDims } from '#numerics/graph/dims.js'
import type { Dim, Value } from '#numerics/graph/graph.js'
import { add, mul } from '#numerics/graph/ops/elementwise.js'
import type { ValueType } from '#numerics/graph/signatures/signature.js'
import { float32Tensor } from '#numerics/tensor/host-tensor.js'

/** A quantized weight: `y[n] = sum_k x[k] / smoothing[k] * quantized[k, n] * scales[n]`. */
export interface IntegerWeight {
  /** int8 [K, N] */
  readonly quantized: Value
  /** float32 [N] */
  readonly scales: Value
  /** float32 [K], 1 / smoothing; null where channels are taken as they are */
  readonly inverseSmoothing: Value | null
  /** Integers per input value: 1 or 2. */
  readonly terms: 1 | 2
  /** Inputs have many rows: more operators that read and write fewer numbers, the same result but for rounding. Default false. */
  readonly hasManyRows?: boolean
  /** Inputs may have no row at all. Default false. */
  readonly mayBeEmpty?: boolean
}

const LARGEST = 127
const ZERO_POINT = 128
/** A second term covers half a step of the first in each direction. */
const TERM_RATIO = 2 * LARGEST

/**
 * The product of `x` [M, K] and a quantized weight: [M, N].
 *
 * @param zeroPoints uint8 [M], all 128
 */
export function integerLinear(g: GraphBuilder, x: Value, weight: IntegerWeight, zeroPoints: Value): Value {
  const rows = x.shape[0] as Dim
  const smooth = weight.inverseSmoothing === null ? x : mul(g, x, weight.inverseSmoothing)
  const largest = largestOf(g, smooth, weight.hasManyRows === true)
  const scales = mul(g, largest, g.constant(float32Tensor(Float32Array.of(1 / LARGEST), [1])))
  const first = quantize(g, smooth, scales, zeroPoints)
  if (weight.terms === 1) return scaled(g, first, weight, scales, rows)
  const known = one(
    g,
    'DequantizeLinear',
    [first, scales, zeroPoints],
    { axis: int(0) },
    { dtype: 'float32', shape: x.shape },
  )
  const rest = one(g, 'Sub', [smooth, known])
  const restScales = mul(g, scales, g.constant(float32Tensor(Float32Array.of(1 / TERM_RATIO), [1])))
  const second = quantize(g, rest, restScales, zeroPoints)
  if (weight.hasManyRows === true) {
    const unit = g.constant(float32Tensor(Float32Array.of(1), []))
    const ratio = g.constant(float32Tensor(Float32Array.of(1 / TERM_RATIO), []))
    const sums = one(g, 'Add', [codeProduct(g, first, weight, unit), codeProduct(g, second, weight, ratio)])
    return byRow(g, sums, scales, rows)
  }
  // One product of twice as many rows: few rows cost what it takes to read the weights, which is then done once.
  const columns = weight.scales.shape[0] as Dim
  const twice = multiplyDims(rows, 2)
  const codes = one(
    g,
    'Concat',
    [first, second],
    { axis: int(0) },
    { dtype: 'uint8', shape: [twice, x.shape[1] as Dim] },
  )
  const bothScales = one(g, 'Concat', [scales, restScales], { axis: int(0) }, { dtype: 'float32', shape: [twice] })
  const both = scaled(g, codes, weight, bothScales, twice)
  const type = { dtype: 'float32', shape: [rows, columns] } as const
  // not ReduceSum over [2, rows, columns]: it takes four times as long as both of these
  if (weight.mayBeEmpty !== true) {
    const halves = g.node('Split', [both], { axis: int(0), num_outputs: int(2) }, { outputs: [type, type] })
    return add(g, halves[0] as Value, halves[1] as Value)
  }
  // Split refuses to cut nothing into two
  const count = one(g, 'Shape', [zeroPoints], {}, { dtype: 'int64', shape: [1] })
  const upper = one(g, 'Slice', [both, g.int64s([0]), count, g.int64s([0])], {}, type)
  const lower = one(g, 'Slice', [both, count, g.int64s([Number.MAX_SAFE_INTEGER]), g.int64s([0])], {}, type)
  return add(g, upper, lower)
}

/** Integer product of codes [rows, K] and the weight, times the scales of its rows and outputs. */
function scaled(g: GraphBuilder, codes: Value, weight: IntegerWeight, rowScales: Value, rows: Dim): Value {
  const unit = g.constant(float32Tensor(Float32Array.of(1), []))
  return byRow(g, codeProduct(g, codes, weight, unit), rowScales, rows)
}

/** Integer product of codes [rows, K] and the weight, times the scales of its outputs and one number. */
function codeProduct(g: GraphBuilder, codes: Value, weight: IntegerWeight, scale: Value): Value {
  const zero = g.constant({ dtype: 'uint8', shape: [], data: Uint8Array.of(ZERO_POINT) })
  return one(
    g,
    'MatMulIntegerToFloat',
    [codes, weight.quantized, scale, weight.scales, zero],
    {},
    { dtype: 'float32', shape: [codes.shape[0] as Dim, weight.scales.shape[0] as Dim] },
  )
}

function byRow(g: GraphBuilder, sums: Value, scales: Value, rows: Dim): Value {
  return mul(g, sums, one(g, 'Unsqueeze', [scales, g.int64s([1])], {}, { dtype: 'float32', shape: [rows, 1] }))
}

/** The largest magnitude of each row, [M]. */
function largestOf(g: GraphBuilder, x: Value, hasManyRows: boolean): Value {
  const reduce = (op: string, input: Value): Value =>
    one(g, op, [input, g.int64s([1])], { keepdims: int(0) }, { dtype: 'float32', shape: [x.shape[0] as Dim] })
  if (!hasManyRows) return reduce('ReduceMax', one(g, 'Abs', [x]))
  return one(g, 'Max', [reduce('ReduceMax', x), one(g, 'Neg', [reduce('ReduceMin', x)])])
}

function quantize(g: GraphBuilder, x: Value, scales: Value, zeroPoints: Value): Value {
  return one(g, 'QuantizeLinear', [x, scales, zeroPoints], { axis: int(0) }, { dtype: 'uint8', shape: x.shape })
}

function one(
  g: GraphBuilder,
  op: string,
  inputs: readonly Value[],
  attributes: Attributes = {},
  type?: ValueType,
): Value {
  const [output] = g.node(op, inputs, attributes, type === undefined ? {} : { outputs: [type] })
  if (output === undefined) throw new Error(`${op} has an output`)
  return output
}
