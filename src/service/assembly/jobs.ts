/**
 * The queue of training jobs and sessions: who waits for which, how long a worker may be silent, and how one is started.
 */

import { systemClock } from '#base/util/clock.js'
import type { WorkerFolders } from '#contract/processes/worker.js'
import { TRAINER_NAMES, type TrainerName } from '#contract/settings/service.js'
import type { WorkerCount } from '../metrics/metrics.js'
import { type ActivityFeed, createActivityFeed } from '../operations/activity/feed.js'
import { createJobActivity } from '../operations/activity/job-activity.js'
import type { BaseModelEntry } from '../operations/context.js'
import { workerFacts } from '../processes/worker-facts.js'
import type { WorkerPool } from '../processes/worker-pool.js'
import {
  createDispatcher,
  DEFAULT_JOB_TIMING,
  type Dispatcher,
  type JobTiming,
  SILENT_LEASES,
} from '../queue/dispatcher.js'
import { createSessionRunner, isRequestId, type SessionRunner } from '../queue/sessions/session-runner.js'
import { createJobSignals, type JobSignals } from '../queue/signals.js'
import type { WorkerSupply } from '../queue/unclaimable.js'
import type { Start } from './start.js'
import type { Storage } from './storage.js'

export interface Jobs {
  readonly signals: JobSignals
  /** What happens, for whoever follows it. */
  readonly activity: ActivityFeed
  readonly dispatcher: Dispatcher
  readonly sessions: SessionRunner
  readonly leaseMs: number
}

export interface JobsInput {
  readonly storage: Pick<Storage, 'db' | 'ids' | 'blobs' | 'requestSweep' | 'peers'>
  readonly workers: WorkerPool
  /** Base models and where they lie. Changes while the server runs. */
  readonly served: readonly BaseModelEntry[]
  readonly preparedDir: string
  /** Where workers find the server; asked once it listens. */
  readonly serverUrl: () => string
  readonly supply: () => WorkerSupply | null
}

/** What workers do, for the metrics. */
export function countWorkers({ dispatcher }: Pick<Jobs, 'dispatcher'>, trainWorkers: number): readonly WorkerCount[] {
  const busy = dispatcher.runningCount()
  const remote = dispatcher.remoteWorkers()
  const remoteBusy = remote.filter(({ isBusy }) => isBusy).length
  return [
    { place: 'local', state: 'busy', count: busy },
    { place: 'local', state: 'idle', count: Math.max(0, trainWorkers - busy) },
    { place: 'remote', state: 'busy', count: remoteBusy },
    { place: 'remote', state: 'idle', count: remote.length - remoteBusy },
  ]
}

/** The dispatcher starts nothing yet: workers call the server, which must listen first. */
export function createJobs(start: Start, input: JobsInput): Jobs {
  const { storage, workers, served, preparedDir, serverUrl, supply } = input
  const { settings, logger, lifetimes } = start
  const activity = createActivityFeed({ clock: systemClock, ids: storage.ids })
  const jobActivity = createJobActivity({ db: storage.db, feed: activity, logger })
  lifetimes.add('activity', () => jobActivity.stop())
  const { peers } = storage
  if (peers.isShared && settings.trainWorkers === 0) {
    logger.warn({ hint: 'training loops need a server with --train-workers 1 or more' }, 'sessions.no_workers_here')
  }
  const namesServed = (): readonly string[] => served.map(({ name }) => name)
  const signals = createJobSignals((id) => {
    // requests of training loops end every few milliseconds, and are no jobs
    if (!isRequestId(id)) jobActivity.note(id)
  }, peers)
  const timing: JobTiming = {
    ...DEFAULT_JOB_TIMING,
    leaseMs: settings.jobLeaseMs,
    startMs: settings.workerStartTimeoutMs,
    stallMs: settings.workerStallTimeoutMs,
    ...start.options.tuning?.jobs,
  }
  const foldersOf = (baseModel: string | null): WorkerFolders => {
    const base = served.find(({ name }) => name === baseModel)
    return { base_model: base?.sourcePath ?? null, prepared: preparedDir, fetched: null }
  }
  const sessions = createSessionRunner({
    ...storage,
    clock: systemClock,
    logger,
    signals,
    timing: {
      limits: { startMs: timing.startMs, silenceMs: SILENT_LEASES * timing.leaseMs, stallMs: timing.stallMs },
      remoteLimits: { startMs: timing.startMs, silenceMs: timing.leaseMs, stallMs: timing.stallMs },
      tickMs: timing.sweepMs,
      idleMs: settings.sessionIdleMs,
      gapMs: timing.sessionGapMs,
      saveIntervalMs: settings.resumeIntervalMs,
    },
    onChange: () => dispatcher.wake(),
  })
  const named = namedTrainer(settings)
  const localTrainers = trainersOf(start, workers)
  const dispatcher = createDispatcher({
    db: storage.db,
    ids: storage.ids,
    logger,
    signals,
    trainWorkers: settings.trainWorkers,
    peers,
    ...(peers.isShared ? { baseModels: namesServed } : {}),
    localWorker: {
      ...workerFacts(),
      device: start.device.description,
      ...(named === null ? {} : { trainer: named }),
    },
    localTrainers,
    hasRoom: () => workers.hasRoom(),
    timing,
    supply,
    sessions,
    startWorker: ({ kind, id, attempt, token, modelId, baseModel }) => {
      const run = { jobId: id, attempt, token, modelId, isSession: kind === 'session' }
      return workers.start({ serverUrl: serverUrl(), folders: foldersOf(baseModel), ...run })
    },
  })
  peers.on('queue', dispatcher.wake)
  const wake = (): void => {
    dispatcher.wake()
    peers.tell('queue')
  }
  return { signals, activity, dispatcher: { ...dispatcher, wake }, sessions, leaseMs: timing.leaseMs }
}

/** The trainer that was set beside ONNX Runtime; null: none, or it is found. */
function namedTrainer({ trainer }: Start['settings']): TrainerName | null {
  return trainer === 'auto' || trainer === 'onnx' ? null : trainer
}

/** Where a worker itself chooses, a job that began with another trainer is left alone until one has said that it has it. */
function trainersOf({ settings, logger }: Start, workers: Pick<WorkerPool, 'probeComputing'>) {
  const named = namedTrainer(settings)
  let trainers: readonly TrainerName[] = named === null ? ['onnx'] : ['onnx', named]
  if (settings.trainer === 'auto' && settings.trainWorkers > 0) {
    workers.probeComputing().then(
      ({ trainer }) => {
        trainers = TRAINER_NAMES.filter((name) => name === 'onnx' || name === trainer)
      },
      // with ONNX Runtime it trains all the same, or says in a job why it does not
      (error: unknown) => logger.warn({ err: error }, 'worker.not_probed'),
    )
  }
  return () => trainers
}
