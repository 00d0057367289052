/**
 * The decoder forward in float64, one number after the other, on Hugging Face's tensors: what gradients are measured against.
 *
 * Shares nothing with the graphs but the rotary frequencies. Its log-probabilities are checked against PyTorch's where it is used.
 */
import { type DecoderConfig, type Projection, projectionPath } from '#model/architectures/decoder-config.js'
import { rotaryFrequencies } from '#numerics/nn/rotary-embedding.js'
import type { Row, TrainedToken } from '#training/trainer/row-batch.js'

/** Numbers by Hugging Face name, row-major. */
export type ReferenceWeights = ReadonlyMap<string, ArrayLike<number>>

type Vector = Float64Array<ArrayBuffer>

/** Log-probability of every trained token. */
export function referenceLogp(
  config: DecoderConfig,
  weights: ReferenceWeights,
  rows: readonly Row[],
  trained: readonly TrainedToken[],
): number[] {
  const hidden = rows.map((row) => decodeRow(config, weights, row))
  const head = find(weights, config.isEmbeddingTied ? 'model.embed_tokens.weight' : 'lm_head.weight')
  return trained.map(({ row, index, label }) => {
    const logits = product(head, hidden[row]![index - 1]!)
    const largest = Math.max(...logits)
    const normalizer = largest + Math.log(logits.reduce((sum, logit) => sum + Math.exp(logit - largest), 0))
    return logits[label]! - normalizer
  })
}

function decodeRow(config: DecoderConfig, weights: ReferenceWeights, row: Row): Vector[] {
  const { hiddenSize, normEpsilon } = config
  const linear = (input: Vector, layer: number, projection: Projection): Vector => {
    const path = projectionPath(layer, projection)
    const bias = weights.get(`${path}.bias`)
    const output = product(find(weights, `${path}.weight`), input)
    return bias === undefined ? output : output.map((value, i) => value + bias[i]!)
  }
  const norm = (x: Vector, name: string): Vector => rmsNorm(x, find(weights, name), normEpsilon)
  const embedding = find(weights, 'model.embed_tokens.weight')
  let residual = Array.from(row.tokens, (token) =>
    Float64Array.from({ length: hiddenSize }, (_, i) => embedding[token * hiddenSize + i]!),
  )
  for (let layer = 0; layer < config.layerCount; layer++) {
    const at = `model.layers.${layer}`
    const normed = residual.map((x) => norm(x, `${at}.input_layernorm.weight`))
    const heads = (projection: 'q_proj' | 'k_proj' | 'v_proj') => normed.map((x) => linear(x, layer, projection))
    const attended = attention(config, row, {
      queries: heads('q_proj').map((q, t) =>
        rotated(config, q, row.positions[t]!, weights.get(`${at}.self_attn.q_norm.weight`)),
      ),
      keys: heads('k_proj').map((k, t) =>
        rotated(config, k, row.positions[t]!, weights.get(`${at}.self_attn.k_norm.weight`)),
      ),
      values: heads('v_proj'),
    })
    residual = residual.map((x, t) => sum(x, linear(attended[t]!, layer, 'o_proj')))
    residual = residual.map((x) => {
      const inner = norm(x, `${at}.post_attention_layernorm.weight`)
      const up = linear(inner, layer, 'up_proj')
      const gated = linear(inner, layer, 'gate_proj').map((gate, i) => (gate / (1 + Math.exp(-gate))) * up[i]!)
      return sum(x, linear(gated, layer, 'down_proj'))
    })
  }
  return residual.map((x) => norm(x, 'model.norm.weight'))
}

/** A token sees earlier ones, and itself, of its own segment or of the one that hangs from. */
function attention(
  { headCount, kvHeadCount, headSize }: DecoderConfig,
  { groupIds, parentIds }: Row,
  { queries, keys, values }: Readonly<Record<'queries' | 'keys' | 'values', readonly Vector[]>>,
): Vector[] {
  return queries.map((query, t) => {
    const seen = keys.flatMap((_, s) =>
      s <= t && (groupIds[s] === groupIds[t] || groupIds[s] === parentIds[t]) ? [s] : [],
    )
    const output = new Float64Array(headCount * headSize)
    for (let head = 0; head < headCount; head++) {
      const from = Math.floor((head * kvHeadCount) / headCount) * headSize
      const scores = seen.map((s) => {
        let score = 0
        for (let i = 0; i < headSize; i++) score += query[head * headSize + i]! * keys[s]![from + i]!
        return Math.exp(score / Math.sqrt(headSize))
      })
      const total = scores.reduce((a, b) => a + b, 0)
      seen.forEach((s, n) => {
        for (let i = 0; i < headSize; i++) output[head * headSize + i]! += (scores[n]! / total) * values[s]![from + i]!
      })
    }
    return output
  })
}

/** Heads normed (Qwen3) and turned by their position; halves are the pairs. */
function rotated(config: DecoderConfig, heads: Vector, position: number, norm: ArrayLike<number> | undefined): Vector {
  const { headSize, normEpsilon, rotary } = config
  const frequencies = rotaryFrequencies(rotary, headSize)
  const half = headSize / 2
  const output = new Float64Array(heads.length)
  for (let start = 0; start < heads.length; start += headSize) {
    const head = heads.subarray(start, start + headSize)
    const x = norm === undefined ? head : rmsNorm(head, norm, normEpsilon)
    for (let i = 0; i < half; i++) {
      const [cos, sin] = [Math.cos(position * frequencies[i]!), Math.sin(position * frequencies[i]!)]
      output[start + i] = x[i]! * cos - x[half + i]! * sin
      output[start + half + i] = x[half + i]! * cos + x[i]! * sin
    }
  }
  return output
}

function rmsNorm(x: Vector, weight: ArrayLike<number>, epsilon: number): Vector {
  const scale = 1 / Math.sqrt(x.reduce((sum, value) => sum + value * value, 0) / x.length + epsilon)
  return x.map((value, i) => value * scale * weight[i]!)
}

/** weight [out, in] · x [in] */
function product(weight: ArrayLike<number>, x: Vector): Vector {
  const output = new Float64Array(weight.length / x.length)
  for (let row = 0; row < output.length; row++) {
    let value = 0
    for (let i = 0; i < x.length; i++) value += weight[row * x.length + i]! * x[i]!
    output[row] = value
  }
  return output
}

function sum(a: Vector, b: Vector): Vector {
  return a.map((value, i) => value + b[i]!)
}

function find(weights: ReferenceWeights, name: string): ArrayLike<number> {
  const weight = weights.get(name)
  if (weight === undefined) throw new Error(`no weight "${name}"`)
  return weight
}
