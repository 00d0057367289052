/**
 * The composition root: options → every part of a running service, in the order in which they start → `close`.
 *
 * Start order: lock the data directory, try the device, migrate, recover interrupted jobs, listen, start the engine of the
 * default base model (in the background: requests wait for it), start the queue. Each part is added to one list of lifetimes as
 * soon as it runs; a start that fails and `close` both end what is in it, the last part first. The parts are built in
 * `assembly/`, nowhere else.
 */

import { AppError } from '#base/errors/errors.js'
import { createLogger } from '#base/logging/logger.js'
import { createDeferred } from '#base/util/deferred.js'
import { createLifetimes, startOrEnd } from '#base/util/lifetimes.js'
import { countWorkers, createJobs } from './assembly/jobs.js'
import { createOperations } from './assembly/operations.js'
import { acceleratorsOf, loadPlugins, startPlugins } from './assembly/plugins.js'
import { type Processes, startProcesses } from './assembly/processes.js'
import { chooseDevice } from './assembly/served-device.js'
import { readServedModels } from './assembly/served-models.js'
import { startServer } from './assembly/server.js'
import { type ServiceSeams, type Start, startEnvironment } from './assembly/start.js'
import { startStorage } from './assembly/storage.js'
import { openWorkerSupply } from './assembly/worker-supply.js'
import type { App, Witness } from './http/environment.js'
import { resolveSettings, type ServiceOptions, type TunedServiceOptions } from './options.js'
import type { Home, Installed, PluginStart } from './plugin.js'
import { openDataDir } from './storage/data-dir.js'
import { toStorageError } from './storage/database.js'

// this file is the room's door: what a caller needs to start a service is had from here
export { type BuiltInModel, isBuiltInModel } from './built-in-models.js'
export { startIdleCollection } from './idle-collection.js'
export type { ServiceOptions, TunedServiceOptions } from './options.js'

export interface Service {
  /** Where it listens, for example `http://127.0.0.1:8642`. */
  readonly url: string
  /** The key made by this start, to be shown once; null when the data directory had one. */
  readonly createdApiKey: string | null
  /** Where the key file is kept whose place that key took; null when there was none. */
  readonly keptApiKeyFile: string | null
  /** True when the database has keys and the key file is gone or holds none of them; `createLocalKey` makes a new one. */
  readonly isApiKeyLost: boolean
  /** File that holds the first key (mode 0600). */
  readonly apiKeyFile: string
  /** What computes on this machine: `cpu`, or an accelerator with its card. */
  readonly device: string
  /** What there was at the start, for a banner: models of all projects, base models that are served. */
  readonly inventory: { readonly modelCount: number; readonly baseModelCount: number }
  /** A code that signs a browser in as the key of that file, once and within ten minutes; null when the file holds no key. */
  signInCode(): Promise<string | null>
  /** What browsers are shown; null: nothing. */
  readonly home: Home | null
  /** The HTTP application, for requests without a port. */
  readonly app: App
  /** Resolves with why it cannot go on, for example another server that took its database over: it stops by itself then. */
  readonly failed: Promise<AppError>
  /**
   * Refuses new work, drains, stops children, leaves the database clean. Jobs that run are queued again.
   *
   * @param deadlineMs time that answers may still take; default the setting `drainMs`
   */
  close(deadlineMs?: number): Promise<void>
}

/**
 * Starts a service.
 *
 * @param installed what it does beside the core's work
 * @throws {AppError} `data_dir_locked`, `data_dir_unusable`, `database_unreadable`, `database_locked`, `disk_full`,
 * `port_in_use`, `cannot_listen`, `duplicate_base_model`, `built_in_model_damaged`, `device_refused`
 * @example const service = await createService({ dataDir: './data', port: 0 }, INSTALLED)
 */
export async function createService(options: ServiceOptions, installed: Installed): Promise<Service> {
  return (await startService(options, installed)).service
}

/** A running service, and the part of it that tests look at. */
export interface StartedService {
  readonly service: Service
  readonly processes: Processes
}

/** As `createService`, with what tests tune and replace: for `test-door.ts`. */
export async function startService(
  options: TunedServiceOptions,
  installed: Installed,
  seams: ServiceSeams = {},
): Promise<StartedService> {
  const settings = resolveSettings(options)
  const logger = options.logger ?? createLogger({ level: settings.logLevel, format: settings.logFormat })
  const lifetimes = createLifetimes({
    ...seams.watch,
    failed: (part, error) => logger.error({ err: error, part }, 'service.part_not_ended'),
  })
  try {
    const { promise: failed, resolve: fail } = createDeferred<AppError>()
    const plugins = await loadPlugins(installed, options)
    const begun = { options, settings, seams, plugins, logger, lifetimes, fail }
    return await startOrEnd(lifetimes, () => assemble(begun, failed))
  } catch (error) {
    throw toStorageError(error) ?? error
  }
}

