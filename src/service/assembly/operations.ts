/**
 * What requests can ask for: every operation with the parts it works with, and what operations do in the background.
 */
import { systemClock } from '#base/util/clock.js'
import { later } from '#base/util/later.js'
import { packageVersion } from '#base/util/package-root.js'
import type { AppOptions } from '../http/environment.js'
import { createAuthService } from '../operations/access/auth.js'
import { createNameService } from '../operations/address-rules.js'
import { createBaseModelFilesBook } from '../operations/base-models/base-model-files.js'
import { createBaseModelService } from '../operations/base-models/base-models.js'
import { createHubConnection } from '../operations/base-models/hub-connection.js'
import { createModelFactsBook } from '../operations/base-models/model-facts.js'
import type { ToolFormats } from '../operations/base-models/tool-formats.js'
import type { ServiceContext } from '../operations/context.js'
import { createRemoteData } from '../operations/training/remote-data.js'
import { resolveHub } from '../options.js'
import { createModelInspector } from '../processes/model-inspector.js'
import type { DataDir } from '../storage/data-dir.js'
import type { Jobs } from './jobs.js'
import { findArtifactRows } from './plugins.js'
import type { Processes } from './processes.js'
import type { ServedModels } from './served-models.js'
import type { Start } from './start.js'
import type { Storage } from './storage.js'

export interface Operations {
  readonly services: AppOptions['services']
  /** What operations of plugins work with, too. */
  readonly context: ServiceContext
}

export interface OperationsInput {
  readonly dataDir: DataDir
  readonly models: ServedModels
  readonly storage: Storage
  readonly processes: Processes
  readonly jobs: Jobs
}

/**
 * Downloads and fetches begin when somebody asks for them.
 */
export async function createOperations(start: Start, input: OperationsInput): Promise<Operations> {
  const { options, settings, logger, lifetimes } = start
  const {
    dataDir,
    models: { served, added, shelf },
    storage,
    processes,
    jobs,
  } = input
  const { db, usage } = storage
  const version = packageVersion()

  const toolFormats = await readToolFormats(settings.toolFormats)
  const toolFormatOf = toolFormats.of
  const unknown = toolFormats.named.filter((name) => !served.some((base) => base.name === name))
  // one that is added later is served with it
  if (unknown.length > 0) logger.warn({ base_models: unknown }, 'tool_format.no_such_base_model')
  const inspector = createModelInspector()
  const modelFacts = createModelFactsBook(inspector, served, settings.maxContextLength)
  const baseModels = createBaseModelService(
    {
      ...storage,
      ...processes,
      activity: jobs.activity,
      clock: systemClock,
      logger,
      modelFacts,
      preparedDir: dataDir.preparedPath,
      toolFormatOf,
    },
    {
      served,
      added,
      shelf,
      isShared: storage.peers.isShared,
      connection: createHubConnection(resolveHub(options)),
      inspector,
      retryMs: options.tuning?.downloadRetryMs ?? 1000,
    },
  )
  // together: a download that is being inspected ends with the inspection
  lifetimes.add('base models', () => Promise.all([baseModels.close(), inspector.close()]))
  const lookUp = createNameService()
  const remoteData = createRemoteData({
    allowedHosts: settings.trainingDataHosts,
    lookUp,
    userAgent: `Trainyard/${version}`,
    maxBytes: settings.maxUploadBytes,
    ...options.tuning?.remoteData,
  })
  lifetimes.add('remote data', () => remoteData.stop())

  const { engines } = processes
  storage.peers.on('adapter', engines.forgetAdapter)
  const forgetAdapter = (digest: string): void => {
    engines.forgetAdapter(digest)
    storage.peers.tell('adapter', digest)
  }
  const context: ServiceContext = {
    ...storage,
    ...processes,
    ...jobs,
    engines: { ...engines, forgetAdapter },
    clock: systemClock,
    logger,
    lookUp,
    baseModels: served,
    modelFacts,
    baseModelFiles: createBaseModelFilesBook(),
    preparedDir: dataDir.preparedPath,
    trainingDataRoot: settings.trainingDataRoot,
    maxContextLength: settings.maxContextLength,
    remoteData,
    artifactRows: (tenant, artifact) => findArtifactRows(start.plugins, db, { tenant, artifact }),
    trainWorkers: settings.trainWorkers,
    deviceNotes: start.device.notes,
    maxQueuedJobs: settings.maxQueuedJobs,
    keepRule: settings.keepCheckpoints,
    keepOptimizers: settings.keepOptimizers,
    resumeIntervalMs: settings.resumeIntervalMs,
    keepTrainingDataMs: settings.keepTrainingDataMs,
    maxGroupBytes: settings.maxGroupBytes,
    probeWorker: () => processes.workers.probe(),
    toolFormatOf,
    chatRules: {
      allowsPriority: settings.schedulingPolicy === 'priority',
      allowsTemplate: settings.trustsRequestChatTemplate,
    },
  }
  const base = { auth: createAuthService(db), usage, activity: jobs.activity, baseModels }
  return { services: { ...base, ...operationsLater(context, storage.peers) }, context }
}

