/** ONNX Runtime computes steps as every runner must. */
import { loadOnnxRunner } from '#inference/engine/runner/onnx-runner.js'
import { createOrtRuntime } from '#numerics/runtime/ort-runtime.js'
import { modelRunnerConformance } from './conformance/model-runner.js'
import { deviceLikeRuntime } from './engine-harness.js'

// keys and values of a device lie in copies, which have to say the same
modelRunnerConformance('ONNX Runtime as on a device', (prepared) =>
  loadOnnxRunner({
    runtime: deviceLikeRuntime().runtime,
    prepared,
    precision: 'f32',
    threads: 1,
    contextLength: prepared.config.contextLength,
    kvBytes: 64e6,
  }),
)

modelRunnerConformance('ONNX Runtime', (prepared) =>
  loadOnnxRunner({
    runtime: createOrtRuntime(),
    prepared,
    precision: 'f32',
    threads: 1,
    contextLength: prepared.config.contextLength,
    kvBytes: 64e6,
  }),
)
