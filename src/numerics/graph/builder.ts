/**
 * Builds graphs. Every node is checked against its operator's signature when it is made, so a wrong shape fails at the line that made it.
 *
 * The free functions in `ops/` are the vocabulary; `node` is for the rare operator without one. Values are immutable and
 * belong to the builder that made them; the builder of a Loop body may also use those of the builders around it.
 */
import { GraphError } from '#base/errors/errors.js'
import type { DType } from '#numerics/tensor/dtype.js'
import { float32Tensor, type HostTensor, int64Tensor } from '#numerics/tensor/host-tensor.js'
import type { Attributes } from './attributes.js'
import { canonicalDim, canonicalShape, dimTerms, formatShape, isSameShape } from './dims.js'
import type { Attribute, Dim, Graph, Initializer, Node, Shape, Value } from './graph.js'
import { describe, type ValueType } from './signatures/signature.js'
import { SIGNATURES } from './signatures/table.js'
import { substituteInputs } from './traverse.js'

/** Where an external constant lies: a file beside the model (or an absolute path below its directory). */
export interface ExternalLocation {
  readonly file: string
  readonly offsetBytes: number
  readonly sizeBytes: number
}

export interface NodeOptions {
  /** Default: where the operator's signature says, else ONNX's own. */
  readonly domain?: Node['domain']
  /** Types of the outputs, when the operator has no signature or its result depends on data. */
  readonly outputs?: readonly ValueType[]
}

/** Mutable state that a builder shares with the builders of its Loop bodies. */
interface SharedState {
  readonly names: Set<string>
  /** Last number given to a name stem. */
  readonly counters: Map<string, number>
  readonly constants: Map<Value, HostTensor>
  readonly constantsByKey: Map<string, Value>
}

/**
 * A graph under construction.
 *
 * @example
 * const g = new GraphBuilder('linear')
 * const x = g.input('x', 'float32', ['B', 8])
 * const w = g.constant(float32Tensor(new Float32Array(32), [4, 8]))
 * g.output(gemm(g, x, w, { transB: true }), 'y')
 * await writeOnnxModel(g.build(), 'linear.onnx')
 */
export class GraphBuilder {
  readonly name: string
  readonly #parent: GraphBuilder | null
  readonly #shared: SharedState
  readonly #inputs: Value[] = []
  readonly #initializers: Initializer[] = []
  readonly #nodes: Node[] = []
  readonly #outputs: { readonly value: Value; readonly name: string }[] = []
  readonly #values = new Set<Value>()
  readonly #symbolValues = new Map<string, Value>()
  #scope: string

  constructor(name: string, parent: GraphBuilder | null = null) {
    this.name = name
    this.#parent = parent
    this.#shared =
      parent === null
        ? { names: new Set(), counters: new Map(), constants: new Map(), constantsByKey: new Map() }
        : parent.#shared
    this.#scope = parent?.currentScope ?? ''
  }

  /** Nodes made so far, in topological order. */
  get nodes(): readonly Node[] {
    return this.#nodes
  }

  /** Where new nodes are placed, for example `layers.3/attention`; empty at the top. */
  get currentScope(): string {
    return this.#scope
  }

  /** An input of the model. Its name is kept as given. */
  input(name: string, dtype: DType, shape: Shape): Value {
    const value = this.#value(this.#reserve(name), dtype, canonicalShape(shape))
    this.#inputs.push(value)
    return value
  }

