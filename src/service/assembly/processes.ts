/**
 * The child processes of a server: engines with what is counted of them, training workers, exports and plans. All of them are
 * started when they are first needed.
 */
import { statfs } from 'node:fs/promises'
import { systemClock } from '#base/util/clock.js'
import { packageVersion } from '#base/util/package-root.js'
import { createMetrics, type Metrics, type WorkerCount } from '../metrics/metrics.js'
import { OPERATOR_ENTITY } from '../operations/access/tenant.js'
import type { BaseModelEntry } from '../operations/context.js'
import { type Exporter, openLater } from '../operations/models/exporter.js'
import { openProcessLink } from '../processes/engine-link.js'
import { createEnginePool, type EnginePool } from '../processes/engine-pool.js'
import type { EngineObserver, EngineProcessOptions } from '../processes/engine-process.js'
import { createPlanner, type Planner } from '../processes/planner.js'
import { createRemoteEngines, type RemoteEngines, type RemoteEnginesSeat } from '../processes/remote-engines.js'
import { createSchemaChecker, type SchemaChecker } from '../processes/schema-checker.js'
import { createWorkerPool, type WorkerPool } from '../processes/worker-pool.js'
import type { DatabaseHandle } from '../storage/database.js'
import { countRetries } from '../storage/in-transaction.js'
import { countJobsByStatus } from '../storage/jobs/states.js'
import { type Start, startEnvironment, trainingVariables } from './start.js'

export interface Processes {
  readonly engines: EnginePool
  /** Other machines that compute answers. */
  readonly remoteEngines: RemoteEnginesSeat
  readonly metrics: Metrics
  readonly workers: WorkerPool
  readonly exporter: Exporter
  readonly planner: Planner
  readonly schemaChecker: SchemaChecker
}

export interface ProcessesInput {
  readonly db: DatabaseHandle
  /** Changes while the server runs. */
  readonly served: readonly BaseModelEntry[]
  /** Where prepared base weights are kept. */
  readonly preparedDir: string
  /** What workers do, once there is a queue. */
  readonly countWorkers: () => readonly WorkerCount[]
}

/** How long a scrape of the metrics waits for an engine. */
const ENGINE_ANSWER_MS = 1000
/** What engines may take to end, when no request is left. */
const ENGINE_END_MS = 1000

export function startProcesses(start: Start, { db, served, preparedDir, countWorkers }: ProcessesInput): Processes {
  const { options, settings, lifetimes, seams, logger } = start
  const environment = startEnvironment(start)
  const given = trainingVariables(start)
  const remoteEngines = createRemoteEngines()
  const metrics = createMetrics({
    clock: systemClock,
    version: packageVersion(),
    countJobs: () => countJobsByStatus(db),
    countWorkers,
    listEngineNodes: remoteEngines.list,
    readFreeBytes: () =>
      statfs(preparedDir).then(
        ({ bavail, bsize }) => bavail * bsize,
        () => null,
      ),
    countRetries: () => countRetries(db),
    askEngines: () => engines.ask(ENGINE_ANSWER_MS),
  })
  /** By base model: hosts of one are counted together. */
  const observers = new Map<string, EngineObserver>()
  const observerOf = (name: string): EngineObserver => {
    const observer = observers.get(name) ?? offering(metrics.engines.observer(name), remoteEngines)
    observers.set(name, observer)
    return observer
  }
  const engines = createEnginePool({
    configure: (name, isTenants) => {
      const entry = served.find((base) => base.name === name)
      return entry === undefined
        ? null
        : engineOptions(start, { entry, preparedDir, isTenants, observer: observerOf(name) })
    },
    hasOwnNodes: ({ entity }) =>
      settings.engines === 'remote' && remoteEngines.takesTenants() && entity !== OPERATOR_ENTITY,
  })
  lifetimes.add('engines', () => engines.stop(ENGINE_END_MS))

  const planner = createPlanner({ environment, given, ...options.tuning?.plans })
  lifetimes.add('planner', () => planner.stop())
  const exporter = openLater(start.plugins.exporter, { environment })
  lifetimes.add('exporter', () => exporter.stop())
  const schemaChecker = createSchemaChecker({ environment })
  const workers = createWorkerPool({
    environment,
    given,
    keepMs: settings.keepWorkerMs,
    ...options.tuning?.keptWorkers,
    ...(seams.availableMemoryBytes === undefined ? {} : { availableBytes: seams.availableMemoryBytes }),
    entryPath: seams.entryPaths?.worker,
    onGivenUp: (pid, reason) => logger.debug({ pid, reason }, 'worker.given_up'),
    onComputing: (isComputing) => engines.shareCores(isComputing),
  })
  lifetimes.add('workers', () => workers.stop())
  return { engines, remoteEngines, metrics, workers, exporter, planner, schemaChecker }
}

interface EngineInput {
  readonly entry: BaseModelEntry
  readonly preparedDir: string
  /** Nodes of an entity compute, and nothing else. */
  readonly isTenants: boolean
  readonly observer: EngineObserver
}

function engineOptions(start: Start, { entry, preparedDir, isTenants, observer }: EngineInput): EngineProcessOptions {
  const { options, settings, logger, seams, device } = start
  return {
    load: {
      baseModel: entry.name,
      sourcePath: entry.sourcePath,
      preparedDir,
      precision: settings.precision,
      threads: settings.threads,
      ...(device.facts === null ? {} : { device: device.facts }),
      maxContextLength: settings.maxContextLength,
      maxConcurrentSequences: settings.maxConcurrentSequences,
      kvCacheBytes: settings.kvCacheBytes,
      speculation: settings.speculation,
      engines: isTenants ? 'remote' : settings.engines,
    },
    logger,
    clock: systemClock,
    maxPendingRequests: settings.maxPendingRequests,
    observer,
    watchdog: options.tuning?.engineWatchdog,
    open: (listener) =>
      openProcessLink(listener, { environment: startEnvironment(start), entryPath: seams.entryPaths?.engineHost }),
  }
}

/** Adapters of requests may be fetched by engines of other machines that get them. */
function offering(observer: EngineObserver, remote: RemoteEngines): EngineObserver {
  return {
    ...observer,
    requested: (request) => {
      remote.offer(request)
      observer.requested(request)
    },
  }
}
