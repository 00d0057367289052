/**
 * PyTorch as a job's backend: one process, started when a job first needs it and kept for the next.
 */
import type { Environment } from '#base/environment.js'
import { TrainingError } from '#base/errors/errors.js'
import { TRAINERS, type TrainerName, type TrainerSetting } from '#contract/settings/service.js'
import { parameterCount } from '#model/architectures/decoder-config.js'
import type { GradientBackend } from '#training/trainer/gradient-engine.js'
import type { TrainingPrecision } from '#training/trainer/job.js'
import type { TorchDtype } from './model-message.js'
import { openTorchEngines } from './torch-engines.js'
import { startTorchProcess, type TorchProcess, type TorchVersions } from './torch-process.js'

/** What of a job's precisions the frozen layers are computed in. */
const DTYPES: Readonly<Record<Exclude<TrainingPrecision, 'int8'>, TorchDtype>> = { f32: 'float32', bf16: 'bfloat16' }
const DTYPE_BYTES: Readonly<Record<TorchDtype, number>> = { float32: 4, bfloat16: 2 }

export interface Trainers {
  /**
   * What computes a job's gradients; null is ONNX Runtime.
   *
   * @param begun the trainer that the job began with, which it keeps; null where it begins
   * @param onAnswer hears of every answer of the process: a sign of life
   * @throws {InstallationError} `trainer_unavailable`
   */
  choose(begun: TrainerName | null, onAnswer?: () => void): Promise<GradientBackend | null>
  /** Ends the process, if there is one. */
  stop(): Promise<void>
}

export interface TrainersOptions {
  readonly trainer: TrainerSetting
  readonly python: string
  readonly environment: Environment
}

/** What a worker was told of its trainer (`TRAINYARD_TRAINER`, `TRAINYARD_PYTHON`). */
export function readTrainers(environment: Environment): Trainers {
  const trainer = TRAINERS.find((name) => name === environment['TRAINYARD_TRAINER']) ?? 'onnx'
  return createTrainers({ trainer, python: environment['TRAINYARD_PYTHON'] ?? 'python3', environment })
}

export function createTrainers({ trainer, python, environment }: TrainersOptions): Trainers {
  let started: Promise<TorchProcess> | null = null
  /** Known once: what is not installed is not asked for again by each job. */
  let hasCard: boolean | null = trainer === 'auto' ? null : false

  async function running(): Promise<TorchProcess> {
    if (started !== null && (await started.then((process) => process.isAlive()))) return started
    const starting = startTorchProcess({ python, environment })
    started = starting
    starting.catch(() => {
      started = null
    })
    return starting
  }

  /** Whether PyTorch is there and has a graphics card. */
  async function findCard(): Promise<boolean> {
    const found = await running().catch(() => null)
    if (found === null) return false
    if (found.versions.device !== 'cpu') return true
    await found.stop()
    started = null
    return false
  }

  return {
    choose: async (begun, onAnswer) => {
      if (begun === null && trainer === 'auto') hasCard ??= await findCard()
      const name = begun ?? (trainer === 'torch' || hasCard === true ? 'torch' : 'onnx')
      return name === 'onnx' ? null : torchBackend(await running(), onAnswer)
    },
    stop: async () => {
      const process = await started?.catch(() => null)
      started = null
      await process?.stop()
    },
  }
}

function torchBackend(process: TorchProcess, onAnswer: (() => void) | undefined): GradientBackend {
  const { versions } = process
  return {
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
    engines: async ({ prepared, adapter, dropout, precision, runtime, threads }) => {
      const dtype = dtypeOf(precision)
      return openTorchEngines(process, {
        prepared,
        adapter,
        dropout,
        runtime,
        dtype,
        device: 'auto',
        threads: threads ?? null,
        ...(onAnswer === undefined ? {} : { onAnswer }),
      })
    },
  }
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
