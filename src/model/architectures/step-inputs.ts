/**
 * Inputs and weights of a step graph: each made once, whichever of its bodies asks first.
 */
import type { GraphBuilder } from '#numerics/graph/builder.js'
import type { Shape, Value } from '#numerics/graph/graph.js'
import type { DType } from '#numerics/tensor/dtype.js'
import type { HostTensor } from '#numerics/tensor/host-tensor.js'
import type { PreparedTensor } from './tensor-file.js'

export class StepInputs {
  readonly #g: GraphBuilder
  readonly #tensors: ReadonlyMap<string, PreparedTensor>
  readonly #known = new Map<string, Value>()

  /** @param g the graph itself, not one of its bodies */
  constructor(g: GraphBuilder, tensors: ReadonlyMap<string, PreparedTensor>) {
    this.#g = g
    this.#tensors = tensors
  }

  input(name: string, dtype: DType, shape: Shape): Value {
    return this.#once(name, () => this.#g.input(name, dtype, shape))
  }

  constant(name: string, tensor: () => HostTensor): Value {
    return this.#once(name, () => this.#g.constant(tensor(), name))
  }

  has(name: string): boolean {
    return this.#tensors.has(name)
  }

  /** A prepared tensor. */
  weight(name: string): Value {
    return this.#once(name, () => {
      const tensor = this.#tensors.get(name)
      if (tensor === undefined) throw new Error(`prepared model has no tensor "${name}"`)
      return this.#g.external(name, tensor.dtype, tensor.shape, tensor)
    })
  }

  #once(name: string, make: () => Value): Value {
    const value = this.#known.get(name) ?? make()
    this.#known.set(name, value)
    return value
  }
}
