/**
 * The numeric runtime on ONNX Runtime. The only importer of `onnxruntime-node`, which an install keeps under a name of our own
 * (`bin/onnx-runtime-package.js`), and all that knows its providers of devices.
 *
 * Sessions run nodes one after another (parallelism lies inside operators), so that results do not depend on scheduling.
 * Inputs are handed over without a copy; the binding copies every output into a fresh array, unless it is given one to fill.
 *
 * Denormal numbers count as zero, on every thread that computes: exp of a masked attention score is one, and the processor takes
 * a hundred cycles for each (softmax over causal scores [128, 128, 128] on two cores: 0.7 ms instead of 4.9). ONNX Runtime sets
 * the calling thread's mode once, when the process makes its first session, so all sessions ask for it; from then on JavaScript
 * on that thread flushes denormals too.
 */
import { readFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { join } from 'node:path'
// First: the library reads its switches when it is loaded.
import './telemetry-off.js'
import type { InferenceSession, Tensor } from 'trainyard-onnxruntime'
import { setEnvironmentVariable } from '#base/environment.js'
import { RuntimeError } from '#base/errors/errors.js'
import { packageRoot } from '#base/util/package-root.js'
import type { Device } from '#numerics/tensor/device.js'
import type { DType } from '#numerics/tensor/dtype.js'
import { elementCount, type HostTensor } from '#numerics/tensor/host-tensor.js'
import { toDeviceError } from './device-errors.js'
import type {
  DeviceTensor,
  Feeds,
  InMemoryModel,
  ResidentSession,
  Runtime,
  Session,
  SessionOptions,
} from './runtime.js'

type OrtTensorType = 'float32' | 'float64' | 'float16' | 'int8' | 'uint8' | 'int32' | 'int64' | 'bool'

/** How a tensor is named and held by ONNX Runtime's binding; `bfloat16` has no counterpart. */
const TENSOR_TYPES: Readonly<Record<DType, OrtTensorType | null>> = {
  float32: 'float32',
  float64: 'float64',
  float16: 'float16',
  bfloat16: null,
  int8: 'int8',
  uint8: 'uint8',
  int32: 'int32',
  int64: 'int64',
  bool: 'bool',
}

/** Where a provider has no kernel for a node, the CPU's computes it; denormals and packed weights are the CPU's alone. */
const PROVIDERS: Readonly<Record<Device, InferenceSession.ExecutionProviderConfig>> = {
  cpu: 'cpu',
  webgpu: 'webgpu',
  cuda: 'cuda',
}

/** Where outputs that stay are left. The binding knows no place for CUDA's: its "gpu-buffer" is WebGPU's alone. */
const RESIDENT: Readonly<Record<Device, Tensor.DataLocation | null>> = { cpu: 'cpu', webgpu: 'gpu-buffer', cuda: null }

type Library = typeof import('trainyard-onnxruntime')

const load = createRequire(import.meta.url)
let library: Library | null = null

/**
 * The library, loaded at its first use: where a static import fails, the process ends with a stack.
 *
 * @throws {RuntimeError} `runtime_unusable`
 */
function ort(): Library {
  try {
    library ??= load('trainyard-onnxruntime') as Library
    return library
  } catch (cause) {
    const reason = cause instanceof Error ? cause.message : String(cause)
    const platform = `${process.platform} ${process.arch}`
    throw new RuntimeError('runtime_unusable', `ONNX Runtime cannot be loaded on ${platform}: ${reason}`, {
      cause,
      hint: `it runs on ${whereItRuns()}; elsewhere only the command line works, with a server on another machine. Where it should run, install trainyard again there`,
    })
  }
}

/** What the install checks too. */
function whereItRuns(): string {
  const { said } = JSON.parse(readFileSync(join(packageRoot(), 'bin/platforms.json'), 'utf8')) as {
    readonly said: string
  }
  return said
}

/**
 * The runtime of this process. Keeps nothing itself: sessions hold the memory.
 *
 * @param defaults of every session's options
 * @throws {RuntimeError} `runtime_unusable` if the library cannot be loaded here
 */
export function createOrtRuntime(defaults: Pick<SessionOptions, 'spinMicroseconds' | 'device'> = {}): Runtime {
  const { device = 'cpu' } = defaults
  const { env } = ort()
  return {
    name: `onnxruntime-node ${env.versions.node ?? env.versions.common}`,
    device,
    async loadSession(model, given = {}): Promise<Session> {
      const options = { ...defaults, ...given }
      return wrapSession(await open(model, options), nameOf(model), options)
    },
    async loadResident(model, given = {}): Promise<ResidentSession | null> {
      const options = { ...defaults, ...given }
      const location = RESIDENT[options.device ?? 'cpu']
      return location === null ? null : wrapResident(await open(model, options, location), nameOf(model), options)
    },
  }
}

function nameOf(model: string | InMemoryModel): string {
  return typeof model === 'string' ? model : `a model with data in ${model.directory}`
}

async function open(
  model: string | InMemoryModel,
  options: SessionOptions,
  location: Tensor.DataLocation = 'cpu',
): Promise<InferenceSession> {
  const { InferenceSession } = ort()
  // cuBLAS would round factors to 10 bits, and the binding has no option for it: an error of 1e-3 where 1e-6 is due.
  if (options.device === 'cuda') setEnvironmentVariable('NVIDIA_TF32_OVERRIDE', '0')
  const isFile = typeof model === 'string'
  const given = toOrtOptions(options, isFile ? null : model.directory)
  const placed = location === 'cpu' ? given : { ...given, preferredOutputLocation: location }
  return await attempt(
    `load ${nameOf(model)}`,
    () => (isFile ? InferenceSession.create(model, placed) : InferenceSession.create(model.bytes, placed)),
    options,
  )
}

function toOrtOptions(options: SessionOptions, dataDirectory: string | null): InferenceSession.SessionOptions {
  const { threads, isPrepacked = true, optimization = 'all', spinMicroseconds, device = 'cpu' } = options
  return {
    executionProviders: [PROVIDERS[device]],
    executionMode: 'sequential',
    interOpNumThreads: 1,
    ...(threads === undefined ? {} : { intraOpNumThreads: threads }),
    graphOptimizationLevel: optimization,
    enableCpuMemArena: options.hasArena ?? true,
    enableMemPattern: options.hasMemoryPattern ?? false,
    ...(options.profilePrefix === undefined ? {} : { enableProfiling: true, profileFilePrefix: options.profilePrefix }),
    ...(options.optimizedModelPath === undefined ? {} : { optimizedModelFilePath: options.optimizedModelPath }),
    logSeverityLevel: 3,
    extra: {
      session: {
        disable_prepacking: isPrepacked ? '0' : '1',
        set_denormal_as_zero: '1',
        ...(dataDirectory === null ? {} : { model_external_initializers_file_folder_path: dataDirectory }),
        intra_op: {
          allow_spinning: '1',
          ...(spinMicroseconds === undefined ? {} : { spin_duration_us: String(spinMicroseconds) }),
        },
      },
    },
  }
}

function wrapSession(session: InferenceSession, modelPath: string, options: SessionOptions): Session {
  const isProfiled = options.profilePrefix !== undefined
  let isReleased = false
  return {
    inputNames: session.inputNames,
    outputNames: session.outputNames,
    async run(feeds, fetches) {
      if (isReleased) throw new RuntimeError('session_released', `session of ${modelPath} was released`)
      const inputs = toOrtTensors(feeds)
      const outputs = await attempt(
        `run ${modelPath}`,
        () => {
          if (fetches === undefined) return session.run(inputs)
          return session.run(inputs, isList(fetches) ? fetches : toOrtTensors(fetches))
        },
        options,
      )
      const result: Record<string, HostTensor> = {}
      for (const [name, tensor] of Object.entries(outputs)) result[name] = fromOrtTensor(name, tensor)
      return result
    },
    async release() {
      if (isReleased) return
      isReleased = true
      if (isProfiled) session.endProfiling()
      await session.release()
    },
  }
}

function wrapResident(session: InferenceSession, modelPath: string, options: SessionOptions): ResidentSession {
  const isProfiled = options.profilePrefix !== undefined
  return {
    async run(feeds) {
      const outputs = await attempt(`run ${modelPath}`, () => session.run(toOrtTensors(feeds)), options)
      return Object.fromEntries(
        Object.entries(outputs).map(([name, tensor]) => [name, new ResidentTensor(name, tensor)]),
      )
    },
    async release() {
      if (isProfiled) session.endProfiling()
      await session.release()
    },
  }
}

/** A tensor of the binding that JavaScript does not look into: to read one of WebGPU's ends the process. */
class ResidentTensor implements DeviceTensor {
  readonly dtype: DType
  readonly shape: readonly number[]
  readonly tensor: Tensor

  constructor(name: string, tensor: Tensor) {
    const dtype = (Object.keys(TENSOR_TYPES) as DType[]).find((each) => TENSOR_TYPES[each] === tensor.type)
    if (dtype === undefined) throw unsupportedOutput(name, tensor)
    this.dtype = dtype
    this.shape = tensor.dims
    this.tensor = tensor
  }

  dispose(): void {
    this.tensor.dispose()
  }
}

function isList<T>(list: readonly string[] | T): list is readonly string[] {
  return Array.isArray(list)
}

/** A step has hundreds of inputs: a loop makes a quarter of the garbage that entries would. */
function toOrtTensors(tensors: Feeds): Record<string, Tensor> {
  const wrappedTensors: Record<string, Tensor> = {}
  for (const name in tensors) wrappedTensors[name] = toOrtTensor(name, tensors[name] as HostTensor | DeviceTensor)
  return wrappedTensors
}

/** Tensors handed in again and again, such as keys and values of every step, are wrapped once. */
const wrapped = new WeakMap<HostTensor, Tensor>()

function toOrtTensor(name: string, tensor: HostTensor | DeviceTensor): Tensor {
  if (!('data' in tensor)) {
    if (tensor instanceof ResidentTensor) return tensor.tensor
    throw new RuntimeError('unsupported_dtype', `input "${name}" is a tensor of another runtime`)
  }
  const known = wrapped.get(tensor)
  if (known !== undefined) return known
  const fresh = wrapTensor(name, tensor)
  wrapped.set(tensor, fresh)
  return fresh
}

function wrapTensor(name: string, tensor: HostTensor): Tensor {
  const type = TENSOR_TYPES[tensor.dtype]
  if (type === null) {
    throw new RuntimeError(
      'unsupported_dtype',
      `input "${name}" is ${tensor.dtype}, which ONNX Runtime's binding cannot hold`,
    )
  }
  if (elementCount(tensor.shape) !== tensor.data.length) {
    throw new RuntimeError(
      'size_mismatch',
      `input "${name}" of shape [${tensor.shape.join(', ')}] holds ${tensor.data.length} elements`,
    )
  }
  return new (ort().Tensor)(type, tensor.data, tensor.shape)
}

function fromOrtTensor(name: string, tensor: Tensor): HostTensor {
  const { dims: shape, data } = tensor
  switch (tensor.type) {
    case 'float32':
      if (data instanceof Float32Array) return { dtype: 'float32', shape, data }
      break
    case 'float64':
      if (data instanceof Float64Array) return { dtype: 'float64', shape, data }
      break
    case 'float16':
      if (data instanceof Uint16Array) return { dtype: 'float16', shape, data }
      break
    case 'int32':
      if (data instanceof Int32Array) return { dtype: 'int32', shape, data }
      break
    case 'int64':
      if (data instanceof BigInt64Array) return { dtype: 'int64', shape, data }
      break
    case 'int8':
      if (data instanceof Int8Array) return { dtype: 'int8', shape, data }
      break
    case 'uint8':
      if (data instanceof Uint8Array) return { dtype: 'uint8', shape, data }
      break
    case 'bool':
      if (data instanceof Uint8Array) return { dtype: 'bool', shape, data }
      break
    default:
      break
  }
  throw unsupportedOutput(name, tensor)
}

function unsupportedOutput(name: string, { type }: Tensor): RuntimeError {
  return new RuntimeError('unsupported_dtype', `output "${name}" is ${type}, which this project has no tensor for`)
}

/** Native failures become a RuntimeError: what the device says, or else one that quotes ONNX Runtime's message. */
async function attempt<T>(
  action: string,
  run: () => Promise<T>,
  { device = 'cpu' }: Pick<SessionOptions, 'device'>,
): Promise<T> {
  try {
    return await run()
  } catch (cause) {
    const fault = toDeviceError(device, cause)
    if (fault !== null) throw fault
    const reason = cause instanceof Error ? cause.message : String(cause)
    throw new RuntimeError('runtime_failed', `ONNX Runtime could not ${action}: ${reason}`, { cause })
  }
}
