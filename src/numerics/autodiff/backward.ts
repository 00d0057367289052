/**
 * The reverse walk: gradients of values with respect to earlier ones, as nodes appended to the same graph.
 *
 * Knows no operator: rules are in `gradient-rules.ts`. Only nodes on a way from `wrt` to a seed are visited, so frozen weights
 * cost nothing. Gradients that meet are added in a fixed order.
 */
import { GraphError, MissingGradientError } from '#base/errors/errors.js'
import type { GraphBuilder } from '#numerics/graph/builder.js'
import { formatShape, isSameShape } from '#numerics/graph/dims.js'
import type { Node, Value } from '#numerics/graph/graph.js'
import { add } from '#numerics/graph/ops/elementwise.js'
import { printNode } from '#numerics/graph/print.js'
import { usedValues } from '#numerics/graph/traverse.js'
import { after } from './after.js'
import { GRADIENT_RULES, noGradient } from './gradient-rules.js'
import { type BlockOf, BlockReplay } from './recompute.js'
import { type GradientRule, zerosLike } from './rule.js'

// Makes parameter gradients run early: nothing else waits for them, so a runtime may leave them to the very end and keep every
// activation they need until then (ONNX Runtime does).
//
// When the walk enters a new block, the gradient that arrives there is made to wait for the parameter gradients of the block
// before (`after.ts`). Blocks are the first part of a scope: one decoder layer. Graphs without scopes are left alone.

/** Collects gradients of parameters during the reverse walk and ties the walk to them. */
class EarlyParameterGradients {
  readonly #g: GraphBuilder
  /** Values that depend on no activation: parameters, and what is made of them alone. */
  readonly #parameters: ReadonlySet<Value>
  #pending: Value[] = []
  #block = ''

  constructor(g: GraphBuilder, nodes: readonly Node[], wrt: readonly Value[]) {
    this.#g = g
    const made = new Set<Value>(nodes.flatMap((node) => node.outputs))
    const parameters = new Set<Value>(wrt.filter((value) => !made.has(value)))
    for (const node of nodes) {
      const used = usedValues(node).filter((value) => g.constantOf(value) === null)
      if (used.length === 0 || !used.every((value) => parameters.has(value))) continue
      for (const output of node.outputs) parameters.add(output)
    }
    this.#parameters = parameters
  }

