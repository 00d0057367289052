/**
 * The step graph: new tokens of several sequences in, their keys and values and the logits of wanted positions out.
 *
 * A step is general: every sequence has its own position and its own number of new tokens. Hidden states are flat, [N, E], one
 * row for each new token of all sequences; only attention sees sequences (`step-attention.ts`). Adapters are inputs: the tokens
 * of each are multiplied with its own matrices, z = x·Aᵀ, y += z·B (see `inference/engine/runner/joined-adapters.ts`).
 *
 * The decoder is there twice, with adapters and without, as the branches of one If: a step without adapters pays for none, and
 * one with its first adapter waits for no second session. ONNX Runtime packs a weight that both branches read once.
 */
import type { Attributes } from '#numerics/graph/attributes.js'
import { int } from '#numerics/graph/attributes.js'
import { GraphBuilder } from '#numerics/graph/builder.js'
import { multiplyDims } from '#numerics/graph/dims.js'
import type { Dim, Graph, Value } from '#numerics/graph/graph.js'
import { branch } from '#numerics/graph/ops/branch.js'
import { add, mul } from '#numerics/graph/ops/elementwise.js'
import { matmul } from '#numerics/graph/ops/matmul.js'
import { logSoftmax, rmsNorm, skipRmsNorm, softmax } from '#numerics/graph/ops/normalize.js'
import { transpose } from '#numerics/graph/ops/shape.js'
import type { ValueType } from '#numerics/graph/signatures/signature.js'
import { activate } from '#numerics/nn/activation.js'
import { float32Tensor } from '#numerics/tensor/host-tensor.js'
import { buildDecoder, type DecoderKernels, type JoinedProjection, type NormName } from './decoder.js'
import type { DecoderConfig } from './decoder-config.js'
import { integerLinear } from './integer/integer-linear.js'
import type { Precision } from './prepare.js'
import { QUANTIZATION_BLOCK, qkvRows } from './prepared-tensors.js'
import { type RotaryTables, StepAttention } from './step-attention.js'
import { StepInputs } from './step-inputs.js'
import type { PreparedTensor } from './tensor-file.js'

/** What a step graph is made from. */
export interface StepGraphOptions {
  readonly config: DecoderConfig
  readonly precision: Precision
  /** Prepared tensors of that precision. */
  readonly tensors: ReadonlyMap<string, PreparedTensor>
  /** cos and sin of every position: each [positions, D/2]. */
  readonly rotary: RotaryTables
  /** Those of sliding layers where they differ; default the same. */
  readonly slidingRotary?: RotaryTables | null
  /** Parts that the runtime may divide one product into (`productShares`); default 1. */
  readonly shares?: number
  /** Whether the largest magnitude of each linear layer's input channels is an output (`observedOutput`); default false. */
  readonly isObserved?: boolean
}

/** Names of the graph's inputs beside those of attention; each is documented with its shape. */
export const STEP_INPUTS = {
  /** int32 [N] */
  ids: 'ids',
  /** int64 [W]: rows of the flat hidden states whose logits are wanted */
  logitRows: 'logit_rows',
  /** float32 [W, 1] */
  inverseTemperatures: 'inverse_temperatures',
  /** uint8 [N] and [W], all 128; only where layers are integer products */
  zeroPoints: 'zero_points',
  headZeroPoints: 'head_zero_points',
  /** bool []: whether log-probabilities and probabilities are computed; their output has no rows where they are not */
  wantsLogprobs: 'wants_logprobs',
  wantsProbabilities: 'wants_probabilities',
  /** bool []: whether the inverse temperatures are read; all are 1 where they are not */
  hasTemperatures: 'has_temperatures',
  /** bool []: whether the adapter inputs are read; they may be empty where they are not */
  hasAdapters: 'has_adapters',
  /** int32 [adapters, 1, slots]: the token in each slot of an adapter, any where there is none */
  adapterTokens: 'adapter_tokens',
  /** int32 [N]: each token's slot among all adapters' */
  adapterSlots: 'adapter_slots',
} as const

/** Output of the largest magnitude of each channel that goes into a linear layer: float32 [in]. */
export function observedOutput(name: string): string {
  return `observed.${name}`
}

/** Names of the graph's outputs. */
export const STEP_OUTPUTS = {
  /** [2*L*S, T, D], rows as the slots of attention: layer 0 keys, layer 0 values, layer 1 keys … */
  newRows: 'new_rows',
  /** [W, V] */
  logits: 'logits',
  /** Log-softmax of the logits: [W, V] */
  logprobs: 'logprobs',
  /** Softmax of logits times inverse temperature: [W, V] */
  probabilities: 'probabilities',
} as const

