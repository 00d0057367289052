/** ONNX Runtime's learner does what every learner must. */
import { createOrtRuntime } from '#numerics/runtime/ort-runtime.js'
import { openOnnxLearner } from '#training/trainer/learner/onnx-learner.js'
import { learnerConformance } from './conformance/learner.js'

learnerConformance('ONNX Runtime', (options) =>
  openOnnxLearner({ ...options, runtime: createOrtRuntime(), threads: 1, precision: 'f32' }),
)