  /** A constant whose bytes lie in another file and are mapped when the model is loaded. */
  external(name: string, dtype: DType, shape: Shape, location: ExternalLocation): Value {
    if (this.#parent !== null) return this.#parent.external(name, dtype, shape, location)
    const value = this.#value(this.#reserve(name), dtype, canonicalShape(shape))
    this.#initializers.push({ kind: 'external', value, ...location })
    return value
  }

  /** A constant inside the model. For weights use `external` or an input. */
  constant(data: HostTensor, name?: string): Value {
    if (this.#parent !== null) return this.#parent.constant(data, name)
    const valueName = name === undefined ? this.freshName(`const_${data.dtype}`) : this.#reserve(name)
    const value = this.#value(valueName, data.dtype, canonicalShape(data.shape))
    this.#initializers.push({ kind: 'inline', value, data })
    this.#shared.constants.set(value, data)
    return value
  }

  /** A float32 scalar; equal numbers share one constant. */
  scalar(number: number): Value {
    return this.#sharedConstant(`f:${Object.is(number, -0) ? '-0' : number}`, () =>
      float32Tensor(Float32Array.of(number), []),
    )
  }

  /** An int64 vector; equal lists share one constant. */
  int64s(values: readonly number[]): Value {
    return this.#sharedConstant(`i:${values.join(',')}`, () => int64Tensor(values))
  }

  /** An int64 scalar. */
  int64Scalar(value: number): Value {
    return this.#sharedConstant(`s:${value}`, () => int64Tensor([value], []))
  }

  /** The tensor behind an inline constant, null for anything else. */
  constantOf(value: Value): HostTensor | null {
    return this.#shared.constants.get(value) ?? null
  }

  /** Whether `value` was made by this builder or by one around it. */
  has(value: Value): boolean {
    return this.#values.has(value) || (this.#parent?.has(value) ?? false)
  }

  /**
   * Appends a node.
   *
   * @returns its outputs, with types from the operator's signature or, where that cannot know them, from `options.outputs`
   * @throws {GraphError} `bad_operand` if the inputs do not fit the operator; `unknown_type` if nobody knows the outputs;
   *   `foreign_value` if an input belongs to another graph
   */
  node(
    op: string,
    inputs: readonly (Value | null)[],
    attributes: Attributes = {},
    options: NodeOptions = {},
  ): readonly Value[] {
    for (const input of inputs) {
      if (input !== null && !this.has(input)) {
        throw new GraphError('foreign_value', `${op} in "${this.name}" uses ${input.name}, which another graph made`)
      }
    }
    const types = this.#outputTypes(op, inputs, attributes, options)
    const outputs = types.map(({ dtype, shape }) =>
      this.#value(this.freshName(op.toLowerCase()), dtype, canonicalShape(shape)),
    )
    const domain = options.domain ?? SIGNATURES.get(op)?.domain ?? ''
    this.#nodes.push(Object.freeze({ op, domain, inputs, outputs, attributes, scope: this.#scope }))
    return outputs
  }

  /** Declares an output. The name is the one sessions return it under. A value may be an output only once. */
  output(value: Value, name: string): void {
    if (!this.has(value)) {
      throw new GraphError('foreign_value', `output "${name}" of "${this.name}" was made by another graph`)
    }
    const isNodeOutput = this.#nodes.some((node) => node.outputs.includes(value))
    const isTaken = this.#outputs.some((output) => output.value === value)
    // Inputs, constants and values that are outputs already need a node of their own to carry the new name.
    const own = isNodeOutput && !isTaken ? value : (this.node('Identity', [value])[0] as Value)
    this.#outputs.push({ value: own, name: this.#reserve(name) })
  }

  /** Runs `build` with `name` appended to the scope of the nodes it makes. */
  scope<T>(name: string, build: () => T): T {
    return this.withScope(this.#scope === '' ? name : `${this.#scope}/${name}`, build)
  }

  /** Runs `build` with the scope set to `path`, whatever it is now. */
  withScope<T>(path: string, build: () => T): T {
    const outer = this.#scope
    this.#scope = path
    try {
      return build()
    } finally {
      this.#scope = outer
    }
  }

  /**
   * Checks a shape while the graph is built; costs nothing at run time.
   *
   * @returns the value, so that the check can wrap the expression that makes it
   * @throws {GraphError} `unexpected_shape`
   */
  expectShape(value: Value, shape: Shape): Value {
    const expected = canonicalShape(shape)
    if (!isSameShape(value.shape, expected)) {
      const where = this.#scope === '' ? '' : ` in ${this.#scope}`
      throw new GraphError(
        'unexpected_shape',
        `${value.name}${where} has shape ${formatShape(value.shape)}, expected ${formatShape(expected)}`,
      )
    }
    return value
  }

  /**
   * A size as an int64 vector of one element, computed at run time from the tensors that have it.
   *
   * @throws {GraphError} `unknown_dimension` if no value of the graph has a symbol of `dim` as a whole axis
   */
  dimValue(dim: Dim): Value {
    const canonical = canonicalDim(dim)
    if (typeof canonical === 'number') return this.int64s([canonical])
    let total: Value | null = null
    for (const { coefficient, symbols } of dimTerms(canonical)) {
      let term: Value | null = symbols.length === 0 ? this.int64s([coefficient]) : null
      for (const symbol of symbols) {
        const size = this.#symbolValue(symbol)
        term = term === null ? size : (this.node('Mul', [term, size])[0] as Value)
      }
      if (coefficient !== 1 && symbols.length > 0)
        term = this.node('Mul', [term, this.int64s([coefficient])])[0] as Value
      total = total === null ? term : (this.node('Add', [total, term])[0] as Value)
    }
    return total ?? this.int64s([0])
  }

  /** A shape as an int64 vector: a constant if all sizes are known. */
  shapeValue(shape: Shape): Value {
    if (shape.every((dim) => typeof dim === 'number')) return this.int64s(shape as readonly number[])
    if (shape.length === 1) return this.dimValue(shape[0] as Dim)
    const parts: Value[] = []
    let known: number[] = []
    const flush = (): void => {
      if (known.length > 0) parts.push(this.int64s(known))
      known = []
    }
    for (const dim of shape) {
      if (typeof dim === 'number') known.push(dim)
      else {
        flush()
        parts.push(this.dimValue(dim))
      }
    }
    flush()
    return this.node('Concat', parts, { axis: { kind: 'int', value: 0 } })[0] as Value
  }

  /** A name nothing in the graph has yet: `stem_1`, `stem_2`, … */
  freshName(stem: string): string {
    let name: string
    do {
      const number = (this.#shared.counters.get(stem) ?? 0) + 1
      this.#shared.counters.set(stem, number)
      name = `${stem}_${number}`
    } while (this.#shared.names.has(name))
    this.#shared.names.add(name)
    return name
  }

  /** Builds the body of a Loop; it may use values of this builder. */
  subgraph(name: string, build: (body: GraphBuilder) => void): Graph {
    const body = new GraphBuilder(name, this)
    build(body)
    return body.build()
  }

  /** The finished graph. Values that are outputs carry their output's name in it. */
  build(): Graph {
    const renamed = new Map<Value, Value>()
    for (const { value, name } of this.#outputs) renamed.set(value, Object.freeze({ ...value, name }))
    const nodes = this.#nodes.map((node) => {
      const next = substituteInputs(node, renamed)
      if (!next.outputs.some((value) => renamed.has(value))) return next
      return Object.freeze({ ...next, outputs: next.outputs.map((value) => renamed.get(value) ?? value) })
    })
    return Object.freeze({
      name: this.name,
      inputs: [...this.#inputs],
      outputs: this.#outputs.map(({ value }) => renamed.get(value) ?? value),
      initializers: [...this.#initializers],
      nodes,
    })
  }

  #outputTypes(
    op: string,
    inputs: readonly (Value | null)[],
    attributes: Readonly<Record<string, Attribute>>,
    options: NodeOptions,
  ): readonly ValueType[] {
    const constantOf = (value: Value): HostTensor | null => this.constantOf(value)
    const inferred = SIGNATURES.get(op)?.infer({ op, inputs, attributes, constantOf }) ?? null
    const types = options.outputs ?? inferred
    if (types === null) {
      const given = inputs.map((value) => (value === null ? 'none' : describe(value))).join(', ')
      throw new GraphError('unknown_type', `${op}(${given}) has outputs of unknown type`, {
        hint: 'pass options.outputs with dtype and shape of each output',
      })
    }
    return types
  }

  /** The run-time size of one symbol, from the first value that has it as an axis; inputs are preferred. */
  #symbolValue(symbol: string): Value {
    const known = this.#findSymbol(symbol)
    if (known !== null) return known
    const source = this.#findAxis(symbol)
    if (source === null) {
      throw new GraphError('unknown_dimension', `no tensor of graph "${this.name}" has an axis of size ${symbol}`)
    }
    const { owner, value, axis } = source
    const attributes: Attributes = { start: { kind: 'int', value: axis }, end: { kind: 'int', value: axis + 1 } }
    const size = owner.withScope('', () => owner.node('Shape', [value], attributes)[0] as Value)
    owner.#symbolValues.set(symbol, size)
    return size
  }

  #findSymbol(symbol: string): Value | null {
    const outer = this.#parent === null ? null : this.#parent.#findSymbol(symbol)
    return outer ?? this.#symbolValues.get(symbol) ?? null
  }

  #findAxis(symbol: string): { owner: GraphBuilder; value: Value; axis: number } | null {
    const outer = this.#parent === null ? null : this.#parent.#findAxis(symbol)
    if (outer !== null) return outer
    for (const value of [...this.#inputs, ...this.#values]) {
      const axis = value.shape.indexOf(symbol)
      if (axis >= 0) return { owner: this, value, axis }
    }
    return null
  }

  #sharedConstant(key: string, make: () => HostTensor): Value {
    const known = this.#shared.constantsByKey.get(key)
    if (known !== undefined) return known
    const value = this.constant(make())
    this.#shared.constantsByKey.set(key, value)
    return value
  }

  #value(name: string, dtype: DType, shape: Shape): Value {
    const value: Value = Object.freeze({ name, dtype, shape })
    this.#values.add(value)
    return value
  }

  #reserve(name: string): string {
    if (this.#shared.names.has(name))
      throw new GraphError('duplicate_name', `graph "${this.name}" uses the name "${name}" twice`)
    this.#shared.names.add(name)
    return name
  }
}