/**
 * Rows of an adapter's A that one product may have, at most. ONNX Runtime gives each thread some of a product's columns, a multiple of
 * 16, and adds up in longer or shorter runs by how many columns that are; how many threads there are it decides by the number of
 * tokens. A piece of 16 columns is never divided, so a token's numbers do not depend on who shares the step.
 */
export const ADAPTER_PIECE = 16

/** Inputs of a site's adapters: A [adapters, pieces, W / pieces, in] and B [adapters, W, out] per layer. */
export function adapterInput(layer: number, site: JoinedProjection, matrix: 'a' | 'b'): string {
  return `adapter.${layer}.${site}.${matrix}`
}

/** Builds the step graph of a decoder. */
export function buildStepGraph(options: StepGraphOptions): Graph {
  const g = new GraphBuilder('step')
  const inputs = new StepInputs(g, options.tensors)
  const decoded = (body: GraphBuilder, hasAdapters: boolean): readonly Value[] =>
    new StepKernels(body, { ...options, inputs, hasAdapters }).decoded()
  const values =
    options.isObserved === true
      ? decoded(g, false)
      : branch(g, inputs.input(STEP_INPUTS.hasAdapters, 'bool', []), {
          whenTrue: (body) => decoded(body, true),
          whenFalse: (body) => decoded(body, false),
        })
  const [read, newRows] = values as readonly [Value, Value]
  new StepKernels(g, { ...options, inputs, hasAdapters: false }).outputs(read, newRows)
  return g.build()
}

const TOKENS: Dim = 'N'
/**
 * Whether a value has a row for each new token. The runtime is told the shapes of these alone: those of equal shape then use the same
 * memory, which a step of few tokens finds in the processor's. Shapes of attention's values too would cost long prompts a tenth of
 * their time: what is kept apart by shape takes more memory than what is free at the moment.
 */
export function isHiddenState({ shape }: Value): boolean {
  return shape.length > 1 && shape[0] === TOKENS && shape[1] !== 1
}

/** Rows whose logits are wanted. */
const READ: Dim = 'W'
/**
 * Layers whose input is worth two integers. Perplexity of SmolLM2-135M on text, against float32: down alone
 * 1.0111, both 1.0095; the head instead of qkv 1.0090, for twice the time.
 */
const TWO_TERMS = /\.(?:down|qkv_grouped)$/

/** Of one body of the graph. */
interface KernelOptions extends StepGraphOptions {
  readonly inputs: StepInputs
  readonly hasAdapters: boolean
}

class StepKernels implements DecoderKernels {
  readonly #g: GraphBuilder
  readonly #options: KernelOptions
  readonly #config: DecoderConfig
  readonly #inputs: StepInputs
  readonly #attention: StepAttention

  constructor(g: GraphBuilder, options: KernelOptions) {
    const { config, rotary, slidingRotary = null, inputs, shares = 1 } = options
    this.#g = g
    this.#options = options
    this.#config = config
    this.#inputs = inputs
    this.#attention = new StepAttention(g, { config, rotary, slidingRotary, inputs, shares })
  }

