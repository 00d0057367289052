/**
 * What requests can ask for: every operation with the parts it works with, and what operations do in the background.
 */
import { systemClock } from '#base/util/clock.js'
import { packageVersion } from '#base/util/package-root.js'
import type { AppOptions } from '../http/environment.js'
import { createAuthService } from '../operations/access/auth.js'
import { createDownloadService } from '../operations/access/downloads.js'
import { createKeyService } from '../operations/access/keys.js'
import { createSessionService } from '../operations/access/sessions.js'
import { createNameService } from '../operations/address-rules.js'
import { createVerifyService } from '../operations/backup/verify-storage.js'
import { createBaseModelFilesBook } from '../operations/base-models/base-model-files.js'
import { createBaseModelService } from '../operations/base-models/base-models.js'
import { createHubConnection } from '../operations/base-models/hub-connection.js'
import { createModelFactsBook } from '../operations/base-models/model-facts.js'
import { resolveToolFormats } from '../operations/base-models/tool-formats.js'
import type { ServiceContext } from '../operations/context.js'
import { createFileService } from '../operations/files.js'
import { createChatService } from '../operations/generation/chat/chat.js'
import { createCompletionService } from '../operations/generation/completions/completions.js'
import { createTokenService } from '../operations/generation/text/tokens.js'
import { createLogComparisonService } from '../operations/log-comparison.js'
import { createCheckpointService } from '../operations/models/checkpoints.js'
import { createModelMetricsService } from '../operations/models/model-metrics.js'
import { createModelNotes } from '../operations/models/model-notes.js'
import { createModelService } from '../operations/models/models.js'
import { createSystemCheckService } from '../operations/system-check.js'
import { createRemoteData } from '../operations/training/remote-data.js'
import { createRolloutService } from '../operations/training/rollouts/rollouts.js'
import { createSessionApiService } from '../operations/training/session-api.js'
import { createTrainingJobService } from '../operations/training/training-jobs.js'
import { createTrainingOptionsService } from '../operations/training/training-options.js'
import { createTrainingPlanService } from '../operations/training/training-plans.js'
import { createTrainingSessionService } from '../operations/training/training-sessions.js'
import { createWorkerApiService } from '../operations/training/worker-api.js'
import { createWorkerClaimService } from '../operations/training/worker-claims.js'
import { createTrajectoryLogService } from '../operations/trajectory-log.js'
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
export function createOperations(start: Start, input: OperationsInput): Operations {
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

  const toolFormats = resolveToolFormats(settings.toolFormats)
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
  const models = createModelService(context)
  const trainingJobs = createTrainingJobService(context)
  const chat = createChatService(context)
  const tokens = createTokenService(context)
  const rollouts = createRolloutService(context)
  const files = createFileService(context)
  const services = {
    auth: createAuthService(db),
    keys: createKeyService(context),
    sessions: createSessionService(context),
    downloads: createDownloadService(context),
    usage,
    activity: jobs.activity,
    models,
    baseModels,
    checkpoints: createCheckpointService(context),
    trainingJobs,
    trainingSessions: createTrainingSessionService(context, storage.peers),
    trainingPlans: createTrainingPlanService(context),
    trainingOptions: createTrainingOptionsService(context),
    rollouts,
    trajectoryLog: createTrajectoryLogService(context),
    logComparison: createLogComparisonService(context),
    files,
    chat,
    completions: createCompletionService(context),
    tokens,
    systemCheck: createSystemCheckService(context),
    verify: createVerifyService(context),
    workerApi: createWorkerApiService(context),
    sessionApi: createSessionApiService(context),
    workerClaims: createWorkerClaimService(context),
    modelMetrics: createModelMetricsService(context),
    modelNotes: createModelNotes(context),
  }
  return { services, context }
}
