/**
 * What a service is started with, in two groups: what users set, and times and limits that only tests change.
 *
 * The first group is the table in `contract/settings/service.ts`; defaults of tuning are beside the code they tune.
 */

import { InvalidRequestError } from '#base/errors/errors.js'
import type { Logger, LogLevel } from '#base/logging/logger.js'
import { jobsAtOnce } from '#base/machine/cores.js'
import { packageVersion } from '#base/util/package-root.js'
import { SERVICE_SETTINGS, type ServiceSettingName, type ServiceSettingValues } from '#contract/settings/service.js'
import type { Bounds, SettingRow } from '#contract/settings/setting.js'
import type { BodyLimits } from './bodies/bodies.js'
import type { BuiltInModel } from './built-in-models.js'
import type { HubOptions } from './operations/base-models/hub-connection.js'
import type { BaseModelEntry } from './operations/context.js'
import type { EngineProcessOptions } from './processes/engine-process.js'
import type { JobTiming } from './queue/dispatcher.js'

/** Rows whose option has another form in the library than on the command line. */
type SpecialSetting = 'dataDir' | 'baseModels' | 'plugins' | 'logLevel'

/** What users set: the rows of `contract/settings/service.ts` by their names; null and absent mean the default. */
export interface ServiceSettings extends Partial<Omit<ServiceSettingValues, SpecialSetting>> {
  readonly dataDir: string
  /** The first one answers requests that name no model. Default: `trainyard/spark`. */
  readonly baseModels?: readonly (BuiltInModel | BaseModelEntry)[]
  readonly logLevel?: LogLevel
  /**
   * Begin anew where the database is empty or missing and data lies beside it, which stays. Default false: the start is refused.
   */
  readonly adoptsEmptyDatabase?: boolean
  /** Go on with a database that is older than the data beside it, or another directory's. Default false: the start is refused. */
  readonly adoptsOtherDatabase?: boolean
  /** Files of plugins that are no part of this package: JavaScript modules, seen from the working directory. */
  readonly plugins?: readonly string[]
  /** Settings of those plugins, by their keys. */
  readonly pluginSettings?: Readonly<Record<string, unknown>>
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
  /** When a silent engine host counts as frozen and is started again. Default: 20 s, 10 minutes while it computes. */
  readonly engineWatchdog?: EngineProcessOptions['watchdog']
  /** How long a server that says nothing counts as alive for those beside it, milliseconds. Default 15,000. */
  readonly serverLeaseMs?: number
  /** Sizes and waits of a blob store at an address, whose plugin knows which. Defaults: beside the code they tune. */
  readonly blobStore?: object
  /** Wait before a broken download of a base model is opened again, milliseconds; doubles. Default 1000. */
  readonly downloadRetryMs?: number
  /** Of plugins, by their names. Defaults: beside the code they tune. */
  readonly plugins?: Readonly<Record<string, object>>
}

export interface ServiceOptions extends ServiceSettings {
  /** Default: JSON or pretty lines on stderr. */
  readonly logger?: Logger
}

/** What the parts of a service are started with: only tests and benches tune it. */
export interface TunedServiceOptions extends ServiceOptions {
  readonly tuning?: ServiceTuning
}

/** Settings with every default filled in; what is served, and from where, is resolved with the data directory. */
type Resolved = { readonly trainWorkers: number; readonly logLevel: LogLevel }
export type ResolvedSettings = Omit<ServiceSettingValues, SpecialSetting | 'trainWorkers'> & Resolved

/**
 * Fills in defaults.
 *
 * @throws {InvalidRequestError} `invalid_setting` naming a number outside its bounds
 */
export function resolveSettings(options: ServiceSettings): ResolvedSettings {
  const resolved: Record<string, unknown> = {}
  for (const name of Object.keys(SERVICE_SETTINGS) as ServiceSettingName[]) {
    if (name === 'dataDir' || name === 'baseModels' || name === 'plugins') continue
    const row: SettingRow = SERVICE_SETTINGS[name]
    const value = options[name] ?? row.default
    if ('bounds' in row && row.bounds !== undefined) requireWithin(name, value, row.bounds)
    resolved[name] = value
  }
  return { ...resolved, trainWorkers: options.trainWorkers ?? jobsAtOnce() } as ResolvedSettings
}

/** Programs in JavaScript reach this without a type checker. */
export function requireWithin(name: string, value: unknown, { min, max }: Bounds): void {
  if (value === null || (Number.isInteger(value) && Number(value) >= min && Number(value) <= max)) return
  throw new InvalidRequestError(
    'invalid_setting',
    `${name} must be a whole number from ${min} to ${max}, got ${value}`,
    {
      param: name,
    },
  )
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
