/** ONNX Runtime computes gradients as every engine must. */
import { readRotaryFrequencies } from '#model/architectures/rotary-frequencies.js'
import { createOrtRuntime } from '#numerics/runtime/ort-runtime.js'
import { onnxEngines } from '#training/trainer/onnx-engine.js'
import { gradientEngineConformance } from './conformance/gradient-engine.js'

gradientEngineConformance('ONNX Runtime', async ({ prepared, adapter, dropout, hasKeptSets }) => {
  const { config, directory } = prepared
  const tensors = prepared.tensors('f32')
  const frequencies = await readRotaryFrequencies(tensors)
  return onnxEngines(
    { config, tensors, adapter, dropout, hasKeptSets },
    { runtime: createOrtRuntime(), directory, frequencies, threads: 1 },
  )
})