/** What knows the forms is loaded where one was set. */
async function readToolFormats(values: readonly string[]): Promise<ToolFormats> {
  if (values.length === 0) return { of: () => null, named: [] }
  return (await import('../operations/base-models/tool-formats.js')).resolveToolFormats(values)
}

type Late = Omit<AppOptions['services'], 'auth' | 'usage' | 'activity' | 'baseModels'>

/** Those that are loaded by the first call of one. */
function operationsLater(context: ServiceContext, peers: Storage['peers']): Late {
  return {
    sessions: later(async () => (await import('../operations/access/sessions.js')).createSessionService(context)),
    downloads: later(async () => (await import('../operations/access/downloads.js')).createDownloadService(context)),
    models: later(async () => (await import('../operations/models/models.js')).createModelService(context)),
    checkpoints: later(async () =>
      (await import('../operations/models/checkpoints.js')).createCheckpointService(context),
    ),
    trainingJobs: later(
      async () => (await import('../operations/training/training-jobs.js')).createTrainingJobService(context),
      { follow: true },
    ),
    trainingSessions: later(async () =>
      (await import('../operations/training/training-sessions.js')).createTrainingSessionService(context, peers),
    ),
    trainingPlans: later(async () =>
      (await import('../operations/training/training-plans.js')).createTrainingPlanService(context),
    ),
    trainingOptions: later(async () =>
      (await import('../operations/training/training-options.js')).createTrainingOptionsService(context),
    ),
    trajectoryLog: later(async () =>
      (await import('../operations/trajectory-log.js')).createTrajectoryLogService(context),
    ),
    logComparison: later(async () =>
      (await import('../operations/log-comparison.js')).createLogComparisonService(context),
    ),
    files: later(async () => (await import('../operations/files.js')).createFileService(context)),
    chat: later(async () => (await import('../operations/generation/chat/chat.js')).createChatService(context)),
    completions: later(async () =>
      (await import('../operations/generation/completions/completions.js')).createCompletionService(context),
    ),
    tokens: later(async () => (await import('../operations/generation/text/tokens.js')).createTokenService(context)),
    systemCheck: later(async () => (await import('../operations/system-check.js')).createSystemCheckService(context)),
    workerApi: later(async () =>
      (await import('../operations/training/worker-api.js')).createWorkerApiService(context),
    ),
    sessionApi: later(async () =>
      (await import('../operations/training/session-api.js')).createSessionApiService(context),
    ),
    modelMetrics: later(async () =>
      (await import('../operations/models/model-metrics.js')).createModelMetricsService(context),
    ),
    modelNotes: later(async () => (await import('../operations/models/model-notes.js')).createModelNotes(context)),
  }
}
