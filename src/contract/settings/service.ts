/**
 * Defaults, bounds and choices of what a user sets on a service, each written once: the command line's table of settings and
 * the service itself read them here. Plain data; which flag and variable set them is `cli/config/schema.ts`.
 */

export const SERVICE_DEFAULTS = {
  host: '127.0.0.1',
  port: 8642,
  precision: 'auto',
  trainWorkers: 1,
  resumeIntervalMs: 60_000,
  sweepGraceMs: 86_400_000,
  maxConcurrentSequences: 64,
  maxPendingRequests: 512,
  maxConcurrentRequests: 2000,
  maxConnections: 4096,
  maxPipelinedRequests: 2000,
  maxUnreadBytes: 256 * 1024 ** 2,
  maxQueuedJobs: 1000,
  maxRequestBodyBytes: 8 * 1024 ** 2,
  maxChatBodyBytes: 16 * 1024 ** 2,
  maxTrajectoriesBytes: 1024 ** 3,
  maxGroupBytes: 128 * 1024 ** 2,
  maxUploadBytes: 16 * 1024 ** 3,
  maxUnfinishedBytes: 4 * 1024 ** 3,
  speculation: 'auto',
  schedulingPolicy: 'fcfs',
  trustsRequestChatTemplate: false,
  logLevel: 'info',
  logFormat: 'auto',
} as const

/** Inclusive bounds of whole numbers. */
export const SERVICE_BOUNDS = {
  port: { min: 0, max: 65_535 },
  threads: { min: 1, max: 1024 },
  trainWorkers: { min: 0, max: 64 },
  resumeIntervalMs: { min: 0, max: 86_400_000 },
  sweepGraceMs: { min: 120_000, max: 365 * 86_400_000 },
  /** Tokens. */
  maxContextLength: { min: 16, max: 2 ** 24 },
  maxConcurrentSequences: { min: 1, max: 1024 },
  maxPendingRequests: { min: 1, max: 1_000_000 },
  maxConcurrentRequests: { min: 1, max: 1_000_000 },
  requestsPerMinute: { min: 1, max: 1_000_000_000 },
  maxConnections: { min: 16, max: 1_000_000 },
  maxPipelinedRequests: { min: 0, max: 1_000_000 },
  maxQueuedJobs: { min: 1, max: 1_000_000 },
  /** Bytes, as the rest. */
  maxUnreadBytes: { min: 1024 ** 2, max: 1024 ** 4 },
  maxRequestBodyBytes: { min: 64 * 1024, max: 256 * 1024 ** 2 },
  maxChatBodyBytes: { min: 64 * 1024, max: 256 * 1024 ** 2 },
  maxTrajectoriesBytes: { min: 64 * 1024, max: 1024 ** 4 },
  /** A group is one text while it is written, and no text is longer. */
  maxGroupBytes: { min: 64 * 1024, max: 512 * 1024 ** 2 },
  maxUploadBytes: { min: 64 * 1024, max: 16 * 1024 ** 3 },
  maxUnfinishedBytes: { min: 64 * 1024, max: 1024 ** 4 },
  kvCacheBytes: { min: 16 * 1024 ** 2, max: 1024 ** 5 },
} as const

/** Weights while serving. */
export const PRECISIONS = ['auto', 'f32', 'int8', 'int4'] as const
export type Precision = (typeof PRECISIONS)[number]

/** Whether answers that repeat what was said are computed several tokens at a time. */
export const SPECULATIONS = ['auto', 'off'] as const
export type Speculation = (typeof SPECULATIONS)[number]
/** Who gets a row first: who came first, or who has the lower `priority`. */
export const SCHEDULING_POLICIES = ['fcfs', 'priority'] as const
export type SchedulingPolicy = (typeof SCHEDULING_POLICIES)[number]

export const LOG_LEVELS = ['debug', 'info', 'warn', 'error'] as const
export const LOG_FORMATS = ['auto', 'json', 'lines', 'pretty'] as const

/** Project of a model that is named without one. */
export const DEFAULT_PROJECT = 'default'

/** Where a client looks for a service that nobody named. */
export const DEFAULT_SERVER_URL = `http://${SERVICE_DEFAULTS.host}:${SERVICE_DEFAULTS.port}`
