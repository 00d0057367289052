/**
 * The composition root: options → every object of a running service → `close`.
 *
 * Start order: lock the data directory, migrate, recover interrupted jobs, listen, start the engine of the default base
 * model (in the background: requests wait for it), start the queue. Nothing but this file builds the real objects.
 */

import { readEnvironment } from '#base/environment.js'
import { AppError, InvalidRequestError, shuttingDown } from '#base/errors/errors.js'
import { createLogger, type Logger } from '#base/logging/logger.js'
import { systemClock } from '#base/util/clock.js'
import { createIdSource, timeOfId } from '#base/util/ids.js'
import { packageVersion } from '#base/util/package-root.js'
import { DEFAULT_BODY_LIMITS } from '#service/bodies/bodies.js'
import { createBodyStore } from '#service/bodies/body-store.js'
import { BUILT_IN_MODELS, DEFAULT_BASE_MODEL } from '#service/built-in-models.js'
import { createFineTuningService } from '#service/facades/fine-tuning/fine-tuning.js'
import { createModelRunService } from '#service/facades/wandb/model-runs.js'
import { createWandbService } from '#service/facades/wandb/wandb.js'
import { createAdmission } from '#service/http/admission.js'
import { createApp } from '#service/http/app.js'
import { type CutReason, UNREAD_MS } from '#service/http/connections.js'
import type { App } from '#service/http/environment.js'
import { type Listening, listen } from '#service/http/listen.js'
import { createMetrics } from '#service/metrics/metrics.js'
import { createAuthService } from '#service/operations/access/auth.js'
import { createKeyService } from '#service/operations/access/keys.js'
import { ensureApiKey, type FirstKey, isKeyFileLost } from '#service/operations/access/local-keys.js'
import { createUsageService } from '#service/operations/access/usage.js'
import { createVerifyService } from '#service/operations/backup/verify-storage.js'
import { createBaseModelService, readyEntries } from '#service/operations/base-models/base-models.js'
import { createHubConnection } from '#service/operations/base-models/hub-connection.js'
import { createModelFactsBook } from '#service/operations/base-models/model-facts.js'
import { createShelf } from '#service/operations/base-models/shelf.js'
import { createBlobSweeper } from '#service/operations/blob-sweeper.js'
import type { BaseModelEntry, ServiceContext } from '#service/operations/context.js'
import { createFileService } from '#service/operations/files.js'
import { createChatService } from '#service/operations/generation/chat/chat.js'
import { createCompletionService } from '#service/operations/generation/completions/completions.js'
import { createMessageService } from '#service/operations/generation/messages/messages.js'
import { createResponseService } from '#service/operations/generation/responses/responses.js'
import { createTokenService } from '#service/operations/generation/text/tokens.js'
import { createCheckpointService } from '#service/operations/models/checkpoints.js'
import { createModelService } from '#service/operations/models/models.js'
import { createSystemCheckService } from '#service/operations/system-check.js'
import { createRemoteData } from '#service/operations/training/remote-data.js'
import { createTrainingJobService } from '#service/operations/training/training-jobs.js'
import { createTrainingPlanService } from '#service/operations/training/training-plans.js'
import { createWorkerApiService } from '#service/operations/training/worker-api.js'
import { createTrajectoryLogService } from '#service/operations/trajectory-log.js'
import { createAddressRules } from '#service/operations/webhooks/address-rules.js'
import { createOutbox, DEFAULT_OUTBOX_TIMING } from '#service/operations/webhooks/outbox.js'
import { createWebhookService } from '#service/operations/webhooks/webhooks.js'
import { type ResolvedSettings, resolveHub, resolveSettings, type ServiceOptions } from '#service/options.js'
import { queueFull } from '#service/processes/engine-errors.js'
import { createEnginePool } from '#service/processes/engine-pool.js'
import { createExporter } from '#service/processes/exporter.js'
import { createModelInspector } from '#service/processes/model-inspector.js'
import { createPlanner } from '#service/processes/planner.js'
import { createWorkerPool } from '#service/processes/worker-pool.js'
import { createClockWatch } from '#service/queue/clock-watch.js'
import { createDispatcher, DEFAULT_JOB_TIMING } from '#service/queue/dispatcher.js'
import { recoverInterrupted } from '#service/queue/recovery.js'
import { createJobSignals } from '#service/queue/signals.js'
import { createBlobStore } from '#service/storage/blobs.js'
import { type DataDir, openDataDir } from '#service/storage/data-dir.js'
import { toStorageError } from '#service/storage/database.js'
import { countJobsByStatus } from '#service/storage/jobs/states.js'
import { countModels } from '#service/storage/models.js'
import { listNewestIds, shortenWaits } from '#service/storage/upkeep/clock-shift.js'
import { openOwnDatabase } from '#service/storage/upkeep/open-own-database.js'
import { claimDirectory } from '#service/storage/upkeep/ownership.js'

