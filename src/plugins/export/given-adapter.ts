/**
 * An adapter from elsewhere as what it does to a base model: changes of low rank by module, and tensors that stand in for the base's own.
 *
 * Layouts and names differ (PEFT, mlx-lm, models for images and text, the prefixes of compiled and wrapped modules), the result does
 * not. Nothing is compared with a base model here. Source: PEFT's "Checkpoint format", mlx-lm's `LoRALinear`, `LoRAEmbedding`, `DoRALinear`.
 */
import { WeightsError } from '#base/errors/errors.js'
import type { JsonObject } from '#base/util/json.js'
import type { NamedModule } from '#model/weights/adapted-modules.js'
import { plainTensorName, unwrappedName } from '#model/weights/given/tensor-names.js'
import { decodeSafetensors, toFloat32 } from '#model/weights/safetensors.js'
import { assertFinite } from '#model/weights/weight-source.js'
import type { HostTensor } from '#numerics/tensor/host-tensor.js'
import { type AdapterSettings, readAdapterSettings } from './adapter-settings.js'

/** A change of one weight [out, in]: W + scale · B A, and with a magnitude each row of that brought to its length. */
export interface LowRankChange {
  readonly rank: number
  readonly scale: number
  /** [R, in] */
  readonly a: Float32Array
  /** [out, R] */
  readonly b: Float32Array
  /** [out]; null for plain LoRA. */
  readonly magnitude: Float32Array | null
}

/** What an adapter holds, by the names of the base model. */
export interface GivenAdapter {
  readonly settings: AdapterSettings
  /** By module path (`model.layers.0.self_attn.q_proj`), the embedding and the head among them. */
  readonly changes: ReadonlyMap<string, LowRankChange>
  /** Whole tensors, saved along by PEFT or trained by `modules_to_save`. */
  readonly tensors: ReadonlyMap<string, HostTensor>
  /** Sentences: what of it is not read. */
  readonly notes: readonly string[]
}

type Side = 'a' | 'b' | 'embeddingA' | 'embeddingB' | 'magnitude'

const SIDES: readonly [RegExp, Side][] = [
  [/\.lora_A(?:\.default)?\.weight$/, 'a'],
  [/\.lora_B(?:\.default)?\.weight$/, 'b'],
  [/\.lora_embedding_A(?:\.default)?$/, 'embeddingA'],
  [/\.lora_embedding_B(?:\.default)?$/, 'embeddingB'],
  [/\.lora_magnitude_vector(?:\.default)?(?:\.weight)?$/, 'magnitude'],
]
/** mlx-lm keeps both turned around: x · lora_a · lora_b. */
const MLX_SIDES: readonly [RegExp, Side][] = [
  [/\.lora_a$/, 'a'],
  [/\.lora_b$/, 'b'],
  [/\.m$/, 'magnitude'],
]
const EMBEDDING = /(^|\.)embed_tokens$/
/** Parts of models for images and text that no text goes through. */
const OTHER_PART = /(^|\.)(vision_tower|vision_model|visual|multi_modal_projector|embed_vision|audio_tower)\./
/** What PEFT keeps of a module beside the one that it trained. */
const ORIGINAL = /\.original_module\./

/**
 * Reads an adapter's two files.
 *
 * @param config content of `adapter_config.json`
 * @param weights bytes of `adapter_model.safetensors` or mlx-lm's `adapters.safetensors`
 * @throws {WeightsError} `invalid_adapter`, `unsupported_adapter`, `non_finite_weights`, and what safetensors throws
 */
export function readGivenAdapter(config: JsonObject, weights: Uint8Array, fileName: string): GivenAdapter {
  const settings = readAdapterSettings(config)
  const sides = new Map<string, Map<Side, HostTensor>>()
  const givenNames = new Map<string, string>()
  const tensors = new Map<string, HostTensor>()
  let skipped = 0
  for (const [key, tensor] of decodeSafetensors(weights, fileName).tensors) {
    if (ORIGINAL.test(key)) continue
    if (OTHER_PART.test(key)) {
      skipped++
      continue
    }
    const [pattern, side] = (settings.layout === 'mlx' ? MLX_SIDES : SIDES).find(([each]) => each.test(key)) ?? []
    if (pattern === undefined || side === undefined) {
      const name = plainTensorName(key.replace(/\.modules_to_save(?:\.default)?(?=\.)/, ''))
      if (!/\.(weight|bias)$/.test(name)) throw unknownTensor(key)
      tensors.set(name, tensor)
      continue
    }
    const path = plainTensorName(key.replace(pattern, ''))
    const known = sides.get(path) ?? new Map<Side, HostTensor>()
    if (known.has(side)) throw invalid(`has two tensors for "${path}", the second is "${key}"`)
    sides.set(path, known.set(side, tensor))
    givenNames.set(path, unwrappedName(key.replace(pattern, '')))
  }
  const modules = Array.from(givenNames, ([path, given]) => ({ given, path }))
  const changes = new Map(
    modules.map((module) => [module.path, changeOf(module, sides.get(module.path) ?? new Map(), settings)]),
  )
  if (changes.size + tensors.size === 0) throw invalid('has no tensors')
  const notes = [...settings.notes, ...settings.checkModules(modules)]
  if (skipped > 0) notes.push(`${skipped} of its tensors belong to parts that are not for text, which are not served`)
  return { settings, changes, tensors, notes }
}

