/**
 * Attention of the step graph: one softmax over three parts, so that no prompt is copied for the sequences that share it.
 *
 * Sequences lie in G groups of R slots; those of a group continue the same prompt. The parts are the prompt, stored once per
 * group and multiplied with the queries of the whole group at once; each slot's tail, the tokens after the prompt; and the
 * step's new tokens. The cache is read only: new keys and values are an output, which JavaScript writes where they belong.
 * Slots are ordered by group, key/value head, member: S = G*K*R. Tokens come and go by gathers, so slots may be empty and
 * sequences differ in their number of new tokens; T is the largest. A number's order of summation depends on its own sequence
 * only as long as P and C are multiples of 16, so an answer keeps its bits whoever shares the step; where it does not is in
 * `src/docs/internals/numerics.md`, Determinism.
 */
import type { Attributes } from '#numerics/graph/attributes.js'
import { int } from '#numerics/graph/attributes.js'
import type { GraphBuilder } from '#numerics/graph/builder.js'
import { multiplyDims } from '#numerics/graph/dims.js'
import type { Dim, Value } from '#numerics/graph/graph.js'
import { add, mul } from '#numerics/graph/ops/elementwise.js'
import { fusedMatmul, type ProductOptions } from '#numerics/graph/ops/matmul.js'
import { rmsNorm, rotaryEmbedding, softmax } from '#numerics/graph/ops/normalize.js'
import { transpose } from '#numerics/graph/ops/shape.js'
import { float32Tensor } from '#numerics/tensor/host-tensor.js'
import {
  attentionOf,
  type DecoderConfig,
  hasSlidingLayers,
  type LayerAttention,
  scoreScaleOf,
} from './decoder-config.js'
import type { StepInputs } from './step-inputs.js'

/** Numbers that ONNX Runtime adds up at once, at least. */
const SHORTEST_RUN = 128

/**
 * Whether sums over cached tokens, and those of scores, would take another order by who shares the step. The runtime adds up in longer
 * runs the fewer columns a product has, or a thread's share of it where there are more threads than products. Where the first operand
 * lies transposed it does not: its runs are of `SHORTEST_RUN` numbers.
 *
 * @param shares parts that the runtime may divide one product into
 */
function unsteadySums({ headSize, kvHeadCount }: DecoderConfig, shares: number) {
  return { overTokens: shares > kvHeadCount, ofScores: headSize > SHORTEST_RUN }
}

/** P and C are no less: of a product without columns whose first operand lies transposed, the runtime leaves most as it found it. */
export function leastColumns(config: DecoderConfig, shares: number): number {
  return unsteadySums(config, shares).overTokens ? 16 : 0
}

/** Names of attention's inputs. "Head rows" are the rows of qkv cut into heads: per token and key/value head H/K + 2 of them. */
export const ATTENTION_INPUTS = {
  /** int64 [N*K*(H/K+2), 1]: of every head row; 0, which turns nothing, for values */
  positions: 'positions',
  /** int32 [S, T*H/K], [S, T], [S, T]: head rows of each slot's new tokens; any for those that do not exist */
  queryRows: 'query_rows',
  keyRows: 'key_rows',
  valueRows: 'value_rows',
  /** int32 [N, H]: where a token's heads lie in [S*T*H/K] */
  attendedRows: 'attended_rows',
  /** int64 [3]: G*K, R*T*H/K, D */
  groupQueriesShape: 'group_queries_shape',
  /** int64 [3]: S, T*H/K, P */
  slotScoresShape: 'slot_scores_shape',
  /** int64 [3]: G*K, R*T*H/K, P */
  groupWeightsShape: 'group_weights_shape',
  /** int64 [3]: S, T*H/K, D */
  slotOutputsShape: 'slot_outputs_shape',
  /** int64 [3]: P, C, T */
  keySizes: 'key_sizes',
  /** float32 [S, T*H/K, P+C+T], added to the scores: -inf on columns that hold nothing or are later; axis 1 may have size 1 */
  keyMask: 'key_mask',
  /** The same for layers with a window, where the decoder has such: -inf also on columns before it */
  slidingKeyMask: 'sliding_key_mask',
} as const

