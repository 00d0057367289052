/**
 * A model of random weights, for benches: speed does not depend on them.
 */
import path from 'node:path'

/**
 * Random weights of a configuration's sizes, one tensor in memory at a time.
 *
 * @param hasSteps whether the step graph is run too, which reads queries, keys and values in another order
 */
export async function prepareRandom(load, directory, config, hasSteps = false) {
  const { TensorFileWriter } = await load('model/architectures/tensor-file')
  const { rotaryFrequencies } = await load('numerics/nn/rotary-embedding')
  const { float32Tensor } = await load('numerics/tensor/host-tensor')
  const { hiddenSize: e, mlpSize: f, headCount: h, kvHeadCount: k, headSize: d, vocabularySize: v } = config
  const file = path.join(directory, 'weights-f32.bin')
  const writer = await TensorFileWriter.create(file)
  let state = 1
  const write = (name, shape, scale, offset = 0) => {
    const data = new Float32Array(shape.reduce((a, b) => a * b, 1))
    for (let i = 0; i < data.length; i++) {
      state = (Math.imul(state, 1664525) + 1013904223) >>> 0
      data[i] = offset + (state / 2 ** 31 - 1) * scale
    }
    return writer.write(name, float32Tensor(data, shape))
  }
  await write('embedding', [v, e], 0.05)
  await write('final_norm', [e], 0.1, 1)
  const frequencies = rotaryFrequencies(config.rotary, d)
  await writer.write('rotary_frequencies', { dtype: 'float64', shape: [frequencies.length], data: frequencies })
  for (let layer = 0; layer < config.layerCount; layer++) {
    const at = `layers.${layer}`
    await write(`${at}.attention_norm`, [e], 0.1, 1)
    await write(`${at}.mlp_norm`, [e], 0.1, 1)
    await write(`${at}.qkv.weight`, [(h + 2 * k) * d, e], Math.sqrt(3 / e))
    if (hasSteps) await write(`${at}.qkv_grouped.weight`, [(h + 2 * k) * d, e], Math.sqrt(3 / e))
    await write(`${at}.o.weight`, [e, h * d], Math.sqrt(3 / e))
    await write(`${at}.gate_up.weight`, [2 * f, e], Math.sqrt(3 / e))
    await write(`${at}.down.weight`, [e, f], Math.sqrt(3 / f))
  }
  const { tensors } = await writer.finish()
  const byName = new Map(tensors.map(({ name, ...tensor }) => [name, { ...tensor, file }]))
  return { directory, digest: 'bench', config, tensors: () => byName }
}
