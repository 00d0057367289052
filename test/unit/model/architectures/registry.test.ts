/**
 * The check that a base model's tensors are exactly the decoder's.
 */
import { describe, expect, test } from 'vitest'
import type { JsonObject } from '../../../../src/base/util/json.js'
import { adapterModules, parameterCount } from '../../../../src/model/architectures/decoder-config.js'
import { fromHfConfig } from '../../../../src/model/architectures/hf-config.js'
import {
  checkDecoderTensors,
  decoderConfigOf,
  decoderTensorShapes,
} from '../../../../src/model/architectures/registry.js'
import { randomTensors, TINY_RANDOM } from '../../../../src/model/built-in/tiny-random.js'
import type { WeightSource } from '../../../../src/model/weights/weight-source.js'
import { elementCount } from '../../../../src/numerics/tensor/host-tensor.js'
import { expectCode } from '../../../support/expect-code.js'

const CONFIG: JsonObject = {
  model_type: 'llama',
  hidden_size: 64,
  intermediate_size: 128,
  max_position_embeddings: 2048,
  num_attention_heads: 4,
  num_hidden_layers: 2,
  num_key_value_heads: 2,
  tie_word_embeddings: true,
  vocab_size: 259,
}

/** A source of names and shapes only. */
function sourceOf(shapes: ReadonlyMap<string, readonly number[]>, config: JsonObject): WeightSource {
  const unused = () => Promise.reject(new Error('not read in this test'))
  return {
    kind: 'huggingface',
    path: 'model',
    hfConfig: config,
    ggufMetadata: null,
    ropeFrequencyDivisors: null,
    tensorNames: [...shapes.keys()],
    hasOwnHead: false,
    isTextPart: false,
    hasUnreadShards: false,
    tensorStorage: () => 'F32',
    tensorShape: (name) => shapes.get(name) ?? [],
    readFloat32: unused,
    checkValues: async () => undefined,
    digest: unused,
    close: () => Promise.resolve(),
  }
}

const FAMILIES = [
  { family: 'llama', isEmbeddingTied: true, changes: {} },
  { family: 'llama', isEmbeddingTied: false, changes: { attention_bias: true, mlp_bias: true } },
  { family: 'mistral', isEmbeddingTied: false, changes: {} },
  { family: 'qwen2', isEmbeddingTied: true, changes: {} },
  { family: 'qwen3', isEmbeddingTied: false, changes: { head_dim: 16 } },
] as const

test.each(FAMILIES)('$family, tied $isEmbeddingTied: a whole model passes and its parameters add up', (model) => {
  const { family, isEmbeddingTied, changes } = model
  const json = { ...CONFIG, model_type: family, tie_word_embeddings: isEmbeddingTied, ...changes }
  const config = fromHfConfig(json)
  const hasBias = 'attention_bias' in changes
  const tensors = randomTensors({
    ...TINY_RANDOM,
    family,
    isEmbeddingTied,
    hasAttentionBias: hasBias,
    hasMlpBias: hasBias,
  })
  const shapes = new Map([...tensors].map(([name, { shape }]) => [name, shape]))
  checkDecoderTensors(sourceOf(shapes, json), config)
  const count = [...shapes.values()].reduce((sum, shape) => sum + elementCount(shape), 0)
  expect(count).toBe(parameterCount(config))
})

test('tied heads and rotary tables that a checkpoint carries anyway are allowed', () => {
  const shapes = new Map(decoderTensorShapes(fromHfConfig(CONFIG)))
  shapes.set('lm_head.weight', [259, 64]).set('model.layers.0.self_attn.rotary_emb.inv_freq', [8])
  checkDecoderTensors(sourceOf(shapes, CONFIG), fromHfConfig(CONFIG))
})

describe('refused', () => {
  const cases: [string, (shapes: Map<string, readonly number[]>) => void, string, string[]][] = [
    [
      'a missing layer',
      (s) => s.delete('model.layers.1.mlp.up_proj.weight'),
      'missing_tensor',
      ['layers.1.mlp.up_proj'],
    ],
    ['a missing norm', (s) => s.delete('model.norm.weight'), 'missing_tensor', ['model.norm.weight']],
    [
      'a transposed weight',
      (s) => s.set('model.layers.0.mlp.up_proj.weight', [64, 128]),
      'invalid_shape',
      ['[128, 64]'],
    ],
    ['a flat weight', (s) => s.set('model.norm.weight', [64, 1]), 'invalid_shape', ['[64, 1]', '[64]']],
    ['a short vocabulary', (s) => s.set('model.embed_tokens.weight', [258, 64]), 'invalid_shape', ['258']],
    [
      'a bias nobody adds',
      (s) => s.set('model.layers.0.mlp.up_proj.bias', [128]),
      'unexpected_tensor',
      ['up_proj.bias'],
    ],
    ['a third layer', (s) => s.set('model.layers.2.mlp.up_proj.weight', [128, 64]), 'unexpected_tensor', ['layers.2']],
  ]
  test.each(cases)('%s', async (_, change, code, words) => {
    const config = fromHfConfig(CONFIG)
    const shapes = new Map(decoderTensorShapes(config))
    change(shapes)
    await expectCode(() => checkDecoderTensors(sourceOf(shapes, CONFIG), config), code, ...words)
  })

  test('an untied head that is not there', async () => {
    const json = { ...CONFIG, tie_word_embeddings: false }
    const shapes = decoderTensorShapes(fromHfConfig(CONFIG))
    await expectCode(() => checkDecoderTensors(sourceOf(shapes, json), fromHfConfig(json)), 'missing_tensor', 'lm_head')
  })
})

test('a GGUF source is described by its metadata and its embedding', () => {
  const entries: [string, unknown][] = [
    ['general.architecture', 'llama'],
    ['llama.block_count', 2],
    ['llama.context_length', 2048],
    ['llama.embedding_length', 64],
    ['llama.feed_forward_length', 128],
    ['llama.attention.head_count', 4],
    ['llama.attention.head_count_kv', 2],
    ['llama.attention.layer_norm_rms_epsilon', 1e-6],
  ]
  const shapes = decoderTensorShapes(fromHfConfig(CONFIG))
  const source: WeightSource = {
    ...sourceOf(shapes, CONFIG),
    kind: 'gguf',
    hfConfig: null,
    ggufMetadata: new Map(entries),
  }
  expect(decoderConfigOf(source)).toEqual(fromHfConfig(CONFIG))
})

test('adapter modules are all projections of all layers, with their sizes', () => {
  const modules = adapterModules(fromHfConfig(CONFIG), ['k_proj', 'down_proj'])
  expect(modules).toEqual([
    { path: 'model.layers.0.self_attn.k_proj', outputSize: 32, inputSize: 64 },
    { path: 'model.layers.0.mlp.down_proj', outputSize: 64, inputSize: 128 },
    { path: 'model.layers.1.self_attn.k_proj', outputSize: 32, inputSize: 64 },
    { path: 'model.layers.1.mlp.down_proj', outputSize: 64, inputSize: 128 },
  ])
  expect(adapterModules(fromHfConfig(CONFIG))).toHaveLength(14)
})