function changeOf(module: NamedModule, parts: ReadonlyMap<Side, HostTensor>, settings: AdapterSettings): LowRankChange {
  const { path } = module
  const isEmbedding = EMBEDDING.test(path)
  const isPeftEmbedding = parts.has('embeddingA') || parts.has('embeddingB')
  const factor = (side: Side, name: string): Matrix => matrixOf(parts.get(side), `${path}.${name}`)
  const isMlx = settings.layout === 'mlx'
  const kind = isPeftEmbedding ? 'lora_embedding_' : 'lora_'
  const first = factor(isPeftEmbedding ? 'embeddingA' : 'a', `${kind}${isMlx ? 'a' : 'A'}`)
  const second = factor(isPeftEmbedding ? 'embeddingB' : 'b', `${kind}${isMlx ? 'b' : 'B'}`)
  // an embedding's weight is [tokens, hidden]: its first factor is the one with the tokens
  const isSwapped = isPeftEmbedding || (isMlx && isEmbedding)
  const [a, b] = isSwapped ? [second, first] : [first, second]
  const turnsBoth = isPeftEmbedding || (isMlx && !isEmbedding)
  const [down, up] = turnsBoth ? [transpose(a), transpose(b)] : [a, b]
  const rank = down.rows
  const expected = settings.rankOf(module)
  if (up.columns !== rank || rank !== expected) {
    throw invalid(`has lora_A and lora_B of "${path}" of rank ${rank} and ${up.columns}, expected rank ${expected}`)
  }
  const magnitude = parts.get('magnitude')
  if (settings.isDora && magnitude === undefined) throw invalid(`has no magnitude of "${path}", expected one with DoRA`)
  if (magnitude !== undefined && (!settings.isDora || isEmbedding)) {
    const problem = `adapter has a magnitude of "${path}", expected those of linear modules, with DoRA`
    throw new WeightsError('unsupported_adapter', problem)
  }
  return {
    rank,
    scale: settings.scaleOf(module, rank),
    a: down.values,
    b: up.values,
    magnitude: magnitude === undefined ? null : magnitudeOf(magnitude, path, up.rows),
  }
}

interface Matrix {
  readonly rows: number
  readonly columns: number
  readonly values: Float32Array
}

function matrixOf(tensor: HostTensor | undefined, name: string): Matrix {
  if (tensor === undefined) throw invalid(`has no tensor "${name}", expected both factors of every module`)
  const [rows, columns, ...others] = tensor.shape
  if (rows === undefined || columns === undefined || others.length > 0) {
    throw invalid(`has "${name}" of shape [${tensor.shape.join(', ')}], expected a matrix`)
  }
  return { rows, columns, values: assertFinite(toFloat32(tensor, name), name) }
}

function transpose({ rows, columns, values }: Matrix): Matrix {
  const turned = new Float32Array(values.length)
  for (let row = 0; row < rows; row++) {
    for (let column = 0; column < columns; column++) turned[column * rows + row] = values[row * columns + column] ?? 0
  }
  return { rows: columns, columns: rows, values: turned }
}

function magnitudeOf(tensor: HostTensor, path: string, rows: number): Float32Array {
  const name = `${path}.lora_magnitude_vector`
  const values = assertFinite(toFloat32(tensor, name), name)
  if (values.length === rows) return values
  throw invalid(`has "${name}" of ${values.length} numbers, expected ${rows}`)
}

function unknownTensor(key: string): WeightsError {
  return invalid(
    `has the unknown tensor "${key}", expected names as base_model.model.model.layers.0.self_attn.q_proj.lora_A.weight (PEFT) or model.layers.0.self_attn.q_proj.lora_a (mlx-lm)`,
  )
}

function invalid(problem: string): WeightsError {
  return new WeightsError('invalid_adapter', `adapter ${problem}`)
}
