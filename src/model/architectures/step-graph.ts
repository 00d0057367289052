/**
 * The step graph: new tokens of a batch of sequences in, their keys and values and the logits of wanted positions out.
 *
 * Attention has two parts, the cache (a read-only input with C columns) and the new tokens, under one softmax, so the
 * cache is never copied; JavaScript writes the new rows into it. Hidden states are flat [B*T, E] with token t of sequence
 * b in row t*B + b; heads are [B*K, ..], query heads of a group side by side, so few nodes reshape or transpose: a
 * single stream is bound by the number of nodes. Shapes that depend on B, T and C are fed, not computed.
 * Adapters are inputs (see `inference/engine/adapter-layout.ts`): z = x·Aᵀ, masked per token, y += z·B.
 */
import type { Attributes } from '#numerics/graph/attributes.js'
import { float, int, ints } from '#numerics/graph/attributes.js'
import { GraphBuilder } from '#numerics/graph/builder.js'
import { multiplyDims } from '#numerics/graph/dims.js'
import type { Dim, Graph, Value } from '#numerics/graph/graph.js'
import { add, mul } from '#numerics/graph/ops/elementwise.js'
import { matmul } from '#numerics/graph/ops/matmul.js'
import { logSoftmax, quickGelu, rmsNorm, rotaryEmbedding, skipRmsNorm, softmax } from '#numerics/graph/ops/normalize.js'
import type { ValueType } from '#numerics/graph/signatures/signature.js'
import { float32Tensor } from '#numerics/tensor/host-tensor.js'
import { buildDecoder, type DecoderKernels, type JoinedProjection, type NormName } from './decoder.js'
import type { DecoderConfig } from './decoder-config.js'
import type { Precision } from './prepare.js'
import { QUANTIZATION_BLOCK, qkvRows } from './prepared-tensors.js'
import type { PreparedTensor } from './tensor-file.js'

/** What a step graph is made from. */
export interface StepGraphOptions {
  readonly config: DecoderConfig
  readonly precision: Precision
  /** Prepared tensors of that precision. */
  readonly tensors: ReadonlyMap<string, PreparedTensor>
  /** cos and sin of every position: each [positions, D/2]. */
  readonly rotary: { readonly cos: Float32Array; readonly sin: Float32Array }
  /** Whether adapters are inputs. */
  readonly hasAdapters: boolean
}

/** Names of the graph's inputs; each is documented with its shape. */
export const STEP_INPUTS = {
  /** int64 [B*T] */
  ids: 'ids',
  /** int64 [B*K, T] */
  positions: 'positions',
  /** int64 [3]: T, B*K, (H/K+2)*D */
  headsShape: 'heads_shape',
  /** int64 [3]: B*K, T*H/K, D */
  queriesShape: 'queries_shape',
  /** int64 [3]: B*K, T, H/K*D */
  attendedShape: 'attended_shape',
  /** int64 [2]: C, T */
  keySizes: 'key_sizes',
  /** float32 [B*K, T*H/K, C+T], added to the scores: 0 or -inf; axes 0 and 1 may have size 1 instead */
  bias: 'bias',
  /** int64 [W]: rows of the flat hidden states whose logits are wanted */
  logitRows: 'logit_rows',
  /** float32 [W, 1] */
  inverseTemperatures: 'inverse_temperatures',
} as const

/** Names of the graph's outputs. */
export const STEP_OUTPUTS = {
  /** [2*L*B*K, T, D]: layer 0 keys, layer 0 values, layer 1 keys … */
  newRows: 'new_rows',
  /** [W, V] */
  logits: 'logits',
  /** Log-softmax of the logits: [W, V] */
  logprobs: 'logprobs',
  /** Softmax of logits times inverse temperature: [W, V] */
  probabilities: 'probabilities',
} as const

/** Input of a layer's cached keys or values: float32 [B*K, C, D]. */
export function cacheInput(layer: number, side: 'keys' | 'values'): string {
  return `${side}.${layer}`
}

