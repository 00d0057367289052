/**
 * What every part of a start is given: what the service is started with, where it logs, and the list of what has begun.
 */
import { readEnvironment } from '#base/environment.js'
import type { AppError } from '#base/errors/errors.js'
import type { Logger } from '#base/logging/logger.js'
import type { Lifetimes, LifetimeWatch } from '#base/util/lifetimes.js'
import { PLUGINS_VARIABLE } from '#contract/jobs/plugin-options.js'
import { trainerVariables } from '#contract/processes/trainers.js'
import type { ResolvedSettings, TunedServiceOptions } from '../options.js'
import type { LoadedPlugins } from './plugins.js'
import type { ServedDevice } from './served-device.js'

type Environment = Readonly<Record<string, string | undefined>>

/** What tests replace; they reach it through `test-door.ts`. */
export interface ServiceSeams {
  /** Most pages of 4096 bytes the database may have; beyond it writes answer `disk_full`. Default: no limit. */
  readonly maxDatabasePages?: number
  /** Whether each transaction is done, undone and done again, as after a commit that was refused. Default false */
  readonly rehearsesTransactions?: boolean
  /** Memory that could still be given out, bytes, as kept workers see it. Default: as the operating system or container says. */
  readonly availableMemoryBytes?: () => number
  /** Environment of the service, of which children are given what they use. Default: this process's. */
  readonly environment?: Environment
  /** Modules that children run instead of the built ones. */
  readonly entryPaths?: { readonly engineHost?: string; readonly worker?: string }
  /** Hears of every part that starts and ends, and may make a start fail there. */
  readonly watch?: Pick<LifetimeWatch, 'started' | 'ended'>
}

export interface Start {
  readonly plugins: LoadedPlugins
  readonly options: TunedServiceOptions
  readonly settings: ResolvedSettings
  readonly seams: ServiceSeams
  readonly logger: Logger
  /** What computes on this machine. */
  readonly device: ServedDevice
  /** Whatever runs is added here as soon as it does. */
  readonly lifetimes: Lifetimes
  /** The service cannot go on: it stops by itself. */
  readonly fail: (reason: AppError) => void
}

/** What this process was started with. */
export function startEnvironment({ seams }: Pick<Start, 'seams'>): Environment {
  return seams.environment ?? readEnvironment()
}

/** Variables of those processes that train, or predict how training goes. */
export function trainingVariables({
  settings,
  device,
  plugins,
}: Pick<Start, 'settings' | 'device' | 'plugins'>): Environment {
  const { threads, trainer, python } = settings
  return {
    ...(threads === null ? {} : { TRAINYARD_THREADS: String(threads) }),
    // always: what this process inherited is no proof
    TRAINYARD_WORKER_DEVICE: device.facts?.name ?? 'cpu',
    TRAINYARD_WORKER_DEVICE_NAME: device.description,
    TRAINYARD_TRAINER: trainer,
    TRAINYARD_PYTHON: python,
    ...(plugins.files.length === 0 ? {} : { [PLUGINS_VARIABLE]: JSON.stringify(plugins.files) }),
    ...trainerVariables(plugins.list.flatMap(({ plugin }) => plugin.trainers ?? [])),
  }
}
