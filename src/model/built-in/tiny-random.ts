/**
 * Small random models as real Hugging Face directories: the stand-in for a real base model, and what tests run on.
 *
 * Deterministic: same sizes and seed, same bytes on every machine. Written beside the target and renamed, so two
 * processes may race, and a crash leaves nothing half-made.
 */
import { mkdir, readFile } from 'node:fs/promises'
import { dirname, join, resolve } from 'node:path'
import { WeightsError } from '#base/errors/errors.js'
import { systemIds } from '#base/util/ids.js'
import type { JsonObject } from '#base/util/json.js'
import { moveFile, removeTree } from '#base/util/move-file.js'
import { createRng } from '#base/util/rng.js'
import { encodeSafetensors, writeFlushed } from '#model/weights/safetensors.js'
import { float32Tensor, type HostTensor } from '#numerics/tensor/host-tensor.js'
import { BYTE_TOKENIZER_IDS, BYTE_VOCABULARY_SIZE, byteTokenizerConfig, byteTokenizerJson } from './byte-tokenizer.js'

/** Sizes and switches of a random model; the field names are those of `DecoderConfig`. */
export interface RandomModel {
  readonly family: 'llama' | 'mistral' | 'qwen2' | 'qwen3'
  readonly layerCount: number
  readonly hiddenSize: number
  readonly headCount: number
  readonly kvHeadCount: number
  readonly headSize: number
  readonly mlpSize: number
  /** At least 259: the byte tokenizer's tokens. */
  readonly vocabularySize: number
  readonly contextLength: number
  readonly isEmbeddingTied: boolean
  /** Llama's `attention_bias` (q, k, v, o); Qwen2 has q, k, v biases whatever this says. */
  readonly hasAttentionBias: boolean
  readonly hasMlpBias: boolean
  readonly ropeTheta: number
  /** `rope_scaling` of config.json; null for none. */
  readonly ropeScaling: JsonObject | null
  /** Of all weights; norms are 1 plus noise of this size. */
  readonly standardDeviation: number
  readonly seed: string | number
}

/** The sizes of `trainyard/tiny-random`. */
export const TINY_RANDOM: RandomModel = {
  family: 'llama',
  layerCount: 2,
  hiddenSize: 64,
  headCount: 4,
  kvHeadCount: 2,
  headSize: 16,
  mlpSize: 128,
  vocabularySize: BYTE_VOCABULARY_SIZE,
  contextLength: 2048,
  isEmbeddingTied: true,
  hasAttentionBias: false,
  hasMlpBias: false,
  ropeTheta: 10_000,
  ropeScaling: null,
  standardDeviation: 0.05,
  seed: 'tiny-random',
}

/** Key of config.json that tells a random model from a real one. */
const RANDOM_MARK = 'trainyard_random'
const NORM_EPSILON = 1e-5
const ARCHITECTURE_NAMES: Readonly<Record<RandomModel['family'], string>> = {
  llama: 'LlamaForCausalLM',
  mistral: 'MistralForCausalLM',
  qwen2: 'Qwen2ForCausalLM',
  qwen3: 'Qwen3ForCausalLM',
}

/**
 * Makes sure the built-in random model exists.
 *
 * @param directory written if it is missing or was written by other sizes
 * @returns the directory's absolute path
 */
export function ensureTinyRandomModel(directory: string): Promise<string> {
  return writeRandomModel(directory, {})
}

/**
 * Writes a random model with the sizes of `TINY_RANDOM` except for `overrides`; does nothing if it is there already.
 *
 * @returns the directory's absolute path
 * @throws {WeightsError} `invalid_value` if the vocabulary is too small for the byte tokenizer
 * @example
 * await writeRandomModel(directory, { family: 'qwen2', isEmbeddingTied: false, seed: 7 })
 */
export async function writeRandomModel(directory: string, overrides: Partial<RandomModel>): Promise<string> {
  const model = { ...TINY_RANDOM, ...overrides }
  if (model.vocabularySize < BYTE_VOCABULARY_SIZE) {
    throw new WeightsError(
      'invalid_value',
      `random model has ${model.vocabularySize} tokens, expected at least ${BYTE_VOCABULARY_SIZE}`,
    )
  }
  const target = resolve(directory)
  const config = toText(configOf(model))
  if (await hasContent(join(target, 'config.json'), config)) return target
  const scratch = `${target}.${systemIds.uuid()}.partial`
  await mkdir(dirname(target), { recursive: true })
  await mkdir(scratch)
  try {
    const eos = [BYTE_TOKENIZER_IDS['<|im_end|>'], BYTE_TOKENIZER_IDS['<|endoftext|>']]
    await writeFlushed(join(scratch, 'tokenizer.json'), toText(byteTokenizerJson()))
    await writeFlushed(join(scratch, 'tokenizer_config.json'), toText(byteTokenizerConfig(model.contextLength)))
    await writeFlushed(join(scratch, 'generation_config.json'), toText({ eos_token_id: eos }))
    await writeFlushed(join(scratch, 'model.safetensors'), encodeSafetensors(randomTensors(model), { format: 'pt' }))
    await writeFlushed(join(scratch, 'config.json'), config)
    await moveInto(scratch, target, config)
  } finally {
    await removeTree(scratch)
  }
  return target
}

