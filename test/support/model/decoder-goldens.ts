/**
 * Reads the PyTorch goldens of `test/goldens/make_decoder_goldens.py` and makes the weights both sides compute from a formula.
 */
import { readFileSync } from 'node:fs'
import {
  type DecoderConfig,
  PROJECTIONS,
  type Projection,
  projectionPath,
  projectionShape,
} from '#model/architectures/decoder-config.js'
import type { AdapterWeights } from '#model/weights/adapter.js'
import { plainSampling } from '#training/rows/row-sampling.js'
import type { Row } from '#training/trainer/row-batch.js'

export interface PackedArray {
  readonly shape: readonly number[]
  readonly float32: string
}

export interface GoldenLoss {
  readonly options: Readonly<Record<string, number | string | boolean>>
  readonly loss: number
  /** All adapter gradients one after the other, in the order of `gradientNames`. */
  readonly gradients: PackedArray
}

export interface DecoderGolden {
  readonly config: DecoderConfig
  readonly adapter: { readonly rank: number; readonly alpha: number }
  readonly tokens: readonly (readonly number[])[]
  readonly groups: readonly (readonly number[])[]
  readonly parents: readonly (readonly number[])[]
  readonly positions: readonly (readonly number[])[]
  readonly mask: readonly (readonly number[])[]
  readonly labelPositions: readonly number[]
  readonly labels: readonly number[]
  readonly segments: readonly number[]
  readonly old: PackedArray
  readonly advantage: readonly number[]
  readonly weight: readonly number[]
  readonly logits: PackedArray
  readonly logp: PackedArray
  readonly entropy: PackedArray
  readonly gradientNames: readonly string[]
  readonly losses: Readonly<Record<'sft' | 'cispo' | 'sequence_ppo', GoldenLoss>>
}

/** What `make_sampled_goldens.py` writes: rows whose tokens were drawn at temperatures and from sets of their own, in the order of the trained tokens. */
export interface SampledGolden
  extends Pick<
    DecoderGolden,
    | 'config'
    | 'adapter'
    | 'tokens'
    | 'groups'
    | 'parents'
    | 'positions'
    | 'mask'
    | 'old'
    | 'advantage'
    | 'weight'
    | 'logp'
    | 'entropy'
    | 'gradientNames'
  > {
  readonly temperatures: readonly number[]
  /** Null: all tokens. */
  readonly kept: readonly (readonly number[] | null)[]
  readonly reference: PackedArray
  readonly options: { readonly beta: number; readonly entropy_coef: number }
  readonly loss: number
  readonly gradients: PackedArray
}

/** Reads a golden file; the caller names its type. */
export function readGolden<T>(file: string): T {
  return JSON.parse(readFileSync(new URL(`../../goldens/${file}`, import.meta.url), 'utf8')) as T
}

/** The packed rows of a golden. */
export function rowsOf(golden: Pick<DecoderGolden, 'tokens' | 'groups' | 'parents' | 'positions' | 'mask'>): Row[] {
  return golden.tokens.map((tokens, r) => ({
    tokens: Int32Array.from(tokens),
    positions: Int32Array.from(golden.positions[r]!),
    groupIds: Int32Array.from(golden.groups[r]!),
    parentIds: Int32Array.from(golden.parents[r]!),
    lossMask: Uint8Array.from(golden.mask[r]!),
  }))
}

/** The same with how each trained token was drawn. */
export function sampledRowsOf(golden: SampledGolden): Row[] {
  let n = 0
  return rowsOf(golden).map((row) => {
    const sampling = plainSampling(row.tokens.length)
    row.lossMask.forEach((isTrained, t) => {
      if (isTrained === 0) return
      sampling.temperatures[t] = golden.temperatures[n] as number
      const ids = golden.kept[n] ?? null
      if (ids !== null) sampling.kept.set(t, Int32Array.from(ids))
      n += 1
    })
    return { ...row, sampling }
  })
}

