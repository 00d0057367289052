/**
 * What a service is started with, in three groups: what users set, tuning that few need, and seams for tests.
 *
 * Defaults and bounds of the first group are in `contract/settings/service.ts`, those of tuning beside the code they tune.
 */

import { InvalidRequestError } from '#base/errors/errors.js'
import type { Logger, LogLevel } from '#base/logging/logger.js'
import { packageVersion } from '#base/util/package-root.js'
import {
  type Precision,
  type SchedulingPolicy,
  SERVICE_BOUNDS,
  SERVICE_DEFAULTS,
  type Speculation,
} from '#contract/settings/service.js'
import type { BodyLimits } from './bodies/bodies.js'
import type { BuiltInModel } from './built-in-models.js'
import type { HubOptions } from './operations/base-models/hub-connection.js'
import type { BaseModelEntry } from './operations/context.js'
import type { OutboxTiming } from './operations/webhooks/outbox.js'
import type { EngineProcessOptions } from './processes/engine-process.js'
import type { JobTiming } from './queue/dispatcher.js'

/** What users set, by flags, variables or a file; null and absent mean the default. */
export interface ServiceSettings {
  readonly dataDir: string
  readonly host?: string
  /** 0 takes any free port. */
  readonly port?: number
  /** The first one answers requests that name no model. Default: `trainyard/spark`. */
  readonly baseModels?: readonly (BuiltInModel | BaseModelEntry)[]
  /** Jobs that train side by side; 0 trains nothing here. */
  readonly trainWorkers?: number
  /** Least time between two points from which a job goes on when it loses its worker; 0: after every step. */
  readonly resumeIntervalMs?: number
  /** Weights while serving. */
  readonly precision?: Precision
  /** Threads of the engine and of training; null for all cores. */
  readonly threads?: number | null
  /** Ceiling for prompt + answer, tokens; null for the model's own. */
  readonly maxContextLength?: number | null
  /** Sequences an engine computes at once. */
  readonly maxConcurrentSequences?: number
  /** Chat requests of one base model that may run or wait; beyond it 429. */
  readonly maxPendingRequests?: number
  /** Requests of one key that may run at once; beyond it 429. */
  readonly maxConcurrentRequests?: number
  /** Requests one key may send in a minute; beyond it 429. Null: no limit, the default. */
  readonly requestsPerMinute?: number | null
  /** Open connections; a further one takes the place of one that is idle, or is closed. */
  readonly maxConnections?: number
  /** Requests of one connection that may wait behind the one that runs; with more it is cut. */
  readonly maxPipelinedRequests?: number
  /** Bytes of answers that clients have not read, together; beyond it connections that were unread longest are cut. */
  readonly maxUnreadBytes?: number
  /** Training jobs of one entity that may wait or run; beyond it 429. */
  readonly maxQueuedJobs?: number
  /** Largest bodies, bytes: requests in general, for answers, of trajectory groups, one group, an uploaded file. */
  readonly maxRequestBodyBytes?: number
  readonly maxChatBodyBytes?: number
  readonly maxTrajectoriesBytes?: number
  readonly maxGroupBytes?: number
  readonly maxUploadBytes?: number
  /** All bodies on disk that are not read to their end yet; beyond it 503. */
  readonly maxUnfinishedBytes?: number
  /** Memory of a base model's keys and values; null for a quarter of the machine's. */
  readonly kvCacheBytes?: number | null
  /** Whether an answer that repeats earlier text is computed several tokens at a time. */
  readonly speculation?: Speculation
  /** `priority`: requests with a lower `priority` go first; otherwise the field is refused. Default `fcfs`. */
  readonly schedulingPolicy?: SchedulingPolicy
  /** Whether requests may bring a chat template of their own, which then runs in the engine's process. Default false. */
  readonly trustsRequestChatTemplate?: boolean
  /** How long blobs that no row names any more are kept. Default 24 hours. */
  readonly sweepGraceMs?: number
  /** Begin anew where the database is empty or missing and data lies beside it, which stays. Default false: the start is refused. */
  readonly adoptsEmptyDatabase?: boolean
  /** Go on with a database that is older than the data beside it, or another directory's. Default false: the start is refused. */
  readonly adoptsOtherDatabase?: boolean
  readonly logLevel?: LogLevel
  /** Host names requests may carry besides loopback names and addresses. Default none. */
  readonly allowedHosts?: readonly string[]
  /** Hosts (`name` or `name:port`) that webhooks may be sent to although they are in a private network or speak plain http. Default none. */
  readonly webhookHosts?: readonly string[]
  /** Hosts (`name` or `name:port`) that training data may be fetched from although they are in a private network or speak plain http. Default none. */
  readonly trainingDataHosts?: readonly string[]
  /** Folder below which `file:` training data is read; null refuses all. Default null. */
  readonly trainingDataRoot?: string | null
  /** Where base models are fetched from when somebody adds one by its hub's name. Default: `DEFAULT_HUB_ENDPOINT`, no token. */
  readonly hub?: { readonly endpoint?: string | undefined; readonly token?: string | undefined }
}