  /** The normed hidden states of the rows that are read, and the new keys and values. */
  decoded(): readonly [Value, Value] {
    const hidden = buildDecoder(this.#config, this)
    return [
      this.#isReadEarly ? hidden : this.#gatherRead(hidden),
      this.#one('Concat', this.#attention.newRows, { axis: int(0) }),
    ]
  }

  /** A prompt's last layer is a 30th of the work of a 135M model, and of its tokens at most one is read. */
  readRows(value: Value): Value {
    return this.#isReadEarly ? this.#gatherRead(value) : value
  }

  embed(): Value {
    const ids = this.#inputs.input(STEP_INPUTS.ids, 'int32', [TOKENS])
    return this.#one('Gather', [this.#inputs.weight('embedding'), ids], { axis: int(0) })
  }

  scale(value: Value, factor: number): Value {
    return mul(this.#g, value, this.#g.scalar(factor))
  }

  norm(hidden: Value, norm: NormName): Value {
    return rmsNorm(this.#g, hidden, this.#normWeight(norm), this.#config.normEpsilon)
  }

  addAndNorm(residual: Value, delta: Value, norm: NormName): { residual: Value; normed: Value } {
    const options = { weight: this.#normWeight(norm), epsilon: this.#config.normEpsilon }
    const { normed, sum } = skipRmsNorm(this.#g, delta, residual, options)
    return { normed, residual: sum }
  }

  linear(input: Value, layer: number, projection: JoinedProjection): Value {
    return this.#g.scope(`layers.${layer}/${projection}`, () => {
      const name = `layers.${layer}.${projection === 'qkv' ? 'qkv_grouped' : projection}`
      const base = this.#matmul(input, name, this.#outputSize(projection))
      return this.#options.hasAdapters ? this.#addAdapters(input, base, { layer, projection }) : base
    })
  }

  attention(qkv: Value, layer: number): Value {
    return this.#g.scope(`layers.${layer}/attention`, () => this.#attention.attend(qkv, layer))
  }

  gatedLinear(input: Value, layer: number): Value {
    const gateUp = this.linear(input, layer, 'gate_up')
    return this.#g.scope(`layers.${layer}/activation`, () => {
      const { mlpSize } = this.#config
      const [gate, up] = this.#split(gateUp, [mlpSize, mlpSize])
      return mul(this.#g, activate(this.#g, gate, this.#config.activation), up)
    })
  }

  /** Head, sampling helpers and the new rows. */
  outputs(wanted: Value, newRows: Value): void {
    const g = this.#g
    const { vocabularySize, isEmbeddingTied } = this.#config
    const isQuantized = this.#options.precision !== 'f32'
    const name = isEmbeddingTied && !isQuantized ? 'embedding' : 'head'
    this.#observe(wanted, 'head')
    const logits = isQuantized
      ? this.#quantizedMatmul(wanted, name, vocabularySize)
      : this.#one('Gemm', [wanted, this.#inputs.weight(name)], { transB: int(1) })
    g.output(newRows, STEP_OUTPUTS.newRows)
    // a graph that is observed fetches none
    if (this.#options.isObserved !== true) {
      const { wantsLogprobs, wantsProbabilities } = STEP_INPUTS
      g.output(
        this.#ifWanted(wantsLogprobs, logits, (body) => logSoftmax(body, logits)),
        STEP_OUTPUTS.logprobs,
      )
      const probabilities = this.#ifWanted(wantsProbabilities, logits, (body) => this.#probabilities(body, logits))
      g.output(probabilities, STEP_OUTPUTS.probabilities)
    }
    g.output(logits, STEP_OUTPUTS.logits)
  }

  /** What is as large as the logits, or nothing: with many rows each takes as long as a layer. */
  #ifWanted(input: string, { dtype, shape }: Value, build: (body: GraphBuilder) => Value): Value {
    const nothing = this.#g.constant(float32Tensor(new Float32Array(0), [0, this.#config.vocabularySize]))
    const [value] = branch(this.#g, this.#inputs.input(input, 'bool', []), {
      whenTrue: (body) => [build(body)],
      whenFalse: (body) => body.node('Identity', [nothing], {}, { outputs: [{ dtype, shape }] }),
    })
    return value as Value
  }

