/**
 * The same computation in operators that a device computes, and computes right.
 *
 * What a device needs is a row of `RULES`; a graph for the CPU is returned as it is, so that no bit of its results changes. Results on
 * a device differ from the CPU's by rounding (1e-4 of the largest number of a tensor was seen). Knows nothing of runtimes.
 */
import type { Device } from '#numerics/tensor/device.js'
import { float32Tensor, type HostTensor, int64Tensor } from '#numerics/tensor/host-tensor.js'
import { canonicalShape } from '../dims.js'
import type { Graph, Initializer, Node, Value } from '../graph.js'
import { mapSubgraphs, usedValues } from '../traverse.js'
import {
  type DeviceRule,
  dimMayBeZero,
  type Emitter,
  innerNeverZero,
  inverseRmsByHand,
  logSoftmaxByParts,
  productByParts,
} from './device-rewrites.js'

/** Rules by operator, in the order in which they apply: what one makes the next one may change. */
const RULES: Readonly<Record<Exclude<Device, 'cpu'>, Readonly<Record<string, DeviceRule>>>> = {
  webgpu: {
    SimplifiedLayerNormalization: inverseRmsByHand,
    FusedMatMul: productByParts,
    LogSoftmax: logSoftmaxByParts,
    MatMul: innerNeverZero,
    Gemm: innerNeverZero,
  },
  // Its kernels of the others are not known to be wrong; nobody has run them here. A device that is asked for is compared with the CPU first.
  cuda: { MatMul: innerNeverZero, Gemm: innerNeverZero, FusedMatMul: productByParts },
}

export interface ForDeviceOptions {
  /** Symbols of sizes that are at least 1 in every run; products over them are left as they are. Default: any may be 0. */
  readonly neverZero?: readonly string[]
}

/** Begins the names of new values; builders begin theirs with an operator's. */
const PREFIX = 'device_'

/**
 * A graph for a device, with the same inputs and outputs. Bodies of Loop and If are rewritten too.
 *
 * @returns the very graph where the device is the CPU
 * @throws {GraphError} `no_device_rule` where a defect of the device is known and cannot be gone around
 *
 * @example
 * const model = toOnnxModel(forDevice(graph, 'webgpu'), path)
 */
export function forDevice(graph: Graph, device: Device, { neverZero = [] }: ForDeviceOptions = {}): Graph {
  if (device === 'cpu') return graph
  const pass = new Pass(RULES[device], readValues(graph), namesOf(graph), new Set(neverZero))
  const rewritten = pass.rewrite(graph)
  return { ...rewritten, initializers: [...rewritten.initializers, ...pass.constants] }
}

class Pass {
  /** Of the outermost graph, where bodies find them too. */
  readonly constants: Initializer[] = []
  readonly #rules: Readonly<Record<string, DeviceRule>>
  readonly #read: ReadonlySet<Value>
  readonly #names: Set<string>
  readonly #neverZero: ReadonlySet<string>
  readonly #constantOf = new Map<string, Value>()
  #count = 0

  constructor(
    rules: Readonly<Record<string, DeviceRule>>,
    read: ReadonlySet<Value>,
    names: Set<string>,
    neverZero: ReadonlySet<string>,
  ) {
    this.#rules = rules
    this.#read = read
    this.#names = names
    this.#neverZero = neverZero
  }

  rewrite(graph: Graph): Graph {
    const nodes: Node[] = []
    for (const original of graph.nodes)
      this.#expand(
        mapSubgraphs(original, (body) => this.rewrite(body)),
        nodes,
      )
    return { ...graph, nodes }
  }

  /** A node, or what is there in its place; new nodes may have a rule of their own. */
  #expand(node: Node, nodes: Node[]): void {
    const rule = this.#rules[node.op]
    if (rule === undefined) {
      nodes.push(node)
      return
    }
    const emitted: Node[] = []
    const left = rule(node, {
      emit: this.#emitter(node.scope, emitted),
      isRead: (value) => this.#read.has(value),
      mayBeZero: (dim) => dimMayBeZero(dim, this.#neverZero),
    })
    for (const each of emitted) this.#expand(each, nodes)
    if (left === null) return
    if (left.op === node.op) nodes.push(left)
    else this.#expand(left, nodes)
  }

  #emitter(scope: string, nodes: Node[]): Emitter {
    return {
      one: (op, inputs, { shape, attributes = {}, into }) => {
        const dtype = inputs[0]?.dtype ?? 'float32'
        const output = into ?? this.#value(op.toLowerCase(), { dtype, shape })
        nodes.push({ op, domain: '', inputs, outputs: [output], attributes, scope })
        return output
      },
      scalar: (value) => this.#constant(float32Tensor(Float32Array.of(value), [])),
      int64s: (values) => this.#constant(int64Tensor(values)),
      unread: (like) => this.#value('unread', like),
    }
  }

  #constant(data: HostTensor): Value {
    const key = `${data.dtype} ${data.shape.join(',')} ${data.data.join(',')}`
    const known = this.#constantOf.get(key)
    if (known !== undefined) return known
    const value = this.#value('const', data)
    this.constants.push({ kind: 'inline', value, data })
    this.#constantOf.set(key, value)
    return value
  }

  #value(stem: string, { dtype, shape }: Pick<Value, 'dtype' | 'shape'>): Value {
    let name: string
    do {
      this.#count += 1
      name = `${PREFIX}${stem}_${this.#count}`
    } while (this.#names.has(name))
    this.#names.add(name)
    return { name, dtype, shape: canonicalShape(shape) }
  }
}

/** All values that something reads, in bodies too. */
function readValues(graph: Graph): ReadonlySet<Value> {
  const read = new Set<Value>(graph.outputs)
  for (const node of graph.nodes) for (const value of usedValues(node)) read.add(value)
  for (const body of bodiesOf(graph)) for (const value of readValues(body)) read.add(value)
  return read
}

function namesOf(graph: Graph): Set<string> {
  const names = new Set<string>()
  for (const { name } of graph.inputs) names.add(name)
  for (const { value } of graph.initializers) names.add(value.name)
  for (const node of graph.nodes) for (const { name } of node.outputs) names.add(name)
  for (const body of bodiesOf(graph)) for (const name of namesOf(body)) names.add(name)
  return names
}

function bodiesOf(graph: Graph): readonly Graph[] {
  return graph.nodes.flatMap(({ attributes }) =>
    Object.values(attributes).flatMap((attribute) => (attribute.kind === 'graph' ? [attribute.value] : [])),
  )
}