async function assemble(begun: Omit<Start, 'device'>, failed: Promise<AppError>): Promise<StartedService> {
  const { options, settings, logger, lifetimes } = begun
  const dataDir = await openDataDir(options.dataDir)
  lifetimes.add('data directory', () => dataDir.unlock())
  // it may take minutes: not where another server has the directory
  const { device: setting, precision } = settings
  const accelerators = acceleratorsOf(begun.plugins)
  const device = await chooseDevice({ setting, precision, accelerators, environment: startEnvironment(begun), logger })
  const start: Start = { ...begun, device }
  const models = await readServedModels(options, dataDir)
  const { served } = models
  const storage = await startStorage(start, dataDir)
  const { preparedPath: preparedDir } = dataDir
  const countNow = (): ReturnType<typeof countWorkers> => countWorkers(jobs, start.settings.trainWorkers)
  const processes = startProcesses(start, { db: storage.db, served, preparedDir, countWorkers: countNow })
  const { engines, workers } = processes
  let workerUrl = ''
  const jobs = createJobs(start, {
    ...{ storage, workers, served, preparedDir },
    serverUrl: () => workerUrl,
    supply: () => supply,
  })
  const supply = await openWorkerSupply(start, { storage, jobs })
  const { services, context } = await createOperations(start, { dataDir, models, storage, processes, jobs })
  const witnesses: Witness[] = []
  const begins: Parameters<PluginStart['onListening']>[0][] = []
  const ask: PluginStart['ask'] = async (principal, request, onBehalf) =>
    // the body of that request has been read
    server.app.fetch(request, { ...(onBehalf?.env as object | undefined), incoming: undefined, principal })
  const core = {
    ...{ context, lifetimes, serviceSettings: settings },
    ...{ isAlone: !storage.peers.isShared, onDuty: storage.peers.onDuty },
    metrics: processes.metrics,
    ask,
    addWitness: (witness: Witness) => void witnesses.push(witness),
    onListening: (begin: (typeof begins)[number]) => begins.push(begin),
  }
  const started = await startPlugins(start.plugins, core, options.tuning?.plugins)
  const server = await startServer(start, {
    ...{ dataDir, storage, processes, jobs, services, context, started, witnesses },
  })

  // from here on the port is this server's: what runs by itself begins
  workerUrl = server.workerUrl
  loadFirstModel(start, { engines, name: served[0]?.name, closing: server.closing })
  jobs.dispatcher.start()
  await jobs.sessions.start()
  for (const begin of begins) begin(server.workerUrl, server.closing)
  supply?.start()
  logger.info({ url: server.url, data_dir: dataDir.path, base_models: served.map((b) => b.name) }, 'service.started')

  let closed: Promise<void> | null = null
  async function close(deadlineMs: number): Promise<void> {
    logger.info({ deadline_ms: deadlineMs }, 'service.stopping')
    await lifetimes.end(deadlineMs)
    logger.info({}, 'service.stopped')
  }

  const service: Service = {
    url: server.url,
    createdApiKey: server.firstKey?.key ?? null,
    keptApiKeyFile: server.firstKey?.keptFile ?? null,
    isApiKeyLost: server.isApiKeyLost,
    apiKeyFile: dataDir.apiKeyPath,
    device: start.device.description,
    inventory: { modelCount: storage.modelCount, baseModelCount: served.length },
    signInCode: server.signInCode,
    home: begun.plugins.home,
    app: server.app,
    failed,
    close: (deadlineMs = start.settings.drainMs) => {
      closed ??= close(deadlineMs)
      return closed
    },
  }
  void failed.then((error) => {
    logger.error({ err: error }, 'service.failed')
    // what cannot be ended is logged by its lifetime
    service.close(0).catch(() => undefined)
  })
  return { service, processes }
}

interface FirstModel {
  readonly engines: Processes['engines']
  readonly name: string | undefined
  readonly closing: AbortSignal
}

/** Loads the default base model in the background; the first chat request waits for it or gets its error. */
function loadFirstModel({ logger }: Start, { engines, name, closing }: FirstModel): void {
  if (name === undefined) return
  engines
    .engineOf(name)
    .preload()
    .catch((error: unknown) => {
      if (closing.aborted) return
      const reason = error instanceof AppError ? error.message : String(error)
      logger.error({ base_model: name, reason }, 'engine.not_ready')
    })
}