/** The numbers of a packed array. */
export function unpack(packed: PackedArray): Float32Array {
  const bytes = Buffer.from(packed.float32, 'base64')
  return new Float32Array(bytes.buffer.slice(bytes.byteOffset, bytes.byteOffset + bytes.byteLength))
}

/** `offset + scale * u` with u in [-1, 1) hashed from the name: the script's `tensor`. */
export function formulaTensor(name: string, count: number, scale: number, offset = 0): Float32Array {
  const base = fnv1a(name)
  const values = new Float32Array(count)
  for (let i = 0; i < count; i++) {
    let x = (base + i) >>> 0
    x = (x ^ (x >>> 16)) >>> 0
    x = Math.imul(x, 0x7feb352d) >>> 0
    x = (x ^ (x >>> 15)) >>> 0
    x = Math.imul(x, 0x846ca68b) >>> 0
    x = (x ^ (x >>> 16)) >>> 0
    values[i] = offset + ((x >>> 8) / 2 ** 23 - 1) * scale
  }
  return values
}

/** All base weights in Hugging Face's names. */
export function formulaWeights(
  config: DecoderConfig,
): Map<string, { readonly shape: readonly number[]; readonly data: Float32Array }> {
  const weights = new Map<string, { shape: readonly number[]; data: Float32Array }>()
  const put = (name: string, shape: readonly number[], scale: number, offset = 0) =>
    weights.set(name, {
      shape,
      data: formulaTensor(
        name,
        shape.reduce((a, b) => a * b, 1),
        scale,
        offset,
      ),
    })
  const { hiddenSize, vocabularySize } = config
  put('model.embed_tokens.weight', [vocabularySize, hiddenSize], 0.5)
  if (!config.isEmbeddingTied) put('lm_head.weight', [vocabularySize, hiddenSize], 0.5)
  put('model.norm.weight', [hiddenSize], 0.2, 1)
  for (let layer = 0; layer < config.layerCount; layer++) {
    put(`model.layers.${layer}.input_layernorm.weight`, [hiddenSize], 0.2, 1)
    put(`model.layers.${layer}.post_attention_layernorm.weight`, [hiddenSize], 0.2, 1)
    for (const projection of PROJECTIONS) {
      const path = projectionPath(layer, projection)
      const shape = projectionShape(config, projection)
      put(`${path}.weight`, shape, Math.sqrt(3 / shape[1]))
      if (hasBias(config, projection)) put(`${path}.bias`, [shape[0]], 0.3)
    }
    if (!config.hasQkNorm) continue
    for (const name of ['q_norm', 'k_norm']) {
      put(`model.layers.${layer}.self_attn.${name}.weight`, [config.headSize], 0.2, 1)
    }
  }
  return weights
}

/** The adapter of the goldens. */
export function formulaAdapter(config: DecoderConfig, rank: number, alpha: number): AdapterWeights {
  const a = new Map<string, Float32Array>()
  const b = new Map<string, Float32Array>()
  for (let layer = 0; layer < config.layerCount; layer++) {
    for (const projection of PROJECTIONS) {
      const path = projectionPath(layer, projection)
      const [rows, columns] = projectionShape(config, projection)
      a.set(path, formulaTensor(`${path}.lora_A.weight`, rank * columns, Math.sqrt(3 / columns)))
      b.set(path, formulaTensor(`${path}.lora_B.weight`, rows * rank, 0.3))
    }
  }
  return { config: { rank, alpha, targets: [...PROJECTIONS] }, a, b }
}

function hasBias(config: DecoderConfig, projection: Projection): boolean {
  if (projection === 'q_proj' || projection === 'k_proj' || projection === 'v_proj') return config.hasQkvBias
  return projection === 'o_proj' ? config.hasOutputBias : config.hasMlpBias
}

function fnv1a(text: string): number {
  let hash = 0x811c9dc5
  for (const byte of Buffer.from(text)) hash = Math.imul(hash ^ byte, 0x01000193) >>> 0
  return hash
}
