/**
 * Gradient checkpointing by block: the backward pass computes a block's inner values again instead of keeping them.
 *
 * A block is all nodes whose scope maps to one key (for example one decoder layer). Its nodes are emitted a second time with
 * inputs that wait for the first gradient arriving at the block (`after.ts`), because a runtime that is free to order nodes
 * would otherwise run them early and save nothing. What enters a block is kept, as are the results of Loops and attention; what
 * depends only on weights, graph inputs and integers is not made again. Copies that no rule uses are dead: run `removeDead` on the built graph.
 * Source: Chen et al., "Training Deep Nets with Sublinear Memory Cost" (arXiv:1604.06174).
 */
import type { GraphBuilder } from '#numerics/graph/builder.js'
import type { Node, Value } from '#numerics/graph/graph.js'
import { hasSubgraph } from '#numerics/graph/traverse.js'
import { after } from './after.js'

/** The block a scope belongs to, or null for nodes whose values are kept. */
export type BlockOf = (scope: string) => string | null

/** Blocks by leading scope names: with depth 1, `layers.3/attention` and `layers.3/mlp_norm` are the block `layers.3`. */
export function blocksByScope(isBlock: (firstName: string) => boolean): BlockOf {
  return (scope) => {
    const [first = ''] = scope.split('/')
    return isBlock(first) ? first : null
  }
}

/** Replays blocks of a forward graph on demand. */
export class BlockReplay {
  readonly #g: GraphBuilder
  readonly #blockOf: BlockOf
  readonly #nodes: readonly Node[]
  readonly #madeBy = new Map<Value, Node>()
  readonly #replayed = new Map<string, ReadonlyMap<Value, Value>>()

  constructor(g: GraphBuilder, nodes: readonly Node[], blockOf: BlockOf) {
    this.#g = g
    this.#nodes = nodes
    this.#blockOf = blockOf
    for (const node of nodes) for (const output of node.outputs) this.#madeBy.set(output, node)
  }

  /** The node as a gradient rule should see it: with values that are made again after `trigger`, if it lies in a block. */
  replay(node: Node, trigger: Value): Node {
    const block = this.#blockOf(node.scope)
    if (block === null) return node
    let again = this.#replayed.get(block)
    if (again === undefined) {
      again = this.#emit(block, trigger)
      this.#replayed.set(block, again)
    }
    const values = again
    return {
      ...node,
      inputs: node.inputs.map((value) => (value === null ? null : (values.get(value) ?? value))),
      outputs: node.outputs.map((value) => values.get(value) ?? value),
    }
  }

  #emit(block: string, trigger: Value): ReadonlyMap<Value, Value> {
    const again = new Map<Value, Value>()
    for (const node of this.#nodes) {
      if (this.#blockOf(node.scope) !== block) continue
      if (isKept(node)) {
        for (const output of node.outputs) again.set(output, this.#wait(block, output, trigger))
        continue
      }
      for (const input of node.inputs) {
        if (input !== null && !again.has(input) && this.#enters(block, input)) {
          again.set(input, this.#wait(block, input, trigger))
        }
      }
      if (!node.inputs.some((input) => input !== null && again.has(input))) continue
      const inputs = node.inputs.map((input) => (input === null ? null : (again.get(input) ?? input)))
      const options = { domain: node.domain, outputs: node.outputs }
      const outputs = this.#g.withScope(`again/${node.scope}`, () =>
        this.#g.node(node.op, inputs, node.attributes, options),
      )
      for (const [index, output] of node.outputs.entries()) again.set(output, outputs[index] as Value)
    }
    return again
  }

  #wait(block: string, value: Value, trigger: Value): Value {
    return this.#g.withScope(`again/${block}`, () => after(this.#g, value, [trigger]))
  }

  /** Whether a value is an activation that another block made. */
  #enters(block: string, value: Value): boolean {
    const maker = this.#madeBy.get(value)
    return maker !== undefined && value.dtype === 'float32' && this.#blockOf(maker.scope) !== block
  }
}

/** Loops and attention are not run twice: their results are as small as what enters a block. */
function isKept(node: Node): boolean {
  return hasSubgraph(node) || node.op === 'RowAttention'
}
