/**
 * The text part of a Hugging Face model for images and text, as if it were a model of its own. Knows Gemma 3 (4B and larger).
 *
 * Two layouts of names are in use: `language_model.model.…` (what is published, and what transformers 4 saves) and
 * `model.language_model.…` (what its classes call them since 4.52).
 */
import { isJsonObject, type JsonObject } from '#base/util/json.js'

interface TextPart {
  readonly modelType: string
  readonly architecture: string
  /** What published files leave out: defaults of the text part's configuration class (`Gemma3TextConfig`, transformers 4.57). */
  readonly defaults: JsonObject
}

/** By `model_type` of the whole. */
const TEXT_PARTS: ReadonlyMap<unknown, TextPart> = new Map([
  [
    'gemma3',
    {
      modelType: 'gemma3_text',
      architecture: 'Gemma3ForCausalLM',
      defaults: {
        num_attention_heads: 8,
        num_key_value_heads: 4,
        head_dim: 256,
        vocab_size: 262_208,
        max_position_embeddings: 2 ** 17,
      },
    },
  ],
])

/** Of the whole, but meant for its text. */
const SHARED = ['bos_token_id', 'eos_token_id', 'pad_token_id', 'dtype', 'torch_dtype', 'quantization_config']

/** The configuration of the text part alone; a configuration of text, or of a whole that is not known here, stays as it is. */
export function textPartOf(config: JsonObject): JsonObject {
  const part = TEXT_PARTS.get(config['model_type'])
  const text = config['text_config']
  if (part === undefined || !isJsonObject(text) || (text['model_type'] ?? part.modelType) !== part.modelType)
    return config
  const shared = Object.fromEntries(SHARED.flatMap((key) => (config[key] === undefined ? [] : [[key, config[key]]])))
  return { ...part.defaults, ...shared, ...text, model_type: part.modelType, architectures: [part.architecture] }
}

/** What the text part alone calls a tensor of the whole; null for tensors of the other parts. */
export function textTensorName(name: string): string | null {
  const [, inside] = /^(?:language_model\.(?=model\.|lm_head\.)|model\.(?=language_model\.))(.+)$/.exec(name) ?? []
  if (inside !== undefined) return inside.replace(/^language_model\./, 'model.')
  return name.startsWith('lm_head.') ? name : null
}
