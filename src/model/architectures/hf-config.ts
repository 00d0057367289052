/**
 * `config.json` of Hugging Face models as `DecoderConfig`: Llama (SmolLM2, Llama 2 and 3), Mistral, Qwen2/2.5, Qwen3, SmolLM3,
 * Gemma 3 (text).
 *
 * Defaults are those of each family's configuration class in transformers. A field that changes the arithmetic and is not
 * supported is an error, never ignored.
 * A window of all layers that is shorter than the context is honoured by shortening the context to it: up to there the two are
 * the same. Windows of some layers (Gemma 3) are computed.
 */

import { WeightsError } from '#base/errors/errors.js'
import { isJsonObject, type JsonObject, type JsonValue } from '#base/util/json.js'
import { describesFloat8 } from '#model/weights/float8.js'
import { textPartOf } from '#model/weights/text-part.js'
import { type ConfigReader, createConfigReader, unsupportedModel } from './config-reader.js'
import { assertConsistent, type DecoderConfig, type LayerAttention } from './decoder-config.js'
import { rotaryOf } from './hf-rotary.js'

const WHAT = 'config.json'

/** What a family fixes by itself, where `config.json` has no field or may leave it out. */
interface Family {
  readonly architecture: string
  /** Which of the linear layers have biases. */
  readonly biases: (reader: ConfigReader) => Pick<DecoderConfig, 'hasQkvBias' | 'hasOutputBias' | 'hasMlpBias'>
  readonly hasQkNorm: boolean
  readonly defaultHeadSize: number | null
  readonly isWindowed: (reader: ConfigReader) => boolean
  readonly isEmbeddingTied?: boolean
  readonly defaultTheta?: number
  /** What only this family has. */
  readonly traits?: (reader: ConfigReader, json: JsonObject) => Partial<DecoderConfig>
}

const NO_BIAS = { hasQkvBias: false, hasOutputBias: false, hasMlpBias: false }

/** Families by `model_type`. */
const FAMILIES: ReadonlyMap<string, Family> = new Map<string, Family>([
  [
    'llama',
    {
      architecture: 'LlamaForCausalLM',
      biases: (reader) => ({
        hasQkvBias: reader.flag('attention_bias', false),
        hasOutputBias: reader.flag('attention_bias', false),
        hasMlpBias: reader.flag('mlp_bias', false),
      }),
      hasQkNorm: false,
      defaultHeadSize: null,
      isWindowed: () => false,
    },
  ],
  [
    'mistral',
    {
      architecture: 'MistralForCausalLM',
      biases: () => NO_BIAS,
      hasQkNorm: false,
      defaultHeadSize: null,
      isWindowed: (reader) => reader.raw('sliding_window') !== null,
    },
  ],
  [
    'qwen2',
    {
      architecture: 'Qwen2ForCausalLM',
      biases: () => ({ ...NO_BIAS, hasQkvBias: true }),
      hasQkNorm: false,
      defaultHeadSize: null,
      isWindowed: (reader) => reader.flag('use_sliding_window', false),
    },
  ],
  [
    'qwen3',
    {
      architecture: 'Qwen3ForCausalLM',
      biases: (reader) => ({
        hasQkvBias: reader.flag('attention_bias', false),
        hasOutputBias: reader.flag('attention_bias', false),
        hasMlpBias: false,
      }),
      hasQkNorm: true,
      defaultHeadSize: 128,
      isWindowed: (reader) => reader.flag('use_sliding_window', false),
    },
  ],
  [
    'smollm3',
    {
      architecture: 'SmolLM3ForCausalLM',
      biases: (reader) => ({
        hasQkvBias: reader.flag('attention_bias', false),
        hasOutputBias: reader.flag('attention_bias', false),
        hasMlpBias: reader.flag('mlp_bias', false),
      }),
      hasQkNorm: false,
      defaultHeadSize: null,
      isWindowed: (reader) => reader.flag('use_sliding_window', false),
      isEmbeddingTied: true,
      defaultTheta: 2e6,
      traits: smollm3Traits,
    },
  ],
  [
    'gemma3_text',
    {
      architecture: 'Gemma3ForCausalLM',
      biases: (reader) => ({
        hasQkvBias: reader.flag('attention_bias', false),
        hasOutputBias: reader.flag('attention_bias', false),
        hasMlpBias: false,
      }),
      hasQkNorm: true,
      defaultHeadSize: 256,
      isWindowed: () => false,
      isEmbeddingTied: true,
      defaultTheta: 1e6,
      traits: gemma3Traits,
    },
  ],
])