  /** The gradients a node gets, waiting for the parameter gradients of the block the walk just left. */
  arrive(node: Node, gradients: readonly (Value | null)[]): readonly (Value | null)[] {
    const [block = ''] = node.scope.split('/')
    if (block === this.#block || node.outputs.some((output) => this.#parameters.has(output))) return gradients
    this.#block = block
    const pending = this.#pending
    this.#pending = []
    return gradients.map((gradient) => (gradient === null ? null : after(this.#g, gradient, pending)))
  }

  /** Notes what a rule made for parameters. */
  leave(node: Node, gradients: readonly (Value | null)[]): void {
    if (node.outputs.some((output) => this.#parameters.has(output))) return
    for (const [index, gradient] of gradients.entries()) {
      const input = node.inputs[index]
      if (gradient && input && this.#parameters.has(input)) this.#pending.push(gradient)
    }
  }
}

/** A value whose gradient is given: a loss with gradient 1, or hidden states with what a fused head computed. */
export interface Seed {
  readonly value: Value
  /** Same dtype and shape as `value`. */
  readonly gradient: Value
}

export interface BackwardOptions {
  /** Blocks whose inner values are computed again instead of kept; default none. See `recompute.ts`. */
  readonly recompute?: BlockOf | undefined
  /** Rules of operators that the caller made up; default none. */
  readonly rules?: ReadonlyMap<string, GradientRule> | undefined
}

/**
 * Appends the backward pass.
 *
 * @param seeds where gradients come from; several on one value add up
 * @param wrt values whose gradients are wanted: inputs, externals or results of nodes
 * @returns one gradient per `wrt`, same dtype and shape; zeros where no seed depends on it
 * @throws {MissingGradientError} `missing_gradient` naming the operator, with the nodes around it
 * @throws {GraphError} `bad_gradient` if a seed or a rule's result has another type than its value
 *
 * @example
 * const [dA] = backward(g, [{ value: loss, gradient: g.scalar(1) }], [loraA])
 */
export function backward(
  g: GraphBuilder,
  seeds: readonly Seed[],
  wrt: readonly Value[],
  options: BackwardOptions = {},
): readonly Value[] {
  const nodes = [...g.nodes]
  const isOnPath = pathFrom(nodes, wrt)
  const replay = options.recompute === undefined ? null : new BlockReplay(g, nodes, options.recompute)
  const gradients = new Map<Value, Value>()
  const accumulate = (value: Value, gradient: Value): void => {
    assertSameType(value, gradient)
    const known = gradients.get(value)
    gradients.set(value, known === undefined ? gradient : add(g, known, gradient))
  }
  g.withScope('backward', () => {
    for (const { value, gradient } of seeds) accumulate(value, gradient)
  })
  const early = new EarlyParameterGradients(g, nodes, wrt)
  for (const node of nodes.toReversed()) {
    const found = node.outputs.map((output) => (isOnPath.has(output) ? (gradients.get(output) ?? null) : null))
    if (found.every((gradient) => gradient === null)) continue
    const rule = GRADIENT_RULES.get(node.op) ?? options.rules?.get(node.op)
    if (rule === undefined) throw missingGradient(node, nodes)
    const leaving = g.withScope(`backward/${node.scope}`, () => {
      const arriving = early.arrive(node, found)
      const trigger = arriving.find((gradient) => gradient !== null)
      const seen = replay === null || !trigger ? node : replay.replay(node, trigger)
      const wants = (index: number): boolean => {
        const input = node.inputs[index]
        return input !== null && input !== undefined && isOnPath.has(input)
      }
      return rule({ g, node: seen, gradients: arriving, wants })
    })
    early.leave(node, leaving)
    g.withScope(`backward/${node.scope}`, () => {
      for (const [index, gradient] of leaving.entries()) {
        const input = node.inputs[index]
        if (gradient && input && isOnPath.has(input)) accumulate(input, gradient)
      }
    })
  }
  return g.withScope('backward', () => wrt.map((value) => gradients.get(value) ?? zerosFor(g, value, seeds)))
}

/** Everything that changes when one of `wrt` changes, the values themselves included. */
function pathFrom(nodes: readonly Node[], wrt: readonly Value[]): ReadonlySet<Value> {
  const path = new Set<Value>(wrt)
  for (const node of nodes) {
    if (GRADIENT_RULES.get(node.op) === noGradient) continue
    if (!usedValues(node).some((value) => path.has(value) && isFloat(value))) continue
    for (const output of node.outputs) if (isFloat(output)) path.add(output)
  }
  return path
}

function isFloat({ dtype }: Value): boolean {
  return dtype === 'float32' || dtype === 'float64' || dtype === 'float16' || dtype === 'bfloat16'
}

function zerosFor(g: GraphBuilder, value: Value, seeds: readonly Seed[]): Value {
  return zerosLike(g, value, seeds[0]?.gradient ?? value)
}

function assertSameType(value: Value, gradient: Value): void {
  if (value.dtype === gradient.dtype && isSameShape(value.shape, gradient.shape)) return
  throw new GraphError(
    'bad_gradient',
    `gradient of ${value.name} must be ${value.dtype} ${formatShape(value.shape)}, got ${gradient.dtype} ${formatShape(gradient.shape)}`,
  )
}

function missingGradient(node: Node, nodes: readonly Node[]): MissingGradientError {
  const near = nodes.filter(
    (other) =>
      other.outputs.some((value) => node.inputs.includes(value)) ||
      other.inputs.some((value) => value !== null && node.outputs.includes(value)),
  )
  const lines = nodes.filter((other) => other === node || near.includes(other))
  const picture = lines.map((line) => `${line === node ? '> ' : '  '}${printNode(line)}`).join('\n')
  const where = node.scope === '' ? '' : ` in ${node.scope}`
  return new MissingGradientError(`no gradient rule for ${node.op}${where}:\n${picture}`, {
    hint: 'add a rule to numerics/autodiff/gradient-rules.ts, or put stopGradient around the value',
  })
}