/** The weights of a random model by their Hugging Face names. */
export function randomTensors(model: RandomModel): ReadonlyMap<string, HostTensor> {
  const { standardDeviation } = model
  const tensors = new Map<string, HostTensor>()
  for (const [name, shape] of tensorShapes(model)) {
    const rng = createRng(`${model.seed} ${name}`)
    const mean = name.endsWith('norm.weight') ? 1 : 0
    const size = shape.reduce((product, dim) => product * dim, 1)
    const data = Float32Array.from({ length: size }, () => mean + standardDeviation * rng.normal())
    tensors.set(name, float32Tensor(data, shape))
  }
  return tensors
}

function tensorShapes(model: RandomModel): readonly (readonly [string, readonly number[]])[] {
  const { hiddenSize, headCount, kvHeadCount, headSize, mlpSize, vocabularySize } = model
  const hasQkvBias = model.family === 'qwen2' || model.hasAttentionBias
  const hasOutputBias = model.family !== 'qwen2' && model.hasAttentionBias
  const linears: readonly (readonly [string, number, number, boolean])[] = [
    ['self_attn.q_proj', headCount * headSize, hiddenSize, hasQkvBias],
    ['self_attn.k_proj', kvHeadCount * headSize, hiddenSize, hasQkvBias],
    ['self_attn.v_proj', kvHeadCount * headSize, hiddenSize, hasQkvBias],
    ['self_attn.o_proj', hiddenSize, headCount * headSize, hasOutputBias],
    ['mlp.gate_proj', mlpSize, hiddenSize, model.hasMlpBias],
    ['mlp.up_proj', mlpSize, hiddenSize, model.hasMlpBias],
    ['mlp.down_proj', hiddenSize, mlpSize, model.hasMlpBias],
  ]
  const shapes: (readonly [string, readonly number[]])[] = [['model.embed_tokens.weight', [vocabularySize, hiddenSize]]]
  for (let layer = 0; layer < model.layerCount; layer++) {
    const at = `model.layers.${layer}`
    shapes.push([`${at}.input_layernorm.weight`, [hiddenSize]], [`${at}.post_attention_layernorm.weight`, [hiddenSize]])
    for (const [name, rows, columns, hasBias] of linears) {
      shapes.push([`${at}.${name}.weight`, [rows, columns]])
      if (hasBias) shapes.push([`${at}.${name}.bias`, [rows]])
    }
    if (model.family === 'qwen3') {
      shapes.push([`${at}.self_attn.q_norm.weight`, [headSize]], [`${at}.self_attn.k_norm.weight`, [headSize]])
    }
  }
  shapes.push(['model.norm.weight', [hiddenSize]])
  if (!model.isEmbeddingTied) shapes.push(['lm_head.weight', [vocabularySize, hiddenSize]])
  return shapes
}

/** `config.json`. The seed is in it, so that equal text means equal weights. */
function configOf(model: RandomModel): JsonObject {
  return {
    architectures: [ARCHITECTURE_NAMES[model.family]],
    model_type: model.family,
    attention_bias: model.hasAttentionBias,
    eos_token_id: BYTE_TOKENIZER_IDS['<|im_end|>'],
    head_dim: model.headSize,
    hidden_act: 'silu',
    hidden_size: model.hiddenSize,
    intermediate_size: model.mlpSize,
    max_position_embeddings: model.contextLength,
    mlp_bias: model.hasMlpBias,
    num_attention_heads: model.headCount,
    num_hidden_layers: model.layerCount,
    num_key_value_heads: model.kvHeadCount,
    rms_norm_eps: NORM_EPSILON,
    rope_scaling: model.ropeScaling,
    rope_theta: model.ropeTheta,
    tie_word_embeddings: model.isEmbeddingTied,
    torch_dtype: 'float32',
    [RANDOM_MARK]: { layout: 1, seed: String(model.seed), standard_deviation: model.standardDeviation },
    use_cache: true,
    vocab_size: model.vocabularySize,
  }
}

/** Renames `scratch` to `target`; a model of other sizes gives way, one of the same sizes (a lost race) stays. */
async function moveInto(scratch: string, target: string, config: string): Promise<void> {
  for (let attempt = 0; ; attempt++) {
    try {
      await moveFile(scratch, target)
      return
    } catch (error) {
      if (await hasContent(join(target, 'config.json'), config)) return
      if (attempt === 3 || !(await isRandomModel(target))) {
        throw new WeightsError('file_unwritable', `random model cannot be put at "${target}"`, { cause: error })
      }
      await removeTree(target)
    }
  }
}

/** Whether the directory is ours to replace. */
async function isRandomModel(directory: string): Promise<boolean> {
  const config = await readFile(join(directory, 'config.json'), 'utf8').catch(() => '')
  return config.includes(RANDOM_MARK)
}

async function hasContent(path: string, content: string): Promise<boolean> {
  return (await readFile(path, 'utf8').catch(() => null)) === content
}

function toText(json: JsonObject): string {
  return `${JSON.stringify(json, null, 2)}\n`
}
