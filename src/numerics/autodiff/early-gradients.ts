/**
 * Makes parameter gradients run early: nothing else waits for them, so a runtime may leave them to the very end and keep every
 * activation they need until then (ONNX Runtime does).
 *
 * When the walk enters a new block, the gradient that arrives there is made to wait for the parameter gradients of the block
 * before (`after.ts`). Blocks are the first part of a scope: one decoder layer. Graphs without scopes are left alone.
 */
import type { GraphBuilder } from '#numerics/graph/builder.js'
import type { Node, Value } from '#numerics/graph/graph.js'
import { usedValues } from '#numerics/graph/traverse.js'
import { after } from './after.js'

/** Collects gradients of parameters during the reverse walk and ties the walk to them. */
export class EarlyParameterGradients {
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