/** Inputs of a site's adapters: A [W, in] and B [W, out] per layer. */
export function adapterInput(layer: number, site: JoinedProjection, matrix: 'a' | 'b'): string {
  return `adapter.${layer}.${site}.${matrix}`
}

/** Input of a site's mask: float32 [B*T, W]; axis 0 may have size 1 instead. */
export function adapterMaskInput(site: JoinedProjection): string {
  return `adapter_mask.${site}`
}

/** Builds the step graph of a decoder. */
export function buildStepGraph(options: StepGraphOptions): Graph {
  const g = new GraphBuilder(options.hasAdapters ? 'step-adapters' : 'step')
  const kernels = new StepKernels(g, options)
  const hidden = buildDecoder(options.config, kernels)
  kernels.outputs(hidden)
  return g.build()
}

const ROWS: Dim = 'B*T'

class StepKernels implements DecoderKernels {
  readonly #g: GraphBuilder
  readonly #options: StepGraphOptions
  readonly #config: DecoderConfig
  readonly #headRows: Dim
  readonly #queriesPerKey: number
  readonly #inputs: Readonly<
    Record<'ids' | 'positions' | 'heads' | 'queries' | 'attended' | 'keySizes' | 'bias', Value>
  >
  readonly #rotary: { readonly cos: Value; readonly sin: Value }
  readonly #masks: Readonly<Record<JoinedProjection, Value>> | null
  readonly #newRows: Value[] = []

