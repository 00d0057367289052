/**
 * What routes and middleware share: the services they call, and the variables of a request.
 */
import type { Context, Hono } from 'hono'
import type { AppError } from '#base/errors/errors.js'
import type { Logger } from '#base/logging/logger.js'
import type { Clock } from '#base/util/clock.js'
import type { IdSource } from '#base/util/ids.js'
import type { EndpointTable, Key, Route } from '#contract/endpoints/table.js'
import type { BodyStore } from '#service/bodies/body-store.js'
import type { Metrics } from '#service/metrics/metrics.js'
import type { AuthService } from '#service/operations/access/auth.js'
import type { DownloadService } from '#service/operations/access/downloads.js'
import type { SessionService } from '#service/operations/access/sessions.js'
import type { UsageService } from '#service/operations/access/usage.js'
import type { ActivityFeed } from '#service/operations/activity/feed.js'
import type { BaseModelService } from '#service/operations/base-models/base-models.js'
import type { Principal } from '#service/operations/context.js'
import type { FileService } from '#service/operations/files.js'
import type { ChatService } from '#service/operations/generation/chat/chat.js'
import type { CompletionService } from '#service/operations/generation/completions/completions.js'
import type { TokenService } from '#service/operations/generation/text/tokens.js'
import type { LogComparisonService } from '#service/operations/log-comparison.js'
import type { CheckpointService } from '#service/operations/models/checkpoints.js'
import type { ModelMetricsService } from '#service/operations/models/model-metrics.js'
import type { ModelNotes } from '#service/operations/models/model-notes.js'
import type { ModelService } from '#service/operations/models/models.js'
import type { SystemCheckService } from '#service/operations/system-check.js'
import type { SessionApiService } from '#service/operations/training/session-api.js'
import type { TrainingJobService } from '#service/operations/training/training-jobs.js'
import type { TrainingOptionsService } from '#service/operations/training/training-options.js'
import type { TrainingPlanService } from '#service/operations/training/training-plans.js'
import type { TrainingSessionService } from '#service/operations/training/training-sessions.js'
import type { WorkerApiService } from '#service/operations/training/worker-api.js'
import type { TrajectoryLogService } from '#service/operations/trajectory-log.js'
import type { StreamShares } from './connections/stream-shares.js'
import type { PublicAddress } from './public-address.js'

export interface RequestLimits {
  readonly maxConcurrentRequests: number
  /** Null: no limit. */
  readonly requestsPerMinute: number | null
}

/** Lets requests for answers in: `admission.ts`. */
export interface Admission {
  /**
   * Counts a request and waits for its turn.
   *
   * @throws {AppError} `queue_full`
   */
  enter(c: RequestContext): Promise<void>
  /** Its answer begins, or is an error; its connection's end means the same. Harmless twice. */
  leave(c: RequestContext): void
}

/** A handler as the router calls it, whatever its row says. */
export type BoundHandler = (call: never) => object | Promise<object>

/** Handlers that are loaded when the first request for one of their rows comes. */
export interface LoadedLater {
  readonly keys: readonly Key[]
  /** Loaded before the port is there all the same, so that a fault is found then. */
  readonly isSoon: boolean
  load(): Promise<Readonly<Record<string, BoundHandler>>>
}

/** How errors are answered below paths that are in somebody else's format. */
export interface ErrorForm {
  readonly paths: RegExp
  /** The header that has the request's id, too. */
  readonly requestIdHeader: string
  toBody(error: unknown, requestId: string): object
}

/** Hears how requests were answered, before the answer is sent. */
export interface Witness {
  /** Asked once for each row. */
  wants(route: Route): boolean
  /** It never rejects, and an answer waits for it. */
  see(seen: Seen): Promise<void>
}

/** A request that a handler has answered. */
export interface Seen {
  readonly c: RequestContext
  readonly route: Route
  /** Whoever sent it, by address; null without a connection. */
  readonly client: string | null
  /** What the handler answered, or what it threw. */
  readonly end: { readonly answer: object } | { readonly error: unknown }
}

export interface AppOptions {
  /** What is served. */
  readonly table: EndpointTable
  /** Handlers of plugins. */
  readonly plugins: readonly LoadedLater[]
  readonly errorForms: readonly ErrorForm[]
  readonly witnesses: readonly Witness[]
  readonly services: {
    readonly auth: AuthService
    readonly sessions: SessionService
    readonly downloads: DownloadService
    readonly usage: UsageService
    readonly activity: Pick<ActivityFeed, 'list' | 'follow'>
    readonly models: ModelService
    readonly baseModels: BaseModelService
    readonly checkpoints: CheckpointService
    readonly trainingJobs: TrainingJobService
    readonly trainingSessions: TrainingSessionService
    readonly logComparison: LogComparisonService
    readonly trainingPlans: TrainingPlanService
    readonly trainingOptions: TrainingOptionsService
    readonly trajectoryLog: TrajectoryLogService
    readonly files: FileService
    readonly chat: ChatService
    readonly completions: CompletionService
    readonly tokens: TokenService
    readonly systemCheck: SystemCheckService
    readonly workerApi: WorkerApiService
    readonly sessionApi: SessionApiService
    readonly modelMetrics: ModelMetricsService
    readonly modelNotes: ModelNotes
  }
  readonly logger: Logger
  readonly clock: Clock
  readonly ids: IdSource
  readonly version: string
  /** Host names a request may carry, besides loopback ones. */
  readonly allowedHosts: readonly string[]
  /** Origins of pages whose scripts may call it. */
  readonly allowedOrigins: readonly string[]
  /** What links in answers begin with. */
  readonly publicAddress: PublicAddress
  readonly metrics: Metrics
  /** Where browsers are shown something, with a slash at both ends; null: they are not. */
  readonly home: string | null
  /** False while an engine that was started does not run. */
  readonly isEngineAlive: () => boolean
  /** Requests of one key: how many may run at once, and how many a minute. */
  readonly limits: RequestLimits
  /** Servers that share what keys may ask for in a minute, this one included. */
  readonly countServers: () => number
  /** Lets requests for answers in. */
  readonly admission: Admission
  /** Streams of events, by entity. */
  readonly eventStreams: StreamShares
  /** Where request bodies are collected and read. */
  readonly bodies: BodyStore
  /** Turns a failure of the disk or the database into an error to show; null for anything else. */
  readonly translateError: (error: unknown) => AppError | null
  /** Aborted at shutdown: ends event streams and refuses new requests. */
  readonly closing: AbortSignal
}

export interface RequestVariables {
  requestId: string
  /** What the log line of this request says beside the usual. */
  logFacts?: Readonly<Record<string, string | number | boolean | null | undefined>>
  bodies: BodyStore
  /** The request came with the ticket of a download instead of a key. */
  hasTicket?: boolean
  /** Whose key, token or signature the request has shown: an entity. Set by `noteOwner`. */
  owner?: string
  /** Set once the body has been read to its end. */
  isBodyRead?: boolean
  /** Set behind `bearerAuth`. */
  principal: Principal
}

export type AppEnvironment = { Variables: RequestVariables }
export type App = Hono<AppEnvironment>
export type RequestContext = Context<AppEnvironment>