/** Times and limits that fit almost everybody. */
export interface ServiceTuning {
  /** Leases, restarts and cancels of training jobs. Defaults: `DEFAULT_JOB_TIMING`. */
  readonly jobs?: Partial<JobTiming>
  /** How long and how large training workers without a job may stay. Defaults: `worker-pool.ts`. */
  readonly keptWorkers?: { readonly keepMs?: number; readonly maxKeptBytes?: number }
  /** When a plan of a job is given up. Default: `planner.ts`. */
  readonly plans?: { readonly stuckMs?: number }
  /** Pace of fetched training data. Defaults: `remote-data.ts`. */
  readonly remoteData?: { readonly silenceMs?: number; readonly minBytesPerSecond?: number }
  /** Pace of request bodies, and sizes instead of those set. Defaults: `DEFAULT_BODY_LIMITS`. */
  readonly bodies?: Partial<BodyLimits>
  /** How long a client may take nothing of an answer that waits for it, milliseconds. Default: `connections.ts`. */
  readonly unreadAnswerMs?: number
  /** Waits of webhook deliveries. Defaults: `DEFAULT_OUTBOX_TIMING`. */
  readonly webhooks?: Partial<OutboxTiming>
  /** When a silent engine host counts as frozen and is started again. Default: 20 s, 10 minutes while it computes. */
  readonly engineWatchdog?: EngineProcessOptions['watchdog']
  /** Wait before a broken download of a base model is opened again, milliseconds; doubles. Default 1000. */
  readonly downloadRetryMs?: number
}

/** What tests replace: nothing here is for production. */
export interface ServiceSeams {
  /** Most pages of 4096 bytes the database may have; beyond it writes answer `disk_full`. Default: no limit. */
  readonly maxDatabasePages?: number
  /** Environment that children inherit. Default: this process's. */
  readonly environment?: Readonly<Record<string, string | undefined>>
  /** Modules that children run instead of the built ones. */
  readonly entryPaths?: { readonly engineHost?: string; readonly worker?: string }
}

export interface ServiceOptions extends ServiceSettings {
  readonly tuning?: ServiceTuning
  readonly seams?: ServiceSeams
  /** Default: JSON or pretty lines on stderr. */
  readonly logger?: Logger
}

/** Settings that are one value each. */
type SingleSetting =
  | Exclude<keyof typeof SERVICE_DEFAULTS, 'logLevel' | 'logFormat'>
  | 'threads'
  | 'maxContextLength'
  | 'requestsPerMinute'
  | 'kvCacheBytes'
  | 'trainingDataRoot'

/** Settings with every default filled in. */
export type ResolvedSettings = { readonly [Name in SingleSetting]-?: Exclude<ServiceSettings[Name], undefined> }

/**
 * Fills in defaults.
 *
 * @throws {InvalidRequestError} `invalid_setting` naming a number outside its bounds
 */
