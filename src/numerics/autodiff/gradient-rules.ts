/**
 * The index of gradients: operator → how the gradients of its inputs follow from those of its outputs. Flat on purpose.
 *
 * Products never transpose a matrix in memory: the flags of Gemm and FusedMatMul read it the other way round.
 * Where a derivative does not exist the convention is PyTorch's: Clip passes the gradient on its bounds, equal operands of Min
 * and Max get half each, equal greatest elements of ReduceMax share it.
 * Tested operator by operator against central differences of a float64 reference (`test/integration/numerics/ops*.test.ts`).
 */
import { readFloat } from '#numerics/graph/attributes.js'
import { add, cast, cos, div, mul, neg, sigmoid, sign, sin, sub, where } from '#numerics/graph/ops/elementwise.js'
import { type GradientRule, scalarLike, single, sumTo, unary } from './rule.js'
import { rowAttentionRule } from './rules/attention.js'
import { clipRule, extremumRule, powRule } from './rules/elementwise.js'
import {
  cumSumRule,
  gatherElementsRule,
  gatherNDRule,
  gatherRule,
  scatterElementsRule,
  scatterNDRule,
  topKRule,
} from './rules/indexing.js'
import { gemmRule, productRule } from './rules/matmul.js'
import {
  logSoftmaxRule,
  reduceMaxRule,
  reduceMeanRule,
  reduceSumRule,
  rmsNormRule,
  rotaryRule,
  skipRmsNormRule,
  softmaxRule,
} from './rules/normalize.js'
import { concatRule, expandRule, padRule, relabelRule, sliceRule, splitRule, transposeRule } from './rules/shape.js'

/** The rule of operators whose outputs do not change with their inputs, or are declared not to: the walk stops there. */
export const noGradient: GradientRule = ({ node }) => node.inputs.map(() => null)

/** Operator → rule. An operator that is missing here has no gradient yet, which is an error only on the way to a parameter. */
export const GRADIENT_RULES: ReadonlyMap<string, GradientRule> = new Map(
  Object.entries<GradientRule>({
    // Elementwise, two operands
    Add: single(({ g, dy, x, wants }) => [0, 1].map((i) => (wants(i) ? sumTo(g, dy, x(i).shape) : null))),
    Sub: single(({ g, dy, x, wants }) => [
      wants(0) ? sumTo(g, dy, x(0).shape) : null,
      wants(1) ? neg(g, sumTo(g, dy, x(1).shape)) : null,
    ]),
    Mul: single(({ g, dy, x, wants }) => [
      wants(0) ? sumTo(g, mul(g, dy, x(1)), x(0).shape) : null,
      wants(1) ? sumTo(g, mul(g, dy, x(0)), x(1).shape) : null,
    ]),
    Div: single(({ g, dy, y, x, wants }) => {
      const quotient = div(g, dy, x(1))
      return [
        wants(0) ? sumTo(g, quotient, x(0).shape) : null,
        wants(1) ? neg(g, sumTo(g, mul(g, quotient, y), x(1).shape)) : null,
      ]
    }),
    Pow: powRule,
    Min: extremumRule('Min'),
    Max: extremumRule('Max'),
    Where: single(({ g, dy, x, wants }) => {
      const zero = scalarLike(g, dy, 0)
      return [
        null,
        wants(1) ? sumTo(g, where(g, x(0), dy, zero), x(1).shape) : null,
        wants(2) ? sumTo(g, where(g, x(0), zero, dy), x(2).shape) : null,
      ]
    }),

    // Attention of whole rows
    RowAttention: rowAttentionRule,

    // Elementwise, one operand
    Neg: unary(({ g, dy }) => neg(g, dy)),
    Abs: unary(({ g, dy, x }) => mul(g, dy, sign(g, x(0)))),
    Exp: unary(({ g, dy, y }) => mul(g, dy, y)),
    Log: unary(({ g, dy, x }) => div(g, dy, x(0))),
    Sqrt: unary(({ g, dy, y }) => div(g, dy, mul(g, y, scalarLike(g, y, 2)))),
    Sin: unary(({ g, dy, x }) => mul(g, dy, cos(g, x(0)))),
    Cos: unary(({ g, dy, x }) => neg(g, mul(g, dy, sin(g, x(0))))),
    Reciprocal: unary(({ g, dy, y }) => neg(g, mul(g, dy, mul(g, y, y)))),
    Sigmoid: unary(({ g, dy, y }) => mul(g, dy, mul(g, y, sub(g, scalarLike(g, y, 1), y)))),
    Tanh: unary(({ g, dy, y }) => mul(g, dy, sub(g, scalarLike(g, y, 1), mul(g, y, y)))),
    Clip: clipRule,
    Cast: unary(({ g, dy, x }) => cast(g, dy, x(0).dtype)),
    Identity: unary(({ dy }) => dy),
    // y = x·s with s = sigmoid(αx): dy/dx = s + α·y·(1 − s)
    QuickGelu: unary(({ g, node, dy, y, x }) => {
      const alpha = readFloat(node.attributes, 'alpha', 1.702)
      const s = sigmoid(g, alpha === 1 ? x(0) : mul(g, x(0), scalarLike(g, y, alpha)))
      const rest = mul(g, alpha === 1 ? y : mul(g, y, scalarLike(g, y, alpha)), sub(g, scalarLike(g, y, 1), s))
      return mul(g, dy, add(g, s, rest))
    }),

    // Matrix products
    MatMul: productRule,
    FusedMatMul: productRule,
    Gemm: gemmRule,

    // Reductions and normalizers
    ReduceSum: reduceSumRule,
    ReduceMean: reduceMeanRule,
    ReduceMax: reduceMaxRule,
    Softmax: softmaxRule,
    LogSoftmax: logSoftmaxRule,
    SimplifiedLayerNormalization: rmsNormRule,
    SkipSimplifiedLayerNormalization: skipRmsNormRule,
    RotaryEmbedding: rotaryRule,

    // Shape
    Reshape: relabelRule,
    Unsqueeze: relabelRule,
    Squeeze: relabelRule,
    Transpose: transposeRule,
    Concat: concatRule,
    Split: splitRule,
    Slice: sliceRule,
    Pad: padRule,
    Expand: expandRule,

    // Index
    Gather: gatherRule,
    GatherElements: gatherElementsRule,
    GatherND: gatherNDRule,
    ScatterElements: scatterElementsRule,
    ScatterND: scatterNDRule,
    TopK: topKRule,
    CumSum: cumSumRule,

    // Nothing flows back
    StopGradient: noGradient,
    Sign: noGradient,
    Shape: noGradient,
    Size: noGradient,
    Range: noGradient,
    ConstantOfShape: noGradient,
    OneHot: noGradient,
    ArgMax: noGradient,
    IsNaN: noGradient,
    Equal: noGradient,
    Less: noGradient,
    Greater: noGradient,
    LessOrEqual: noGradient,
    GreaterOrEqual: noGradient,
    And: noGradient,
    Or: noGradient,
    Not: noGradient,
  }),
)