// this file is the room's door: what a caller needs to start a service is had from here
export { type BuiltInModel, isBuiltInModel } from './built-in-models.js'
export { startIdleCollection } from './idle-collection.js'
export type { ServiceOptions, ServiceSeams, ServiceTuning } from './options.js'

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
  /** What there was at the start, for a banner: models of all projects, base models that are served. */
  readonly inventory: { readonly modelCount: number; readonly baseModelCount: number }
  /** The HTTP application, for requests without a port. */
  readonly app: App
  /** Process ids of the engine hosts that run, for tests of their death. */
  enginePids(): readonly number[]
  /** Process ids of training workers that wait for a job. */
  idleWorkerPids(): readonly number[]
  /** Refuses new work, drains, stops children, leaves the database clean. Jobs that run are queued again. */
  close(deadlineMs: number): Promise<void>
}

/**
 * Starts a service.
 *
 * @throws {AppError} `data_dir_locked`, `data_dir_unusable`, `database_unreadable`, `database_locked`, `disk_full`, `port_in_use`,
 *   `cannot_listen`, `duplicate_base_model`, `built_in_model_damaged`
 * @example const service = await createService({ dataDir: './data', port: 0 })
 */
export async function createService(options: ServiceOptions): Promise<Service> {
  const settings = resolveSettings(options)
  const logger = options.logger ?? createLogger({ level: settings.logLevel, format: settings.logFormat })
  const undo: (() => unknown)[] = []
  try {
    return await build({ options, settings, logger, undo })
  } catch (error) {
    for (const step of undo.reverse()) await step()
    throw toStorageError(error) ?? error
  }
}

interface BuildInput {
  readonly options: ServiceOptions
  readonly settings: ResolvedSettings
  readonly logger: Logger
  readonly undo: (() => unknown)[]
}

