/**
 * The files beside the weights of a Hugging Face directory: a base model's own where it is one, else made from its decoder.
 *
 * Source: the configuration classes of transformers 4 and 5.
 */
import { readdir, readFile, stat } from 'node:fs/promises'
import { join } from 'node:path'
import { WeightsError } from '#base/errors/errors.js'
import type { JsonObject } from '#base/util/json.js'
import type { DecoderConfig } from '#model/architectures/decoder-config.js'
import { hfConfigOf } from '#model/architectures/hf-config-of.js'
import type { TextModel } from '#model/text/text-model.js'
import { parseJsonText } from '#model/weights/strict-json.js'
import type { WeightSource } from '#model/weights/weight-source.js'
import { type ExportFile, jsonFile, wholeFile } from '../export-file.js'
import { vocabularyFiles } from './vocabulary-files.js'

/** What describes a model beside its weights: no weights, no code. */
const KEPT_FILE =
  /^(generation_config|tokenizer|tokenizer_config|special_tokens_map|added_tokens|vocab)\.json$|^merges\.txt$|^chat_template\.(jinja|json)$|^tokenizer\.model$/
const MAX_FILE_BYTES = 256 * 2 ** 20
const DTYPES = { f32: 'float32', f16: 'float16', bf16: 'bfloat16' } as const

/** transformers' architecture by our family. */
const ARCHITECTURES: ReadonlyMap<string, string> = new Map([
  ['llama', 'LlamaForCausalLM'],
  ['qwen2', 'Qwen2ForCausalLM'],
  ['qwen3', 'Qwen3ForCausalLM'],
  ['smollm3', 'SmolLM3ForCausalLM'],
  ['gemma3_text', 'Gemma3ForCausalLM'],
])

export interface DescriptionOptions {
  readonly source: WeightSource
  readonly config: DecoderConfig
  readonly text: TextModel
  readonly storage: keyof typeof DTYPES
}

/** `config.json` and the tokenizer's files. */
export async function descriptionFiles(options: DescriptionOptions): Promise<readonly ExportFile[]> {
  const { source, config, text, storage } = options
  const dtype = DTYPES[storage]
  if (source.hfConfig !== null) {
    // `dtype` is the new name, `torch_dtype` what releases before 5 read
    // what is written is no longer quantized
    const { dtype: _old, quantization_config: _quantization, ...rest } = source.hfConfig
    // releases before 5 believe the configuration and would drop the head that is in the file
    const tying = source.hasOwnHead ? { tie_word_embeddings: false } : {}
    return [jsonFile('config.json', { ...rest, ...tying, torch_dtype: dtype }), ...(await keptFiles(source.path))]
  }
  const ends = text.eosTokenIds
  const generation = { bos_token_id: text.bosTokenId, eos_token_id: ends.length === 1 ? ends[0] : ends }
  return [
    jsonFile('config.json', { ...toHfConfig(config, source), ...generation, torch_dtype: dtype }),
    ...(ends.length === 0 ? [] : [jsonFile('generation_config.json', generation)]),
    ...vocabularyFiles(source.ggufMetadata ?? new Map(), text, config.contextLength),
  ]
}

async function keptFiles(directory: string): Promise<readonly ExportFile[]> {
  const files: ExportFile[] = []
  const withTools = await tokenizerConfigWithTools(directory)
  if (withTools !== null) files.push(jsonFile(TOKENIZER_CONFIG, withTools))
  for (const name of (await readdir(directory)).sort()) {
    if (!KEPT_FILE.test(name) || (withTools !== null && REPLACED.has(name))) continue
    const path = join(directory, name)
    const { size } = await stat(path)
    if (size <= MAX_FILE_BYTES) files.push(wholeFile(name, await readFile(path)))
  }
  return files
}

const TOKENIZER_CONFIG = 'tokenizer_config.json'
const TEMPLATE = 'chat_template.jinja'
/** What stands in `TOKENIZER_CONFIG` of a model with a template for tools. */
const REPLACED: ReadonlySet<string> = new Set([TOKENIZER_CONFIG, TEMPLATE, 'chat_template.json'])

/**
 * Where a second template lies in a folder, both templates as the list that they were before transformers 4.50, which every
 * release reads: an export's files lie side by side. Null where there is one template.
 */
async function tokenizerConfigWithTools(directory: string): Promise<JsonObject | null> {
  const read = (name: string) => readFile(join(directory, name), 'utf8').catch(() => null)
  const [plain, forTools] = await Promise.all([read(TEMPLATE), read('additional_chat_templates/tool_use.jinja')])
  if (plain === null || forTools === null) return null
  const config = parseJsonText((await read(TOKENIZER_CONFIG)) ?? '{}', TOKENIZER_CONFIG) as JsonObject
  const templates = [
    { name: 'default', template: plain },
    { name: 'tool_use', template: forTools },
  ]
  return { ...config, chat_template: templates }
}

/** A decoder that came from GGUF as `config.json`. */
function toHfConfig(config: DecoderConfig, source: WeightSource): JsonObject {
  const architecture = ARCHITECTURES.get(config.family)
  if (architecture === undefined) {
    throw new WeightsError('unsupported_export', `a GGUF model of family "${config.family}" has no config.json here`)
  }
  const architectureOfFile = String(source.ggufMetadata?.get('general.architecture'))
  const length = Number(source.ggufMetadata?.get(`${architectureOfFile}.context_length`) ?? config.contextLength)
  return { architectures: [architecture], ...hfConfigOf(config, length), ...ropeScaling(config.rotary) }
}

/** What stretches the rotation. */
function ropeScaling({
  llama3Scaling: llama3,
  linearFactor,
  yarn,
  attentionFactor = 1,
}: DecoderConfig['rotary']): JsonObject {
  if (llama3 !== null) {
    return {
      rope_scaling: {
        rope_type: 'llama3',
        factor: llama3.factor,
        low_freq_factor: llama3.lowFrequencyFactor,
        high_freq_factor: llama3.highFrequencyFactor,
        original_max_position_embeddings: llama3.originalContextLength,
      },
    }
  }
  if (yarn !== undefined) {
    return {
      rope_scaling: {
        rope_type: 'yarn',
        factor: yarn.factor,
        original_max_position_embeddings: yarn.originalContextLength,
        beta_fast: yarn.betaFast,
        beta_slow: yarn.betaSlow,
        truncate: yarn.isTruncated,
        attention_factor: attentionFactor,
      },
    }
  }
  return linearFactor === 1 ? {} : { rope_scaling: { rope_type: 'linear', factor: linearFactor } }
}
