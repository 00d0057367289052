/**
 * PyTorch as a job's backend: one process, started when a job first needs it and kept for the next.
 */
import { TrainingError } from '#base/errors/errors.js'
import { parameterCount } from '#model/architectures/decoder-config.js'
import type { TrainingPrecision } from '#training/trainer/job.js'
import { createEngineLearner } from '#training/trainer/learner/engine-learner.js'
import type { LearnerBackend } from '#training/trainer/learner/learner.js'
import type { Trainer, TrainerOptions } from '#training/trainer/trainers.js'
import type { TorchDtype } from './model-message.js'
import { openTorchEngines } from './torch-engines.js'
import { startTorchProcess, type TorchProcess, type TorchVersions } from './torch-process.js'

/** What of a job's precisions the frozen layers are computed in. */
const DTYPES: Readonly<Record<Exclude<TrainingPrecision, 'int8'>, TorchDtype>> = { f32: 'float32', bf16: 'bfloat16' }
const DTYPE_BYTES: Readonly<Record<TorchDtype, number>> = { float32: 4, bfloat16: 2 }

/** PyTorch on this machine. Nothing is started before it is asked for something. */
export function openTrainer({ python, environment }: TrainerOptions): Trainer {
  let started: Promise<TorchProcess> | null = null

  async function running(): Promise<TorchProcess> {
    if (started !== null && (await started.then((process) => process.isAlive()))) return started
    const starting = startTorchProcess({ python, environment })
    started = starting
    starting.catch(() => {
      started = null
    })
    return starting
  }

  return {
    backend: async (onAnswer) => torchBackend(await running(), onAnswer),
    hasCard: async () => {
      const found = await running().catch(() => null)
      if (found === null) return false
      if (found.versions.device !== 'cpu') return true
      await found.stop()
      started = null
      return false
    },
    stop: async () => {
      const process = await started?.catch(() => null)
      started = null
      await process?.stop()
    },
  }
}

function torchBackend(process: TorchProcess, onAnswer: (() => void) | undefined): LearnerBackend {
  const { versions } = process
  const backend: LearnerBackend = {
    facts: { name: 'torch', description: describeVersions(versions) },
    computing: {
      trainer: 'torch',
      device: versions.device === 'cpu' ? 'cpu' : `${versions.device} (${versions.deviceName})`.slice(0, 128),
      versions: { python: versions.python, torch: versions.torch, transformers: versions.transformers },
    },
    availableBytes: ({ config }, precision) => {
      if (versions.freeBytes === null) return null
      return Math.max(0, versions.freeBytes - parameterCount(config) * DTYPE_BYTES[dtypeOf(precision)])
    },
    open: async (options) => {
      const { prepared, state, dropoutShare: dropout, precision, runtime, threads = null } = options
      const dtype = dtypeOf(precision)
      const heard = onAnswer === undefined ? {} : { onAnswer }
      const of = {
        prepared,
        adapter: state.adapter.config,
        dropout,
        runtime,
        dtype,
        device: 'auto',
        threads,
        ...heard,
      } as const
      // rows of all lengths run in the same engines
      return createEngineLearner(options, { variantOf: () => '', open: () => openTorchEngines(process, of) })
    },
    check: async (runtime) => (await import('./self-check.js')).checkBackend(backend, runtime),
  }
  return backend
}

/** @throws {TrainingError} `precision_unavailable` */
function dtypeOf(precision: TrainingPrecision): TorchDtype {
  if (precision !== 'int8') return DTYPES[precision]
  throw new TrainingError('precision_unavailable', 'the job asks for precision int8, which PyTorch does not train in', {
    hint: 'set precision to f32 or bf16, or start the server with --trainer onnx',
  })
}

/** For people. */
export function describeVersions({ torch, transformers, device, deviceName }: TorchVersions): string {
  return `PyTorch ${torch}, transformers ${transformers}, on ${device === 'cpu' ? 'the CPU' : `${device} (${deviceName})`}`
}
