/**
 * A decoder as GGUF metadata and tensors, the way llama.cpp's converter writes them.
 *
 * A base model that is GGUF itself keeps its own metadata, byte for byte: only what the export changes is written anew.
 * Norms and biases stay float32, as llama.cpp wants them. Source: `convert_hf_to_gguf` of llama.cpp and
 * https://github.com/ggml-org/ggml/blob/master/docs/gguf.md.
 */
import { WeightsError } from '#base/errors/errors.js'
import { type DecoderConfig, type LayerAttention, scoreScaleOf } from '#model/architectures/decoder-config.js'
import { GEMMA3_PERIOD, GEMMA3_SLIDING_THETA, SMOLLM3_PERIOD } from '#model/architectures/gguf-config.js'
import { permuteRows, toGgufName } from '#model/weights/gguf/names.js'
import { llama3Divisor, yarnAttentionFactor } from '#numerics/nn/rotary-embedding.js'
import type { FloatStorage } from '../float-bytes.js'
import type { ExportTensor } from '../merged-tensors.js'
import type { GgufEntries, GgufOutputTensor, GgufValue } from './gguf-file.js'

/** `llama_ftype` of llama.cpp. */
const FILE_TYPE: Readonly<Record<FloatStorage, number>> = { f32: 0, f16: 1, q8_0: 7, bf16: 32 }
const QUANTIZATION_VERSION = 2
const QUERY_OR_KEY = /\.self_attn\.([qk])_proj\.(weight|bias)$/
const BLOCK = 32

/** llama.cpp's architecture by our family. */
const ARCHITECTURES: ReadonlyMap<string, string> = new Map([
  ['llama', 'llama'],
  ['mistral', 'llama'],
  ['qwen2', 'qwen2'],
  ['qwen3', 'qwen3'],
  ['smollm3', 'smollm3'],
  ['gemma3_text', 'gemma3'],
])

/** @throws {WeightsError} `unsupported_export` for a family that has no GGUF form here */
export function ggufArchitecture({ family }: DecoderConfig): string {
  const architecture = ARCHITECTURES.get(family)
  if (architecture !== undefined) return architecture
  throw new WeightsError('unsupported_export', `a model of family "${family}" cannot be exported as GGUF`)
}

export const uint32 = (value: number): GgufValue => ({ type: 'uint32', value })
export const float32 = (value: number): GgufValue => ({ type: 'float32', value })
export const string = (value: string): GgufValue => ({ type: 'string', value })

/** What any exported model says about itself. */
export function generalEntries(name: string, storage: FloatStorage): GgufEntries {
  return new Map([
    ['general.type', string('model')],
    ['general.name', string(name)],
    ['general.file_type', uint32(FILE_TYPE[storage])],
    ['general.quantization_version', uint32(QUANTIZATION_VERSION)],
  ])
}

/** Sizes and switches of the decoder. */
export function decoderEntries(config: DecoderConfig): GgufEntries {
  const architecture = ggufArchitecture(config)
  const entries = new Map<string, GgufValue>([['general.architecture', string(architecture)]])
  const put = (key: string, value: GgufValue): void => void entries.set(`${architecture}.${key}`, value)
  put('block_count', uint32(config.layerCount))
  put('context_length', uint32(config.contextLength))
  put('embedding_length', uint32(config.hiddenSize))
  put('feed_forward_length', uint32(config.mlpSize))
  put('attention.head_count', uint32(config.headCount))
  put('attention.head_count_kv', uint32(config.kvHeadCount))
  put('attention.key_length', uint32(config.headSize))
  put('attention.value_length', uint32(config.headSize))
  put('attention.layer_norm_rms_epsilon', float32(config.normEpsilon))
  put('rope.dimension_count', uint32(config.headSize))
  put('rope.freq_base', float32(config.rotary.theta))
  put('vocab_size', uint32(config.vocabularySize))
  if (config.rotary.linearFactor !== 1) {
    put('rope.scaling.type', string('linear'))
    put('rope.scaling.factor', float32(config.rotary.linearFactor))
  }
  for (const [key, value] of yarnEntries(config.rotary)) put(key, value)
  for (const [key, value] of layerEntries(config)) put(key, value)
  return entries
}

/** YaRN's stretching; llama.cpp multiplies its usual attention factor with the one that is written. */
function yarnEntries({
  yarn,
  longropeDivisors,
  attentionFactor = 1,
}: DecoderConfig['rotary']): readonly (readonly [string, GgufValue])[] {
  if (longropeDivisors !== undefined || (yarn !== undefined && !yarn.isTruncated)) {
    throw new WeightsError(
      'unsupported_export',
      'the model has a rotation (longrope, or yarn without truncation) for which GGUF has no field here',
    )
  }
  if (yarn === undefined) return []
  return [
    ['rope.scaling.type', string('yarn')],
    ['rope.scaling.factor', float32(yarn.factor)],
    ['rope.scaling.original_context_length', uint32(yarn.originalContextLength)],
    ['rope.scaling.yarn_beta_fast', float32(yarn.betaFast)],
    ['rope.scaling.yarn_beta_slow', float32(yarn.betaSlow)],
    ['rope.scaling.yarn_attn_factor', float32(attentionFactor / yarnAttentionFactor(yarn.factor))],
  ]
}