/** `model_type` of every supported family. */
export const HF_FAMILIES: readonly string[] = [...FAMILIES.keys()]

/**
 * Maps `config.json` to a decoder; of a model for images and text its text part.
 *
 * @throws {WeightsError} `unknown_architecture` listing the supported ones; `invalid_config` naming the key;
 *   `unsupported_model` for a variant of a known family that we do not compute
 */
export function fromHfConfig(whole: JsonObject): DecoderConfig {
  const json = textPartOf(whole)
  const reader = createConfigReader((key) => json[key], WHAT)
  const [name, family] = familyOf(json)
  refuseUnsupported(reader, name)
  const headCount = reader.size('num_attention_heads')
  const hiddenSize = reader.size('hidden_size')
  const headSize = reader.size('head_dim', family.defaultHeadSize ?? hiddenSize / headCount)
  const trainedLength = reader.size('max_position_embeddings')
  const rotary = rotaryOf(
    { rope_theta: family.defaultTheta ?? 10_000, ...layerRotary(json, 'full_attention') },
    { trainedLength, headSize },
  )
  const config: DecoderConfig = {
    family: name,
    layerCount: reader.size('num_hidden_layers'),
    hiddenSize,
    headCount,
    kvHeadCount: reader.size('num_key_value_heads', headCount),
    headSize,
    mlpSize: reader.size('intermediate_size'),
    vocabularySize: reader.size('vocab_size'),
    contextLength:
      name === 'gemma3_text' ? rotary.contextLength : Math.min(rotary.contextLength, windowOf(reader, family)),
    normEpsilon: reader.positive('rms_norm_eps', 1e-6),
    rotary: rotary.options,
    activation: 'silu',
    ...family.biases(reader),
    hasQkNorm: family.hasQkNorm,
    isEmbeddingTied: reader.flag('tie_word_embeddings', family.isEmbeddingTied ?? false),
    ...family.traits?.(reader, json),
  }
  assertConsistent(config, WHAT)
  return config
}

function familyOf(json: JsonObject): readonly [string, Family] {
  const architectures = Array.isArray(json['architectures']) ? (json['architectures'] as readonly JsonValue[]) : []
  const modelType = json['model_type']
  for (const [name, family] of FAMILIES) {
    const isNamed = modelType === undefined ? architectures.includes(family.architecture) : modelType === name
    if (!isNamed) continue
    if (architectures.length > 0 && !architectures.includes(family.architecture)) {
      throw unsupportedModel(
        WHAT,
        `has architecture ${JSON.stringify(architectures[0])}, expected ${family.architecture}`,
      )
    }
    return [name, family]
  }
  const given = JSON.stringify(modelType ?? architectures[0] ?? null)
  throw new WeightsError(
    'unknown_architecture',
    `${WHAT} has model_type ${given}, expected one of ${HF_FAMILIES.join(', ')}`,
    isJsonObject(json['text_config'] ?? null) ? { hint: TEXT_PART } : {},
  )
}

/** Models for images and text describe their text part beside the others. */
const TEXT_PART =
  'the model takes more than text; a GGUF file of it holds the text part alone (without its "mmproj" file)'

function refuseUnsupported(reader: ConfigReader, family: string): void {
  const [key, expected] = family === 'gemma3_text' ? ['hidden_activation', 'gelu_pytorch_tanh'] : ['hidden_act', 'silu']
  const activation = reader.text(key) ?? expected
  if (activation !== expected) throw unsupportedModel(WHAT, `has ${key} "${activation}", expected "${expected}"`)
  const quantization = reader.raw('quantization_config')
  if (quantization !== null && !describesFloat8(quantization)) {
    throw unsupportedModel(WHAT, 'describes quantized weights, expected plain float weights, fp8 or a GGUF file')
  }
  const partial = reader.raw('partial_rotary_factor') ?? 1
  if (partial !== 1) throw unsupportedModel(WHAT, `has partial_rotary_factor ${JSON.stringify(partial)}, expected 1`)
}