async function build({ options, settings, logger, undo }: BuildInput): Promise<Service> {
  const seams = options.seams ?? {}
  const dataDir = await openDataDir(options.dataDir)
  undo.push(() => dataDir.unlock())
  const shelf = createShelf(dataDir.baseModelsPath)
  const added = await shelf.read()
  const given = await resolveBaseModels(options, dataDir)
  // what the server is started with goes before what was added under the same name
  const others = readyEntries(shelf, added).filter(({ name }) => given.every((entry) => entry.name !== name))
  const baseModels = [...given, ...others]
  const database = await openOwnDatabase(dataDir, {
    adoption: { ofEmpty: options.adoptsEmptyDatabase === true, ofOther: options.adoptsOtherDatabase === true },
    ...(seams.maxDatabasePages === undefined ? {} : { maxPages: seams.maxDatabasePages }),
  })
  undo.push(() => database.close())
  const { db } = database
  const blobs = await createBlobStore(dataDir.blobsPath)
  const bodies = createBodyStore({
    limits: {
      ...DEFAULT_BODY_LIMITS,
      smallBytes: settings.maxRequestBodyBytes,
      chatBytes: settings.maxChatBodyBytes,
      trajectoriesBytes: settings.maxTrajectoriesBytes,
      groupBytes: settings.maxGroupBytes,
      uploadBytes: settings.maxUploadBytes,
      unfinishedBytes: settings.maxUnfinishedBytes,
      ...options.tuning?.bodies,
    },
    temporaryPath: blobs.temporaryPath,
  })
  undo.push(() => bodies.close())
  const usage = createUsageService(db, logger)
  undo.push(() => usage.stop())
  // the clock may be behind what an earlier process saw: whatever is made now still sorts behind what there is
  const ids = createIdSource(systemClock)
  const newestIds = await listNewestIds(db)
  for (const id of newestIds) ids.continueAfter(id)
  const webhookTiming = { ...DEFAULT_OUTBOX_TIMING, ...options.tuning?.webhooks }
  await shortenWaits(db, 2 * Math.max(0, ...webhookTiming.retryMs))
  if (!(await dataDir.makePrivate())) logger.warn({ data_dir: dataDir.path }, 'data_dir.not_private')
  const recovered = await recoverInterrupted(db, ids)
  if (recovered.length > 0) logger.warn({ job_ids: recovered }, 'jobs.recovered')
  await claimDirectory(db, dataDir.path, () => ids.uuid())
  const sweeper = createBlobSweeper({
    db,
    blobs,
    clock: systemClock,
    logger,
    graceMs: settings.sweepGraceMs,
    beforeSweep: () => claimDirectory(db, dataDir.path, () => ids.uuid()),
  })
  undo.push(() => sweeper.stop())
  await sweeper.start(Math.max(0, ...newestIds.map((id) => timeOfId(id) ?? 0)))
  const modelCount = await countModels(db)

  const metrics = createMetrics({
    clock: systemClock,
    version: packageVersion(),
    countJobs: () => countJobsByStatus(db),
    askEngines: () => engines.ask(ENGINE_ANSWER_MS),
  })
  const engines = createEnginePool((name) => {
    const entry = baseModels.find((base) => base.name === name)
    if (entry === undefined) return null
    return {
      load: {
        baseModel: entry.name,
        sourcePath: entry.sourcePath,
        preparedDir: dataDir.preparedPath,
        precision: settings.precision,
        threads: settings.threads,
        maxContextLength: settings.maxContextLength,
        maxConcurrentSequences: settings.maxConcurrentSequences,
        kvCacheBytes: settings.kvCacheBytes,
        speculation: settings.speculation,
      },
      logger,
      clock: systemClock,
      maxPendingRequests: settings.maxPendingRequests,
      observer: metrics.engines.observer(entry.name),
      ...(options.tuning?.engineWatchdog === undefined ? {} : { watchdog: options.tuning.engineWatchdog }),
      ...(seams.entryPaths?.engineHost === undefined ? {} : { entryPath: seams.entryPaths.engineHost }),
    }
  })
  undo.push(() => engines.stop(0))

  const inspector = createModelInspector()
  undo.push(() => inspector.close())
  const hub = createHubConnection(resolveHub(options))

  const signals = createJobSignals()
  const timing = {
    ...DEFAULT_JOB_TIMING,
    leaseMs: settings.jobLeaseMs,
    startMs: settings.workerStartTimeoutMs,
    stallMs: settings.workerStallTimeoutMs,
    ...options.tuning?.jobs,
  }
  let listening: Listening | null = null
  const workers = createWorkerPool({
    environment: workerEnvironment(options),
    keepMs: settings.keepWorkerMs,
    ...options.tuning?.keptWorkers,
    entryPath: seams.entryPaths?.worker,
    onComputing: (isComputing) => engines.shareCores(isComputing),
  })
  undo.push(() => workers.stop())
  const exporter = createExporter({ environment: seams.environment ?? readEnvironment() })
  undo.push(() => exporter.stop())
  const clockWatch = createClockWatch(db, systemClock, logger)
  undo.push(() => clockWatch.stop())
  const remoteData = createRemoteData({
    allowedHosts: settings.trainingDataHosts,
    userAgent: `Trainyard/${packageVersion()}`,
    maxBytes: settings.maxUploadBytes,
    ...options.tuning?.remoteData,
  })
  undo.push(() => remoteData.stop())
  const planner = createPlanner({ environment: workerEnvironment(options), ...options.tuning?.plans })
  undo.push(() => planner.stop())
  const dispatcher = createDispatcher({
    db,
    ids,
    logger,
    signals,
    trainWorkers: settings.trainWorkers,
    hasRoom: () => workers.hasRoom(),
    timing,
    startWorker: ({ job, token }) =>
      workers.start({
        serverUrl: listening === null ? '' : workerUrl(listening, settings.host),
        token,
        jobId: job.id,
        attempt: job.attempt,
        modelId: job.modelId,
      }),
  })

  const context: ServiceContext = {
    db,
    blobs,
    bodies,
    ids,
    clock: systemClock,
    logger,
    signals,
    dispatcher,
    engines,
    exporter,
    planner,
    baseModels,
    modelFacts: createModelFactsBook(inspector, baseModels),
    preparedDir: dataDir.preparedPath,
    trainingDataRoot: settings.trainingDataRoot,
    remoteData,
    leaseMs: timing.leaseMs,
    trainWorkers: settings.trainWorkers,
    maxQueuedJobs: settings.maxQueuedJobs,
    resumeIntervalMs: settings.resumeIntervalMs,
    version: packageVersion(),
    probeWorker: () => workers.probe(),
    chatRules: {
      allowsPriority: settings.schedulingPolicy === 'priority',
      allowsTemplate: settings.trustsRequestChatTemplate,
    },
    usage,
    requestSweep: () => sweeper.request(),
  }
  const models = createModelService(context)
  const trainingJobs = createTrainingJobService(context)
  const rules = createAddressRules(settings.webhookHosts)
  const outbox = createOutbox({
    db,
    ids,
    clock: systemClock,
    logger,
    rules,
    version: context.version,
    timing: webhookTiming,
  })
  undo.push(() => outbox.stop())
  const baseModelService = createBaseModelService(context, {
    served: baseModels,
    added: added.filter(({ name }) => given.every((entry) => entry.name !== name)),
    shelf,
    connection: hub,
    inspector,
    retryMs: options.tuning?.downloadRetryMs ?? 1000,
  })
  const closing = new AbortController()
  const chat = createChatService(context)
  const tokens = createTokenService(context)
  const app = createApp({
    services: {
      auth: createAuthService(db),
      keys: createKeyService(context),
      usage,
      models,
      baseModels: baseModelService,
      checkpoints: createCheckpointService(context),
      trainingJobs,
      trainingPlans: createTrainingPlanService(context),
      trajectoryLog: createTrajectoryLogService(context),
      files: createFileService(context),
      fineTuning: createFineTuningService(context, { models, trainingJobs }),
      chat,
      completions: createCompletionService(context),
      tokens,
      responses: createResponseService(context, { chat, tokens }),
      messages: createMessageService(context, { chat, tokens }),
      systemCheck: createSystemCheckService(context),
      verify: createVerifyService(context, dataDir.blobsPath),
      workerApi: createWorkerApiService(context),
      wandb: createWandbService(context),
      modelRuns: createModelRunService(context),
      webhooks: createWebhookService(context, { rules, outbox }),
    },
    logger,
    clock: systemClock,
    ids,
    version: context.version,
    allowedHosts: [...settings.allowedHosts, ...(options.host === undefined ? [] : [options.host])],
    metrics,
    isEngineAlive: () => engines.started().every((engine) => engine.pid() !== null),
    // one that names another base model is counted with it
    admission: createAdmission(() => settings.maxPendingRequests * Math.max(1, engines.started().length), queueFull),
    bodies,
    limits: settings,
    closing: closing.signal,
    translateError: toStorageError,
  })
  const made: { firstKey: FirstKey | null } = { firstKey: null }
  let isApiKeyLost = false
  const connections = { ...settings, unreadMs: options.tuning?.unreadAnswerMs ?? UNREAD_MS }
  const onCut = (reason: CutReason): void => logger.warn({ reason }, 'http.connection_cut')
  const server = await listen(
    app,
    { host: settings.host, port: settings.port, limits: connections, onCut },
    async () => {
      // Last of all that can fail: a start that is refused must not use up the one time the key is shown.
      made.firstKey = await ensureApiKey(db, dataDir, ids)
      isApiKeyLost = await isKeyFileLost(db, dataDir)
    },
  )
  if (isApiKeyLost) logger.warn({ api_key_file: dataDir.apiKeyPath }, 'api_key.file_lost')
  listening = server
  startDefaultEngine(context, closing.signal)
  dispatcher.start()
  clockWatch.start()
  outbox.start()
  logger.info(
    { url: server.url, data_dir: dataDir.path, base_models: baseModels.map((b) => b.name) },
    'service.started',
  )

  let closed: Promise<void> | null = null
  async function close(deadlineMs: number): Promise<void> {
    logger.info({ deadline_ms: deadlineMs }, 'service.stopping')
    closing.abort()
    const atDeadline = (): void => engines.failRequests(shuttingDown())
    await Promise.all([dispatcher.stop(), server.close(deadlineMs, atDeadline)])
    workers.stop()
    exporter.stop()
    planner.stop()
    remoteData.stop()
    await outbox.stop()
    await Promise.all([baseModelService.close(), inspector.close()])
    await Promise.all([engines.stop(1000), bodies.close()])
    await sweeper.stop()
    clockWatch.stop()
    await usage.stop()
    await database.close()
    dataDir.unlock()
    logger.info({}, 'service.stopped')
  }

  return {
    url: server.url,
    createdApiKey: made.firstKey?.key ?? null,
    keptApiKeyFile: made.firstKey?.keptFile ?? null,
    isApiKeyLost,
    apiKeyFile: dataDir.apiKeyPath,
    inventory: { modelCount, baseModelCount: baseModels.length },
    app,
    enginePids: () => engines.started().flatMap((engine) => engine.pid() ?? []),
    idleWorkerPids: () => workers.idlePids(),
    close: (deadlineMs) => {
      closed ??= close(deadlineMs)
      return closed
    },
  }
}

