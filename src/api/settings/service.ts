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
  maxConcurrentSequences: 16,
  maxPendingRequests: 512,
  logLevel: 'info',
  logFormat: 'auto',
} as const

/** Inclusive bounds of whole numbers. */
export const SERVICE_BOUNDS = {
  port: { min: 0, max: 65_535 },
  threads: { min: 1, max: 1024 },
  trainWorkers: { min: 0, max: 64 },
  resumeIntervalMs: { min: 0, max: 86_400_000 },
  /** Tokens. */
  maxContextLength: { min: 16, max: 2 ** 24 },
  maxConcurrentSequences: { min: 1, max: 1024 },
  maxPendingRequests: { min: 1, max: 1_000_000 },
} as const

/** Weights while serving. */
export const PRECISIONS = ['auto', 'f32', 'int8', 'int4'] as const
export type Precision = (typeof PRECISIONS)[number]

export const LOG_LEVELS = ['debug', 'info', 'warn', 'error'] as const
export const LOG_FORMATS = ['auto', 'json', 'lines', 'pretty'] as const

/** Where a client looks for a service that nobody named. */
export const DEFAULT_SERVER_URL = `http://${SERVICE_DEFAULTS.host}:${SERVICE_DEFAULTS.port}`