/** What tells the layers of Gemma 3 and SmolLM3 apart; both have a fixed pattern in llama.cpp. */
function layerEntries(config: DecoderConfig): readonly (readonly [string, GgufValue])[] {
  const { family, layerAttention = [], slidingWindow = 0, slidingRotary } = config
  const isPeriodic = (period: number, last: LayerAttention): boolean =>
    layerAttention.every((kind, layer) => (kind === last) === ((layer + 1) % period === 0))
  const refuse = (what: string): never => {
    throw new WeightsError('unsupported_export', `the model has ${what}, for which GGUF has no field`)
  }
  const ownScale = scoreScaleOf(config) / (config.rotary.attentionFactor ?? 1) ** 2
  if (Math.abs(ownScale * Math.sqrt(config.headSize) - 1) > 1e-6) refuse('scores scaled by another number')
  if (family === 'smollm3' && !isPeriodic(SMOLLM3_PERIOD, 'unrotated')) refuse('other layers without rotation')
  if (family !== 'gemma3_text') return []
  const period = 1 + layerAttention.indexOf('full')
  if (period === 0 || !isPeriodic(period, 'full')) refuse('an irregular pattern of windows')
  const theta = slidingRotary?.theta ?? GEMMA3_SLIDING_THETA
  return [
    ['attention.sliding_window', uint32(slidingWindow)],
    ...(period === GEMMA3_PERIOD ? [] : [['attention.sliding_window_pattern', uint32(period)] as const]),
    ...(theta === GEMMA3_SLIDING_THETA ? [] : [['rope.freq_base_swa', float32(theta)] as const]),
  ]
}

/** The tensors under GGUF's names, in llama.cpp's order of rows. */
export function ggufTensors(
  tensors: readonly ExportTensor[],
  config: DecoderConfig,
  storage: FloatStorage,
): readonly GgufOutputTensor[] {
  const out: GgufOutputTensor[] = []
  const divisors = rotaryDivisors(config)
  if (divisors !== null) {
    const read = (): Promise<Float32Array> => Promise.resolve(divisors)
    out.push({ name: 'rope_freqs.weight', shape: [divisors.length], storage: 'f32', read })
  }
  for (const tensor of tensors) {
    const name = toGgufName(tensor.name, ggufArchitecture(config))
    if (name === null) {
      throw new WeightsError('unsupported_export', `tensor "${tensor.name}" has no name in GGUF`)
    }
    out.push({
      name,
      shape: tensor.shape,
      storage: storageOf(tensor, storage),
      read: async () => inGgufOrder(await tensor.read(), tensor, config),
    })
  }
  return out
}

/** llama.cpp wants vectors as float32; rows that are no whole blocks cannot be quantized. */
function storageOf({ shape }: ExportTensor, wanted: FloatStorage): FloatStorage {
  if (shape.length === 1) return 'f32'
  const rowLength = shape.at(-1) ?? 0
  return wanted === 'q8_0' && rowLength % BLOCK !== 0 ? 'f16' : wanted
}

function inGgufOrder(values: Float32Array, { name, shape }: ExportTensor, config: DecoderConfig): Float32Array {
  const { normOffset = 0 } = config
  // llama.cpp multiplies with what is stored
  if (normOffset !== 0 && isNorm(name)) return values.map((value) => value + normOffset)
  const headCount = interleavedHeadCount(config, name)
  return headCount === null ? values : permuteRows(values, headCount, values.length / (shape[0] ?? 1))
}

/** Whether a tensor is the weight of a norm. */
export function isNorm(name: string): boolean {
  return /norm\.weight$/.test(name)
}

/** Heads of a query or key tensor whose rows llama.cpp interleaves (`llama`, `smollm3`); null for others. */
export function interleavedHeadCount(config: DecoderConfig, name: string): number | null {
  const match = QUERY_OR_KEY.exec(name)
  if (match === null || !['llama', 'smollm3'].includes(ggufArchitecture(config))) return null
  return match[1] === 'q' ? config.headCount : config.kvHeadCount
}

/** Llama 3's scaling, which GGUF keeps as divisors of the frequencies [D/2]; null where there is none. */
function rotaryDivisors({ rotary, headSize }: DecoderConfig): Float32Array | null {
  const { llama3Scaling: scaling, theta } = rotary
  if (scaling === null) return null
  return Float32Array.from({ length: headSize / 2 }, (_, i) => llama3Divisor(theta ** ((-2 * i) / headSize), scaling))
}