  constructor(g: GraphBuilder, options: StepGraphOptions) {
    const { config, rotary } = options
    this.#g = g
    this.#options = options
    this.#config = config
    this.#headRows = multiplyDims('B', config.kvHeadCount)
    this.#queriesPerKey = config.headCount / config.kvHeadCount
    const scores = [this.#headRows, multiplyDims('T', this.#queriesPerKey), 'C+T']
    this.#inputs = {
      ids: g.input(STEP_INPUTS.ids, 'int64', [ROWS]),
      positions: g.input(STEP_INPUTS.positions, 'int64', [this.#headRows, 'T']),
      heads: g.input(STEP_INPUTS.headsShape, 'int64', [3]),
      queries: g.input(STEP_INPUTS.queriesShape, 'int64', [3]),
      attended: g.input(STEP_INPUTS.attendedShape, 'int64', [3]),
      keySizes: g.input(STEP_INPUTS.keySizes, 'int64', [2]),
      bias: g.input(STEP_INPUTS.bias, 'float32', scores),
    }
    const half = config.headSize / 2
    const shape = [rotary.cos.length / half, half]
    this.#rotary = {
      cos: g.constant({ dtype: 'float32', shape, data: rotary.cos }, 'rotary_cos'),
      sin: g.constant({ dtype: 'float32', shape, data: rotary.sin }, 'rotary_sin'),
    }
    const mask = (site: JoinedProjection): Value => g.input(adapterMaskInput(site), 'float32', [ROWS, `W_${site}`])
    this.#masks = options.hasAdapters
      ? { qkv: mask('qkv'), o: mask('o'), gate_up: mask('gate_up'), down: mask('down') }
      : null
  }

  embed(): Value {
    return this.#one('Gather', [this.#external('embedding'), this.#inputs.ids], { axis: int(0) })
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
      return this.#masks === null ? base : this.#addAdapters(input, base, { layer, projection, masks: this.#masks })
    })
  }

  attention(qkv: Value, layer: number): Value {
    return this.#g.scope(`layers.${layer}/attention`, () => {
      const { headSize: D } = this.#config
      const group = this.#queriesPerKey
      const heads = this.#headRows
      const rows = this.#one(
        'Reshape',
        [qkv, this.#inputs.heads],
        {},
        { dtype: 'float32', shape: ['T', heads, (group + 2) * D] },
      )
      const joined = this.#one('Transpose', [rows], { perm: ints([1, 0, 2]) }) // [B*K, T, (H/K+2)*D]
      const [queriesAndKeys, values] = this.#split(joined, [(group + 1) * D, D])
      const rotated = this.#rotate(this.#normalizeHeads(queriesAndKeys, layer))
      const [queries, keys] = this.#split(rotated, [group * D, D])
      this.#newRows.push(keys, values)
      const attended = this.#attend(queries, { keys, values }, layer)
      const byToken = this.#one(
        'Reshape',
        [attended, this.#inputs.attended],
        {},
        { dtype: 'float32', shape: [heads, 'T', group * D] },
      )
      const back = this.#one('Transpose', [byToken], { perm: ints([1, 0, 2]) })
      const flat: ValueType = { dtype: 'float32', shape: [ROWS, this.#config.headCount * D] }
      return this.#one('Reshape', [back, this.#g.int64s([-1, this.#config.headCount * D])], {}, flat)
    })
  }

  gatedLinear(input: Value, layer: number): Value {
    const gateUp = this.linear(input, layer, 'gate_up')
    return this.#g.scope(`layers.${layer}/activation`, () => {
      const { mlpSize } = this.#config
      const [gate, up] = this.#split(gateUp, [mlpSize, mlpSize])
      return mul(this.#g, quickGelu(this.#g, gate), up)
    })
  }

  /** Head, sampling helpers and the new rows. */
  outputs(hidden: Value): void {
    const g = this.#g
    const rows = g.input(STEP_INPUTS.logitRows, 'int64', ['W'])
    const inverseTemperatures = g.input(STEP_INPUTS.inverseTemperatures, 'float32', ['W', 1])
    const wanted = this.#one('Gather', [hidden, rows], { axis: int(0) })
    const { vocabularySize, isEmbeddingTied } = this.#config
    const isQuantized = this.#options.precision !== 'f32'
    const name = isEmbeddingTied && !isQuantized ? 'embedding' : 'head'
    const logits = isQuantized
      ? this.#quantizedMatmul(wanted, name, vocabularySize)
      : this.#one('Gemm', [wanted, this.#external(name)], { transB: int(1) })
    g.output(this.#one('Concat', this.#newRows, { axis: int(0) }), STEP_OUTPUTS.newRows)
    g.output(logSoftmax(g, logits), STEP_OUTPUTS.logprobs)
    g.output(softmax(g, mul(g, logits, inverseTemperatures)), STEP_OUTPUTS.probabilities)
    g.output(logits, STEP_OUTPUTS.logits)
  }

  /** Softmax over scores against the cache and against the new tokens; returns [B*K, T*H/K, D]. */
  #attend(queries: Value, fresh: { keys: Value; values: Value }, layer: number): Value {
    const { headSize: D } = this.#config
    const heads = this.#headRows
    const queryRows = multiplyDims('T', this.#queriesPerKey)
    const cache = {
      keys: this.#g.input(cacheInput(layer, 'keys'), 'float32', [heads, 'C', D]),
      values: this.#g.input(cacheInput(layer, 'values'), 'float32', [heads, 'C', D]),
    }
    const q = this.#one(
      'Reshape',
      [queries, this.#inputs.queries],
      {},
      { dtype: 'float32', shape: [heads, queryRows, D] },
    )
    const attributes = { transB: int(1), alpha: float(1 / Math.sqrt(D)) }
    const cachedScores = this.#one('FusedMatMul', [q, cache.keys], attributes)
    const freshScores = this.#one('FusedMatMul', [q, fresh.keys], attributes)
    const scores = this.#one('Concat', [cachedScores, freshScores], { axis: int(2) })
    const weights = softmax(this.#g, add(this.#g, scores, this.#inputs.bias))
    const [cachedWeights, freshWeights] = this.#g.node(
      'Split',
      [weights, this.#inputs.keySizes],
      { axis: int(2) },
      {
        outputs: [
          { dtype: 'float32', shape: [heads, queryRows, 'C'] },
          { dtype: 'float32', shape: [heads, queryRows, 'T'] },
        ],
      },
    )
    if (cachedWeights === undefined || freshWeights === undefined) throw new Error('split has two outputs')
    const past = matmul(this.#g, cachedWeights, cache.values)
    return add(this.#g, past, matmul(this.#g, freshWeights, fresh.values))
  }

  /** RMS norm of every query and key head, where the family has it. */
  #normalizeHeads(queriesAndKeys: Value, layer: number): Value {
    if (!this.#config.hasQkNorm) return queriesAndKeys
    const { headSize: D, normEpsilon } = this.#config
    const count = this.#queriesPerKey + 1
    const shape = [this.#headRows, 'T', count, D]
    const heads = this.#one(
      'Reshape',
      [queriesAndKeys, this.#g.int64s([0, 0, count, D])],
      {},
      { dtype: 'float32', shape },
    )
    const unit = this.#g.constant(float32Tensor(new Float32Array(D).fill(1), [D]))
    const normed = rmsNorm(this.#g, heads, unit, normEpsilon)
    const weighted = mul(this.#g, normed, this.#external(`layers.${layer}.qk_norm_grouped`))
    const flat: ValueType = { dtype: 'float32', shape: queriesAndKeys.shape }
    return this.#one('Reshape', [weighted, this.#g.int64s([0, 0, count * D])], {}, flat)
  }

  #rotate(queriesAndKeys: Value): Value {
    const { cos, sin } = this.#rotary
    const options = { headCount: this.#queriesPerKey + 1 }
    return rotaryEmbedding(this.#g, queriesAndKeys, this.#inputs.positions, cos, sin, options)
  }

  #addAdapters(
    input: Value,
    base: Value,
    site: { layer: number; projection: JoinedProjection; masks: Readonly<Record<JoinedProjection, Value>> },
  ): Value {
    const { layer, projection, masks } = site
    const width = `W_${projection}`
    const a = this.#g.input(adapterInput(layer, projection, 'a'), 'float32', [width, input.shape[1] as Dim])
    const b = this.#g.input(adapterInput(layer, projection, 'b'), 'float32', [width, base.shape[1] as Dim])
    const ranks = this.#one('Gemm', [input, a], { transB: int(1) })
    const own = mul(this.#g, ranks, masks[projection])
    return this.#one('Gemm', [own, b, base])
  }

  #matmul(input: Value, name: string, outputSize: number): Value {
    if (this.#options.precision !== 'f32') return this.#quantizedMatmul(input, name, outputSize)
    const bias = this.#options.tensors.has(`${name}.bias`) ? [this.#external(`${name}.bias`)] : []
    return this.#one('Gemm', [input, this.#external(`${name}.weight`), ...bias], { transB: int(1) })
  }

  #quantizedMatmul(input: Value, name: string, outputSize: number): Value {
    const attributes = {
      K: int(input.shape[1] as number),
      N: int(outputSize),
      bits: int(this.#options.precision === 'int8' ? 8 : 4),
      block_size: int(QUANTIZATION_BLOCK),
      accuracy_level: int(4),
    }
    const bias = this.#options.tensors.has(`${name}.bias`) ? [null, null, this.#external(`${name}.bias`)] : []
    const weights = [this.#external(`${name}.quantized`), this.#external(`${name}.scales`)]
    return this.#one('MatMulNBits', [input, ...weights, ...bias], attributes)
  }

  #outputSize(projection: JoinedProjection): number {
    const { hiddenSize, mlpSize } = this.#config
    if (projection === 'qkv') return qkvRows(this.#config)
    return projection === 'gate_up' ? 2 * mlpSize : hiddenSize
  }

  #normWeight(norm: NormName): Value {
    return this.#external(norm.kind === 'final' ? 'final_norm' : `layers.${norm.layer}.${norm.kind}_norm`)
  }

  readonly #externals = new Map<string, Value>()

  #external(name: string): Value {
    const known = this.#externals.get(name)
    if (known !== undefined) return known
    const tensor = this.#options.tensors.get(name)
    if (tensor === undefined) throw new Error(`prepared model has no tensor "${name}"`)
    const value = this.#g.external(name, tensor.dtype, tensor.shape, tensor)
    this.#externals.set(name, value)
    return value
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