/** How long a scrape of the metrics waits for an engine. */
const ENGINE_ANSWER_MS = 1000

async function resolveBaseModels(options: ServiceOptions, dataDir: DataDir): Promise<readonly BaseModelEntry[]> {
  const given = options.baseModels ?? []
  const wanted: typeof given = given.length > 0 ? given : [DEFAULT_BASE_MODEL]
  const entries = new Map<string, BaseModelEntry>()
  for (const model of wanted) {
    requireBaseModel(model)
    const name = typeof model === 'string' ? model : model.name
    if (entries.has(name)) {
      throw new InvalidRequestError('duplicate_base_model', `base model name "${name}" is given twice`, {
        hint: 'write --base-model name=path with another name',
      })
    }
    entries.set(name, typeof model === 'string' ? { name, sourcePath: await BUILT_IN_MODELS[model](dataDir) } : model)
  }
  return [...entries.values()]
}

/** Programs in JavaScript reach this without a type checker. */
function requireBaseModel(model: unknown): void {
  const isBuiltIn = typeof model === 'string' && Object.hasOwn(BUILT_IN_MODELS, model)
  const isEntry =
    typeof model === 'object' &&
    model !== null &&
    ['name', 'sourcePath'].every((key) => typeof (model as Readonly<Record<string, unknown>>)[key] === 'string')
  if (isBuiltIn || isEntry) return
  const builtIn = Object.keys(BUILT_IN_MODELS).join(', ')
  throw new InvalidRequestError(
    'invalid_base_model',
    `baseModels: expected the name of a built-in model (${builtIn}) or { name, sourcePath }, got ${JSON.stringify(model)}`,
    { hint: 'sourcePath is a Hugging Face folder or a GGUF file' },
  )
}

/** Loads the default base model in the background; the first chat request waits for it or gets its error. */
function startDefaultEngine(context: ServiceContext, closing: AbortSignal): void {
  const base = context.baseModels[0]
  if (base === undefined) return
  context.engines
    .engineOf(base.name)
    .preload()
    .catch((error: unknown) => {
      if (closing.aborted) return
      const reason = error instanceof AppError ? error.message : String(error)
      context.logger.error({ base_model: base.name, reason }, 'engine.not_ready')
    })
}

/** Workers run on this machine: they call loopback, whatever address the server is bound to. */
function workerUrl(listening: Listening, host: string): string {
  const isAny = host === '0.0.0.0' || host === '::'
  return isAny ? `http://127.0.0.1:${listening.port}` : listening.url
}

function workerEnvironment(options: ServiceOptions): Readonly<Record<string, string | undefined>> {
  const threads = options.threads ?? null
  return {
    ...(options.seams?.environment ?? readEnvironment()),
    ...(threads === null ? {} : { TRAINYARD_THREADS: String(threads) }),
  }
}
