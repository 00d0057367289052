/**
 * Reads which decoder an open base model describes, and checks that the model has exactly that decoder's tensors.
 *
 * The index of what can be loaded: families are listed in `hf-config.ts` and `gguf-config.ts`.
 */
import { WeightsError } from '#base/errors/errors.js'
import type { WeightSource } from '#model/weights/weight-source.js'
import { type DecoderConfig, layerNorms, PROJECTIONS, projectionPath, projectionShape } from './decoder-config.js'
import { fromGgufMetadata } from './gguf-config.js'
import { fromHfConfig } from './hf-config.js'

const EMBEDDING = 'model.embed_tokens.weight'
const HEAD = 'lm_head.weight'
/** Tensors some checkpoints carry that follow from the configuration. */
const DERIVED_TENSOR = /\.rotary_emb\.inv_freq$/

/**
 * The decoder a base model describes.
 *
 * @throws {WeightsError} `unknown_architecture`, `invalid_config`, `unsupported_model`
 */
export function decoderConfigOf(source: WeightSource): DecoderConfig {
  if (source.hfConfig !== null) {
    const config = fromHfConfig(source.hfConfig)
    return source.hasOwnHead ? { ...config, isEmbeddingTied: false } : config
  }
  const names = new Set(source.tensorNames)
  return fromGgufMetadata(source.ggufMetadata ?? new Map(), {
    hasTensor: (name) => names.has(name),
    embeddingRows: names.has(EMBEDDING) ? (source.tensorShape(EMBEDDING)[0] ?? null) : null,
    ropeFrequencyDivisors: source.ropeFrequencyDivisors,
  })
}

/** Every tensor the decoder needs, by Hugging Face name, with its shape. */
export function decoderTensorShapes(config: DecoderConfig): ReadonlyMap<string, readonly number[]> {
  const { hiddenSize, vocabularySize, headSize } = config
  const shapes = new Map<string, readonly number[]>([[EMBEDDING, [vocabularySize, hiddenSize]]])
  for (let layer = 0; layer < config.layerCount; layer++) {
    const at = `model.layers.${layer}`
    for (const [, name] of layerNorms(config)) shapes.set(`${at}.${name}.weight`, [hiddenSize])
    if (config.hasQkNorm) {
      shapes.set(`${at}.self_attn.q_norm.weight`, [headSize])
      shapes.set(`${at}.self_attn.k_norm.weight`, [headSize])
    }
    for (const projection of PROJECTIONS) {
      const path = projectionPath(layer, projection)
      const shape = projectionShape(config, projection)
      shapes.set(`${path}.weight`, shape)
      const isQkv = projection === 'q_proj' || projection === 'k_proj' || projection === 'v_proj'
      const isOutput = projection === 'o_proj'
      const hasBias = isQkv ? config.hasQkvBias : isOutput ? config.hasOutputBias : config.hasMlpBias
      if (hasBias) shapes.set(`${path}.bias`, [shape[0]])
    }
  }
  shapes.set('model.norm.weight', [hiddenSize])
  if (!config.isEmbeddingTied) shapes.set(HEAD, [vocabularySize, hiddenSize])
  return shapes
}

/**
 * Checks that a base model has exactly the tensors its decoder needs: none missing, none of another shape, and none left
 * over that would be silently ignored.
 *
 * @throws {WeightsError} `missing_tensor`, `invalid_shape`, `unexpected_tensor`
 */
export function checkDecoderTensors(source: WeightSource, config: DecoderConfig): void {
  const expected = decoderTensorShapes(config)
  const present = new Set(source.tensorNames)
  for (const [name, shape] of expected) {
    if (!present.has(name)) {
      throw new WeightsError('missing_tensor', `model "${source.path}" has no tensor "${name}" [${shape.join(', ')}]`)
    }
    const actual = source.tensorShape(name)
    if (actual.length !== shape.length || actual.some((size, i) => size !== shape[i])) {
      throw new WeightsError(
        'invalid_shape',
        `model "${source.path}" has tensor "${name}" of shape [${actual.join(', ')}], expected [${shape.join(', ')}]`,
      )
    }
  }
  for (const name of present) {
    const isTiedHead = name === HEAD && config.isEmbeddingTied
    if (!expected.has(name) && !isTiedHead && !DERIVED_TENSOR.test(name)) {
      throw new WeightsError('unexpected_tensor', `model "${source.path}" has the tensor "${name}", which is not used`)
    }
  }
}