export function resolveSettings(options: ServiceSettings): ResolvedSettings {
  const settings: ResolvedSettings = {
    host: options.host ?? SERVICE_DEFAULTS.host,
    port: options.port ?? SERVICE_DEFAULTS.port,
    trainWorkers: options.trainWorkers ?? SERVICE_DEFAULTS.trainWorkers,
    resumeIntervalMs: options.resumeIntervalMs ?? SERVICE_DEFAULTS.resumeIntervalMs,
    sweepGraceMs: options.sweepGraceMs ?? SERVICE_DEFAULTS.sweepGraceMs,
    precision: options.precision ?? SERVICE_DEFAULTS.precision,
    threads: options.threads ?? null,
    maxContextLength: options.maxContextLength ?? null,
    maxConcurrentSequences: options.maxConcurrentSequences ?? SERVICE_DEFAULTS.maxConcurrentSequences,
    maxPendingRequests: options.maxPendingRequests ?? SERVICE_DEFAULTS.maxPendingRequests,
    maxConcurrentRequests: options.maxConcurrentRequests ?? SERVICE_DEFAULTS.maxConcurrentRequests,
    maxConnections: options.maxConnections ?? SERVICE_DEFAULTS.maxConnections,
    maxPipelinedRequests: options.maxPipelinedRequests ?? SERVICE_DEFAULTS.maxPipelinedRequests,
    maxUnreadBytes: options.maxUnreadBytes ?? SERVICE_DEFAULTS.maxUnreadBytes,
    maxQueuedJobs: options.maxQueuedJobs ?? SERVICE_DEFAULTS.maxQueuedJobs,
    maxRequestBodyBytes: options.maxRequestBodyBytes ?? SERVICE_DEFAULTS.maxRequestBodyBytes,
    maxChatBodyBytes: options.maxChatBodyBytes ?? SERVICE_DEFAULTS.maxChatBodyBytes,
    maxTrajectoriesBytes: options.maxTrajectoriesBytes ?? SERVICE_DEFAULTS.maxTrajectoriesBytes,
    maxGroupBytes: options.maxGroupBytes ?? SERVICE_DEFAULTS.maxGroupBytes,
    maxUploadBytes: options.maxUploadBytes ?? SERVICE_DEFAULTS.maxUploadBytes,
    maxUnfinishedBytes: options.maxUnfinishedBytes ?? SERVICE_DEFAULTS.maxUnfinishedBytes,
    requestsPerMinute: options.requestsPerMinute ?? null,
    kvCacheBytes: options.kvCacheBytes ?? null,
    speculation: options.speculation ?? SERVICE_DEFAULTS.speculation,
    schedulingPolicy: options.schedulingPolicy ?? SERVICE_DEFAULTS.schedulingPolicy,
    trustsRequestChatTemplate: options.trustsRequestChatTemplate ?? SERVICE_DEFAULTS.trustsRequestChatTemplate,
    trainingDataRoot: options.trainingDataRoot ?? null,
  }
  for (const [name, { min, max }] of Object.entries(SERVICE_BOUNDS)) {
    const value = settings[name as keyof typeof SERVICE_BOUNDS]
    if (value === null || (Number.isInteger(value) && value >= min && value <= max)) continue
    throw new InvalidRequestError(
      'invalid_setting',
      `${name} must be a whole number from ${min} to ${max}, got ${value}`,
      {
        param: name,
      },
    )
  }
  return settings
}

/** The public hub; asked only when somebody adds a model from it. */
export const DEFAULT_HUB_ENDPOINT = 'https://huggingface.co'

/**
 * The hub that base models are added from.
 *
 * @throws {InvalidRequestError} `invalid_setting` for an endpoint that is no http address
 */
export function resolveHub(options: Pick<ServiceSettings, 'hub'>): HubOptions {
  const endpoint = options.hub?.endpoint ?? DEFAULT_HUB_ENDPOINT
  const isAddress = URL.canParse(endpoint) && /^https?:$/.test(new URL(endpoint).protocol)
  if (!isAddress) {
    throw new InvalidRequestError('invalid_setting', `the hub's endpoint must be an http address, got "${endpoint}"`, {
      param: 'hub.endpoint',
      hint: 'set HF_ENDPOINT to an address, or unset it',
    })
  }
  return { endpoint, token: options.hub?.token ?? null, userAgent: `trainyard/${packageVersion()}` }
}
