/**
 * What jobs, sessions and plans compute with in a process that a server started: on the device which that server has tried.
 */
import type { Environment } from '#base/environment.js'
import type { ComputingFacts } from '#contract/wire/training/worker-facts.js'
import { createOrtRuntime } from '#numerics/runtime/ort-runtime.js'
import type { Runtime } from '#numerics/runtime/runtime.js'
import { DEVICES, type Device } from '#numerics/tensor/device.js'

/**
 * How sessions of jobs and plans wait: awake through the gaps between a graph's operators, where waking up costs a step 5%, asleep when
 * something else holds the processor.
 */
const JOB_RUNTIME = { spinMicroseconds: 200 } as const

/**
 * The runtime of such a process.
 *
 * @throws {RuntimeError} `runtime_unusable` if the library cannot be loaded here
 */
export function createJobRuntime(environment: Environment): Runtime {
  return createOrtRuntime({ ...JOB_RUNTIME, device: readDevice(environment) })
}

/** What gradients are computed with where it is ONNX Runtime. */
export function jobComputing(environment: Environment): ComputingFacts {
  const device = environment['TRAINYARD_WORKER_DEVICE_NAME'] ?? readDevice(environment)
  return { trainer: 'onnx', device: device.slice(0, 128), versions: {} }
}

/** Named by the server alone: it has tried the device. */
function readDevice(environment: Environment): Device {
  return DEVICES.find((device) => device === environment['TRAINYARD_WORKER_DEVICE']) ?? 'cpu'
}
