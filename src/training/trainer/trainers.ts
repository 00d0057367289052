/**
 * Which trainer computes a job's gradients: ONNX Runtime, or one of a plugin, whose module is loaded when a job first needs it.
 */
import { pathToFileURL } from 'node:url'
import type { Environment } from '#base/environment.js'
import { InstallationError } from '#base/errors/errors.js'
import { bundlePath } from '#base/processes/entry.js'
import { readTrainerRows } from '#contract/processes/trainers.js'
import { TRAINERS, type TrainerName, type TrainerSetting } from '#contract/settings/service.js'
import type { LearnerBackend } from './learner/learner.js'

/** A trainer beside ONNX Runtime, on this machine. */
export interface Trainer {
  /**
   * What computes a job's gradients.
   *
   * @param onAnswer hears of every sign of life
   * @throws {InstallationError} `trainer_unavailable`
   */
  backend(onAnswer?: () => void): Promise<LearnerBackend>
  /** Whether it is there and has a graphics card. */
  hasCard(): Promise<boolean>
  /** Ends what it started. */
  stop(): Promise<void>
}

/** What a trainer is opened with. */
export interface TrainerOptions {
  /** Interpreter of Python. */
  readonly python: string
  readonly environment: Environment
}

/** What a trainer's module exports. */
export interface TrainerModule {
  openTrainer(options: TrainerOptions): Trainer
}

export interface Trainers {
  /**
   * What computes a job's gradients; null is ONNX Runtime.
   *
   * @param begun the trainer that the job began with, which it keeps; null where it begins
   * @param onAnswer hears of every answer of the trainer: a sign of life
   * @throws {InstallationError} `trainer_unavailable`
   */
  choose(begun: TrainerName | null, onAnswer?: () => void): Promise<LearnerBackend | null>
  /** Ends what was started. */
  stop(): Promise<void>
}

export interface TrainersOptions extends TrainerOptions {
  readonly trainer: TrainerSetting
  /** Trainers beside ONNX Runtime, in the order in which `auto` asks them; each is loaded when it is needed. */
  readonly modules: Readonly<Partial<Record<TrainerName, () => Promise<TrainerModule>>>>
}

/** What a worker was told of its trainer (`TRAINYARD_TRAINER`, `TRAINYARD_TRAINERS`, `TRAINYARD_PYTHON`). */
export function readTrainers(environment: Environment): Trainers {
  const trainer = TRAINERS.find((name) => name === environment['TRAINYARD_TRAINER']) ?? 'onnx'
  const modules = Object.fromEntries(
    readTrainerRows(environment).map(({ name, module }) => [
      name,
      (): Promise<TrainerModule> => import(pathToFileURL(bundlePath(module)).href),
    ]),
  )
  return createTrainers({ trainer, modules, python: environment['TRAINYARD_PYTHON'] ?? 'python3', environment })
}

export function createTrainers({ trainer, modules, ...given }: TrainersOptions): Trainers {
  const opened = new Map<TrainerName, Promise<Trainer>>()
  /** Known once: what is not installed is not asked for again by each job. */
  let chosen: TrainerName | null = trainer === 'auto' ? null : trainer

  function open(name: TrainerName): Promise<Trainer> {
    const known = opened.get(name)
    if (known !== undefined) return known
    const load = modules[name]
    if (load === undefined) {
      throw new InstallationError('trainer_unavailable', `trainer ${name} is not available: no plugin has it`, {
        hint: 'train with --trainer onnx',
      })
    }
    const opening = load().then(({ openTrainer }) => openTrainer(given))
    opened.set(name, opening)
    opening.catch(() => opened.delete(name))
    return opening
  }

  /** What `auto` takes. */
  async function find(): Promise<TrainerName> {
    for (const name of Object.keys(modules) as TrainerName[]) {
      if (await (await open(name)).hasCard()) return name
    }
    return 'onnx'
  }

  return {
    choose: async (begun, onAnswer) => {
      if (begun === null) chosen ??= await find()
      const name = begun ?? chosen
      return name === null || name === 'onnx' ? null : (await open(name)).backend(onAnswer)
    },
    stop: async () => {
      for (const opening of opened.values()) await (await opening.catch(() => null))?.stop()
    },
  }
}
