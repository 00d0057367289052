/**
 * What a setting is, and the type of each one's value; the settings themselves are the table in `schema.ts`.
 */
import type { LOG_FORMATS, LOG_LEVELS, Precision, SchedulingPolicy, Speculation } from '#contract/settings/service.js'

/** What a setting's text is parsed to. */
export interface SettingValues {
  readonly server: string
  readonly 'api-key': string | null
  readonly 'api-key-file': string | null
  readonly project: string
  readonly entity: string | null
  readonly json: boolean
  readonly color: boolean | null
  readonly 'no-input': boolean
  readonly timeout: number | null
  readonly verbose: boolean
  readonly host: string
  readonly port: number
  readonly 'data-dir': string | null
  readonly 'base-models': readonly string[]
  readonly threads: number | null
  readonly precision: Precision
  readonly 'train-workers': number
  readonly 'job-lease': number
  readonly 'worker-start-timeout': number
  readonly 'worker-stall-timeout': number
  readonly 'keep-worker': number
  readonly 'resume-interval': number
  readonly 'sweep-grace': number
  readonly 'max-context-length': number | null
  readonly 'max-sequences': number
  readonly 'max-pending-requests': number
  readonly 'max-concurrent-requests': number
  readonly 'requests-per-minute': number | null
  readonly 'max-connections': number
  readonly 'max-pipelined-requests': number
  readonly 'max-unread-answers': number
  readonly 'max-queued-jobs': number
  readonly 'max-request-body': number
  readonly 'max-chat-body': number
  readonly 'max-trajectories-body': number
  readonly 'max-trajectory-group': number
  readonly 'max-upload': number
  readonly 'max-unfinished-bodies': number
  readonly 'scheduling-policy': SchedulingPolicy
  readonly 'trust-request-chat-template': boolean
  readonly 'kv-cache-memory': number | null
  readonly speculation: Speculation
  readonly 'training-data-root': string | null
  readonly 'allowed-hosts': readonly string[]
  readonly 'webhook-hosts': readonly string[]
  readonly 'training-data-hosts': readonly string[]
  readonly 'log-level': (typeof LOG_LEVELS)[number]
  readonly 'log-format': (typeof LOG_FORMATS)[number]
}

export type SettingKey = keyof SettingValues

/** One row of the table; `T` is the type of its value. */
export interface Setting<T> {
  /** Shown in help and errors: `url`, `path`, `duration`… */
  readonly type: string
  readonly default: T
  /** Unit of a numeric value, for help. */
  readonly unit?: string
  /** Environment variables, the first one set wins. */
  readonly env: readonly string[]
  /** As commander spells it; null: no flag exists. */
  readonly flag: string | null
  /** Global flags belong to every command, service flags to `serve`. */
  readonly usedBy: 'client' | 'service'
  /** Never printed in full. */
  readonly isSecret?: boolean
  readonly summary: string
  /** Text from a flag, a variable or the file → value; throws a plain sentence fragment such as `a URL`. */
  readonly parse: (text: string) => T
}