/** Input of a layer's keys or values: of prompts float32 [G*K, P, D], of tails [S, C, D]. */
export function cacheInput(layer: number, part: 'prompt' | 'tail', side: 'keys' | 'values'): string {
  return `${part}_${side}.${layer}`
}

/** cos and sin of every position: each [positions, D/2]. */
export interface RotaryTables {
  readonly cos: Float32Array
  readonly sin: Float32Array
}

export interface StepAttentionOptions {
  readonly config: DecoderConfig
  readonly rotary: RotaryTables
  /** Those of sliding layers; null: the same. */
  readonly slidingRotary: RotaryTables | null
  readonly inputs: StepInputs
  /** Parts that the runtime may divide one product into. */
  readonly shares: number
}

type Input = Exclude<keyof typeof ATTENTION_INPUTS, 'slidingKeyMask'>

/** What differs between layers: what a token sees, and how queries and keys are turned (null: not at all). */
interface LayerInputs {
  readonly keyMask: Value
  readonly rotary: { readonly cos: Value; readonly sin: Value } | null
}

/** Builds the attention of each layer on the same inputs. */
export class StepAttention {
  /** Keys and values of the new tokens, layer by layer: [S, T, D] each. */
  readonly newRows: Value[] = []
  readonly #g: GraphBuilder
  readonly #options: StepAttentionOptions
  readonly #inputs: Readonly<Record<Input, Value>>
  readonly #layerInputs: Readonly<Record<LayerAttention, LayerInputs>>
  /** S, G*K, T*H/K, R*T*H/K */
  readonly #dims: { readonly slots: Dim; readonly groups: Dim; readonly queries: Dim; readonly groupQueries: Dim }