  /** Of all tokens at each row's temperature. */
  #probabilities(g: GraphBuilder, logits: Value): Value {
    const inverseTemperatures = this.#inputs.input(STEP_INPUTS.inverseTemperatures, 'float32', [READ, 1])
    const [probabilities] = branch(g, this.#inputs.input(STEP_INPUTS.hasTemperatures, 'bool', []), {
      whenTrue: (body) => [softmax(body, mul(body, logits, inverseTemperatures))],
      whenFalse: (body) => [softmax(body, logits)],
    })
    return probabilities as Value
  }

  #addAdapters(
    input: Value,
    base: Value,
    { layer, projection }: { readonly layer: number; readonly projection: JoinedProjection },
  ): Value {
    const g = this.#g
    const [pieces, rows] = [`pieces_${projection}`, `rows_${projection}`]
    const width = multiplyDims(pieces, rows)
    const [inputSize, outputSize] = [input.shape[1] as Dim, base.shape[1] as Dim]
    const matrix = (name: 'a' | 'b', shape: readonly Dim[]): Value =>
      this.#inputs.input(adapterInput(layer, projection, name), 'float32', ['adapters', ...shape])
    const tokens = this.#inputs.input(STEP_INPUTS.adapterTokens, 'int32', ['adapters', 1, 'slots'])
    const slotOf = this.#inputs.input(STEP_INPUTS.adapterSlots, 'int32', [TOKENS])
    const own = this.#one('Gather', [input, tokens], { axis: int(0) }) // [adapters, 1, slots, in]
    const float32 = (...shape: readonly Dim[]): ValueType => ({ dtype: 'float32', shape: ['adapters', ...shape] })
    const a = matrix('a', [pieces, rows, inputSize])
    const byPiece = this.#one('FusedMatMul', [own, a], { transB: int(1) }, float32(pieces, 'slots', rows))
    const byToken = transpose(g, byPiece, [0, 2, 1, 3])
    const ranks = this.#one('Reshape', [byToken, g.int64s([0, 0, -1])], {}, float32('slots', width))
    const deltas = matmul(g, ranks, matrix('b', [width, outputSize]))
    const flat = { dtype: 'float32' as const, shape: [multiplyDims('adapters', 'slots'), outputSize] }
    const bySlot = this.#one('Reshape', [deltas, g.int64s([-1, Number(outputSize)])], {}, flat)
    return add(g, base, this.#one('Gather', [bySlot, slotOf], { axis: int(0) }))
  }

  /** Adapters find tokens among all new ones, and who observes a layer wants to see all. */
  get #isReadEarly(): boolean {
    return !this.#options.hasAdapters && this.#options.isObserved !== true
  }

  #gatherRead(hidden: Value): Value {
    const rows = this.#inputs.input(STEP_INPUTS.logitRows, 'int64', [READ])
    return this.#one('Gather', [hidden, rows], { axis: int(0) })
  }

  #observe(input: Value, name: string): void {
    if (this.#options.isObserved !== true) return
    const largest = this.#one('ReduceMax', [this.#one('Abs', [input]), this.#g.int64s([0])], { keepdims: int(0) })
    this.#g.output(largest, observedOutput(name))
  }

  #matmul(input: Value, name: string, outputSize: number): Value {
    this.#observe(input, name)
    if (this.#options.precision !== 'f32') return this.#quantizedMatmul(input, name, outputSize)
    const bias = this.#inputs.has(`${name}.bias`) ? [this.#inputs.weight(`${name}.bias`)] : []
    return this.#one('Gemm', [input, this.#inputs.weight(`${name}.weight`), ...bias], { transB: int(1) })
  }

  #quantizedMatmul(input: Value, name: string, outputSize: number): Value {
    if (this.#inputs.has(`${name}.integer`)) return this.#integerMatmul(input, name)
    const attributes = {
      K: int(input.shape[1] as number),
      N: int(outputSize),
      bits: int(this.#options.precision === 'int8' ? 8 : 4),
      block_size: int(QUANTIZATION_BLOCK),
      accuracy_level: int(4),
    }
    const bias = this.#inputs.has(`${name}.bias`) ? [null, null, this.#inputs.weight(`${name}.bias`)] : []
    const weights = [this.#inputs.weight(`${name}.quantized`), this.#inputs.weight(`${name}.scales`)]
    return this.#one('MatMulNBits', [input, ...weights, ...bias], attributes)
  }

  #integerMatmul(input: Value, name: string): Value {
    const isRead = input.shape[0] === READ
    const weight = {
      quantized: this.#inputs.weight(`${name}.integer`),
      scales: this.#inputs.weight(`${name}.output_scales`),
      inverseSmoothing: this.#inputs.weight(`${name}.inverse_smoothing`),
      terms: TWO_TERMS.test(name) ? 2 : 1,
      mayBeEmpty: isRead,
    } as const
    const zeroPoints = isRead
      ? this.#inputs.input(STEP_INPUTS.headZeroPoints, 'uint8', [READ])
      : this.#inputs.input(STEP_INPUTS.zeroPoints, 'uint8', [TOKENS])
    const product = integerLinear(this.#g, input, weight, zeroPoints)
    return this.#inputs.has(`${name}.bias`) ? add(this.#g, product, this.#inputs.weight(`${name}.bias`)) : product
  }

  #outputSize(projection: JoinedProjection): number {
    const { hiddenSize, mlpSize } = this.#config
    if (projection === 'qkv') return qkvRows(this.#config)
    return projection === 'gate_up' ? 2 * mlpSize : hiddenSize
  }

  #normWeight(norm: NormName): Value {
    return this.#inputs.weight(norm.kind === 'final' ? 'final_norm' : `layers.${norm.layer}.${norm.kind}_norm`)
  }

  #split(value: Value, sizes: readonly [number, number]): readonly [Value, Value] {
    const axis = value.shape.length - 1
    const [first, second] = this.#g.node('Split', [value, this.#g.int64s(sizes)], { axis: int(axis) })
    if (first === undefined || second === undefined) throw new Error('split has two outputs')
    return [first, second]
  }

  #one(op: string, inputs: readonly (Value | null)[], attributes: Attributes = {}, type?: ValueType): Value {
    const [output] = this.#g.node(op, inputs, attributes, type === undefined ? {} : { outputs: [type] })
    if (output === undefined) throw new Error(`${op} has an output`)
    return output
  }
}
