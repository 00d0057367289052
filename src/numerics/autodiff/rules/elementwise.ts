/**
 * Gradients of elementwise operators that need more than a line.
 */
import {
  add,
  and,
  cast,
  greater,
  greaterOrEqual,
  less,
  lessOrEqual,
  log,
  mul,
  pow,
  sub,
  where,
} from '#numerics/graph/ops/elementwise.js'
import { type GradientRule, scalarLike, single, sumTo } from '../rule.js'

/** d x^p = p·x^(p−1) dx + x^p·log x dp. */
export const powRule: GradientRule = single(({ g, dy, y, x, wants }) => {
  const exponent = cast(g, x(1), dy.dtype)
  const slope = (): typeof dy => mul(g, exponent, pow(g, x(0), sub(g, exponent, scalarLike(g, dy, 1))))
  return [
    wants(0) ? sumTo(g, mul(g, dy, slope()), x(0).shape) : null,
    wants(1) ? cast(g, sumTo(g, mul(g, dy, mul(g, y, log(g, x(0)))), x(1).shape), x(1).dtype) : null,
  ]
})

/** Min and Max: the chosen operand gets the gradient; equal operands get half each. */
export function extremumRule(op: 'Min' | 'Max'): GradientRule {
  return single(({ g, dy, x, wants }) => {
    const wins = op === 'Min' ? less(g, x(0), x(1)) : greater(g, x(0), x(1))
    const draws = op === 'Min' ? lessOrEqual(g, x(0), x(1)) : greaterOrEqual(g, x(0), x(1))
    const twice = add(g, cast(g, wins, dy.dtype), cast(g, draws, dy.dtype)) // 2 taken, 1 equal, 0 not taken
    const first = mul(g, dy, mul(g, twice, scalarLike(g, dy, 0.5)))
    return [wants(0) ? sumTo(g, first, x(0).shape) : null, wants(1) ? sumTo(g, sub(g, dy, first), x(1).shape) : null]
  })
}

/** The gradient passes where x lies inside the bounds, bounds included. The bounds themselves get none. */
export const clipRule: GradientRule = single(({ g, node, dy, x }) => {
  const [, low, high] = node.inputs
  const inside = [...(low ? [greaterOrEqual(g, x(0), low)] : []), ...(high ? [lessOrEqual(g, x(0), high)] : [])]
  const [first, second] = inside
  if (first === undefined) return [dy, null, null]
  const isInside = second === undefined ? first : and(g, first, second)
  return [where(g, isInside, dy, scalarLike(g, dy, 0)), null, null].slice(0, node.inputs.length)
})