/** SmolLM3: some layers, by default every fourth, do not turn queries and keys. */
function smollm3Traits(reader: ConfigReader): Partial<DecoderConfig> {
  const layerCount = reader.size('num_hidden_layers')
  const interval = reader.size('no_rope_layer_interval', 4)
  // despite its name the list has 1 where a layer does turn them
  const listed = reader.raw('no_rope_layers')
  const isRotated = (layer: number): boolean =>
    Array.isArray(listed) ? listed[layer] === 1 : (layer + 1) % interval !== 0
  return { layerAttention: layerKinds(layerCount, (layer) => (isRotated(layer) ? 'full' : 'unrotated')) }
}

/** Gemma 3: norms before and after, weights stored minus one, scaled embeddings, windows with a rotation of their own. */
function gemma3Traits(reader: ConfigReader, json: JsonObject): Partial<DecoderConfig> {
  for (const key of ['attn_logit_softcapping', 'final_logit_softcapping']) {
    if (reader.raw(key) !== null) throw unsupportedModel(WHAT, `has ${key}, expected none`)
  }
  if (reader.flag('use_bidirectional_attention', false)) {
    throw unsupportedModel(WHAT, 'has use_bidirectional_attention true, expected false')
  }
  const layerCount = reader.size('num_hidden_layers')
  const pattern = reader.size('sliding_window_pattern', reader.size('_sliding_window_pattern', 6))
  const listed = reader.raw('layer_types')
  const unknown = Array.isArray(listed) && listed.find((type) => !/^(full|sliding)_attention$/.test(String(type)))
  if (unknown) throw unsupportedModel(WHAT, `has a layer of type ${JSON.stringify(unknown)}`)
  const isFull = (layer: number): boolean =>
    Array.isArray(listed) ? listed[layer] === 'full_attention' : (layer + 1) % pattern === 0
  const sliding = rotaryOf(
    isByLayer(json) ? layerRotary(json, 'sliding_attention') : { rope_theta: json['rope_local_base_freq'] ?? 10_000 },
    { trainedLength: reader.size('max_position_embeddings'), headSize: reader.size('head_dim', 256) },
  ).options
  return {
    activation: 'gelu_tanh',
    layerAttention: layerKinds(layerCount, (layer) => (isFull(layer) ? 'full' : 'sliding')),
    slidingWindow: reader.size('sliding_window', 4096),
    slidingRotary: sliding,
    scoreScale: reader.positive('query_pre_attn_scalar', 256) ** -0.5,
    hasPostNorms: true,
    embeddingScale: Math.sqrt(reader.size('hidden_size')),
    normOffset: 1,
  }
}

function layerKinds(count: number, kindOf: (layer: number) => LayerAttention): readonly LayerAttention[] {
  return Array.from({ length: count }, (_, layer) => kindOf(layer))
}

/** Whether `rope_parameters` is given for each kind of layer, as transformers 5 writes it. */
function isByLayer(json: JsonObject): boolean {
  const parameters = json['rope_parameters']
  return isJsonObject(parameters) && isJsonObject(parameters['full_attention'])
}

/** The configuration with the rotary parameters of one kind of layer. */
function layerRotary(json: JsonObject, kind: 'full_attention' | 'sliding_attention'): JsonObject {
  const parameters = json['rope_parameters']
  return isJsonObject(parameters) && isByLayer(json) ? { ...json, rope_parameters: parameters[kind] ?? {} } : json
}

/** Length of the sliding window; infinity if every layer sees everything. */
function windowOf(reader: ConfigReader, family: Family): number {
  const layerTypes = reader.raw('layer_types')
  if (Array.isArray(layerTypes) && layerTypes.every((type) => type === 'full_attention')) return Infinity
  const unknown =
    Array.isArray(layerTypes) && layerTypes.find((type) => !/^(full|sliding)_attention$/.test(String(type)))
  if (unknown) throw unsupportedModel(WHAT, `has a layer of type ${JSON.stringify(unknown)}`)
  const isWindowed = Array.isArray(layerTypes) || family.isWindowed(reader)
  return isWindowed ? reader.size('sliding_window') : Infinity
}