  constructor(g: GraphBuilder, options: StepAttentionOptions) {
    const { config, rotary, slidingRotary, inputs } = options
    this.#g = g
    this.#options = options
    const perKey = config.headCount / config.kvHeadCount
    const headRows = multiplyDims('N', config.kvHeadCount * (perKey + 2))
    const queries = multiplyDims('T', perKey)
    const dims = { slots: 'S', groups: multiplyDims('G', config.kvHeadCount), queries, groupQueries: 'R*T' }
    this.#dims = dims
    const input = (name: Input, dtype: 'int32' | 'int64' | 'float32', shape: readonly Dim[]): Value =>
      inputs.input(ATTENTION_INPUTS[name], dtype, shape)
    this.#inputs = {
      positions: input('positions', 'int64', [headRows, 1]),
      queryRows: input('queryRows', 'int32', [dims.slots, queries]),
      keyRows: input('keyRows', 'int32', [dims.slots, 'T']),
      valueRows: input('valueRows', 'int32', [dims.slots, 'T']),
      attendedRows: input('attendedRows', 'int32', ['N', config.headCount]),
      groupQueriesShape: input('groupQueriesShape', 'int64', [3]),
      slotScoresShape: input('slotScoresShape', 'int64', [3]),
      groupWeightsShape: input('groupWeightsShape', 'int64', [3]),
      slotOutputsShape: input('slotOutputsShape', 'int64', [3]),
      keySizes: input('keySizes', 'int64', [3]),
      keyMask: input('keyMask', 'float32', [dims.slots, queries, 'P+C+T']),
    }
    const half = config.headSize / 2
    const tables = ({ cos, sin }: RotaryTables, name: string): { cos: Value; sin: Value } => {
      const shape = [cos.length / half, half]
      return {
        cos: inputs.constant(`${name}_cos`, () => ({ dtype: 'float32', shape, data: cos })),
        sin: inputs.constant(`${name}_sin`, () => ({ dtype: 'float32', shape, data: sin })),
      }
    }
    const full = { keyMask: this.#inputs.keyMask, rotary: tables(rotary, 'rotary') }
    const slidingMask = (): Value =>
      inputs.input(ATTENTION_INPUTS.slidingKeyMask, 'float32', [dims.slots, queries, 'P+C+T'])
    this.#layerInputs = {
      full,
      unrotated: { ...full, rotary: null },
      sliding: hasSlidingLayers(config)
        ? {
            keyMask: slidingMask(),
            rotary: slidingRotary === null ? full.rotary : tables(slidingRotary, 'sliding_rotary'),
          }
        : full,
    }
  }

  /**
   * @param qkv [N, (H+2K)*D] in the grouped order of the prepared weights
   * @returns [N, H*D]
   */
  attend(qkv: Value, layer: number): Value {
    const { headSize: D, headCount } = this.#options.config
    const { queryRows, keyRows, valueRows, attendedRows } = this.#inputs
    const rows = this.#headRows(qkv, layer)
    const queries = this.#one('Gather', [rows, queryRows], { axis: int(0) }) // [S, T*H/K, D]
    const keys = this.#one('Gather', [rows, keyRows], { axis: int(0) }) // [S, T, D]
    const values = this.#one('Gather', [rows, valueRows], { axis: int(0) })
    this.newRows.push(keys, values)
    const attended = this.#threeParts(queries, { keys, values }, layer)
    const flat = this.#reshape(attended, this.#g.int64s([-1, D]), [
      multiplyDims('S*T', headCount / this.#options.config.kvHeadCount),
      D,
    ])
    const byToken = this.#one('Gather', [flat, attendedRows], { axis: int(0) }) // [N, H, D]
    return this.#reshape(byToken, this.#g.int64s([-1, headCount * D]), ['N', headCount * D])
  }

  /** Queries, keys and values as rows of D, normed where the family has it, queries and keys turned: [N*K*(H/K+2), D]. */
  #headRows(qkv: Value, layer: number): Value {
    const { headSize: D, headCount, kvHeadCount } = this.#options.config
    const perKey = headCount / kvHeadCount
    const count = multiplyDims('N', kvHeadCount * (perKey + 2))
    const normed = this.#options.config.hasQkNorm ? this.#normalizeHeads(qkv, layer) : qkv
    const apart = this.#reshape(normed, this.#g.int64s([-1, 1, D]), [count, 1, D])
    const { rotary } = this.#layerInputs[attentionOf(this.#options.config, layer)]
    const turned =
      rotary === null
        ? apart
        : rotaryEmbedding(this.#g, apart, this.#inputs.positions, rotary.cos, rotary.sin, { headCount: 1 })
    return this.#reshape(turned, this.#g.int64s([-1, D]), [count, D])
  }

  /** RMS norm of every query and key head. */
  #normalizeHeads(qkv: Value, layer: number): Value {
    const { headSize: D, headCount, kvHeadCount, normEpsilon } = this.#options.config
    const count = headCount / kvHeadCount + 1
    const groups = multiplyDims('N', kvHeadCount)
    const heads = this.#reshape(qkv, this.#g.int64s([-1, count + 1, D]), [groups, count + 1, D])
    const [queriesAndKeys, values] = this.#g.node('Split', [heads, this.#g.int64s([count, 1])], { axis: int(1) })
    if (queriesAndKeys === undefined || values === undefined) throw new Error('split has two outputs')
    const unit = this.#g.constant(float32Tensor(new Float32Array(D).fill(1), [D]))
    const weight = this.#options.inputs.weight(`layers.${layer}.qk_norm_grouped`) // [H/K + 1, D]
    const weighted = mul(this.#g, rmsNorm(this.#g, queriesAndKeys, unit, normEpsilon), weight)
    return this.#one('Concat', [weighted, values], { axis: int(1) })
  }

  /** One softmax over scores against prompt, tail and new tokens; returns [S, T*H/K, D]. */
  #threeParts(queries: Value, fresh: { readonly keys: Value; readonly values: Value }, layer: number): Value {
    const { headSize: D, kvHeadCount } = this.#options.config
    const g = this.#g
    const { slots, groups, queries: queryRows, groupQueries } = this.#dims
    const cached = (part: 'prompt' | 'tail', shape: readonly Dim[]): { keys: Value; values: Value } => ({
      keys: this.#options.inputs.input(cacheInput(layer, part, 'keys'), 'float32', shape),
      values: this.#options.inputs.input(cacheInput(layer, part, 'values'), 'float32', shape),
    })
    const prompt = cached('prompt', [multiplyDims('G', kvHeadCount), 'P', D])
    const tail = cached('tail', [slots, 'C', D])
    const { groupQueriesShape, slotScoresShape, groupWeightsShape, slotOutputsShape } = this.#inputs
    const unsteady = unsteadySums(this.#options.config, this.#options.shares)
    const scale = { transB: true, alpha: scoreScaleOf(this.#options.config) }
    const ofCached = { ...scale, isSteady: unsteady.ofScores }

    const groupRows = this.#reshape(queries, groupQueriesShape, [groups, groupQueries, D])
    const promptScores = this.#product(groupRows, prompt.keys, ofCached)
    const scores = this.#one(
      'Concat',
      [
        this.#reshape(promptScores, slotScoresShape, [slots, queryRows, 'P']),
        this.#product(queries, tail.keys, ofCached),
        this.#product(queries, fresh.keys, scale),
      ],
      { axis: int(2) },
      [slots, queryRows, 'P+C+T'],
    )
    const { keyMask } = this.#layerInputs[attentionOf(this.#options.config, layer)]
    const weights = softmax(g, add(g, scores, keyMask))
    const parts = g.node(
      'Split',
      [weights, this.#inputs.keySizes],
      { axis: int(2) },
      { outputs: ['P', 'C', 'T'].map((size) => ({ dtype: 'float32' as const, shape: [slots, queryRows, size] })) },
    )
    const [promptWeights, tailWeights, freshWeights] = parts
    if (promptWeights === undefined || tailWeights === undefined || freshWeights === undefined) {
      throw new Error('split has three outputs')
    }
    const groupWeights = this.#reshape(promptWeights, groupWeightsShape, [groups, groupQueries, 'P'])
    const ofGroups = this.#product(groupWeights, prompt.values, { isSteady: unsteady.overTokens })
    const fromPrompt = this.#reshape(ofGroups, slotOutputsShape, [slots, queryRows, D])
    const fromCache = add(g, fromPrompt, this.#product(tailWeights, tail.values, { isSteady: unsteady.overTokens }))
    return add(g, fromCache, this.#product(freshWeights, fresh.values))
  }

  /** a · b, steady by transposing a; what stands between keeps the runtime from undoing that. */
  #product(a: Value, b: Value, options: ProductOptions & { readonly isSteady?: boolean } = {}): Value {
    const { isSteady = false, ...flags } = options
    if (!isSteady) return fusedMatmul(this.#g, a, b, flags)
    const columns = transpose(this.#g, a, [0, 2, 1])
    const kept = this.#reshape(columns, this.#g.int64s([0, 0, 0]), columns.shape)
    return fusedMatmul(this.#g, kept, b, { ...flags, transA: true })
  }

  #reshape(value: Value, shape: Value, dims: readonly Dim[]): Value {
    return this.#one('Reshape', [value, shape], {}, dims)
  }

  #one(op: string, inputs: readonly Value[], attributes: Attributes = {}, shape?: readonly Dim[]): Value {
    const outputs = shape === undefined ? {} : { outputs: [{ dtype: 'float32' as const, shape }] }
    const [output] = this.#g.node(op, inputs, attributes, outputs)
    if (output === undefined) throw new Error(`${op} has an output`)
    return output
  }
}
