/**
 * Every setting of the command line and the service in one table: type, default, environment names, flag, one sentence.
 *
 * Help texts, `trainyard config list`, validation and did-you-mean come from this table. Hyperparameters are not
 * settings: they belong to a job. Where a value came from is `load.ts`; reading the environment is `environment.ts`.
 */
import {
  DEFAULT_SERVER_URL,
  LOG_FORMATS,
  LOG_LEVELS,
  PRECISIONS,
  type Precision,
  SERVICE_BOUNDS,
  SERVICE_DEFAULTS,
  SPECULATIONS,
  type Speculation,
} from '#api/settings/service.js'
import { InvalidRequestError } from '#base/errors.js'
import {
  ExpectedError,
  MAX_DURATION_MS,
  parseBoolean,
  parseChoice,
  parseDurationBetween,
  parseDurationMs,
  parseList,
  parseSize,
  parseText,
  parseUrl,
  parseWhole,
} from './parse-value.js'

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
  readonly 'max-context-length': number | null
  readonly 'max-sequences': number
  readonly 'max-pending-requests': number
  readonly 'max-concurrent-requests': number
  readonly 'requests-per-minute': number | null
  readonly 'max-queued-jobs': number
  readonly 'max-request-body': number
  readonly 'max-chat-body': number
  readonly 'max-trajectories-body': number
  readonly 'max-trajectory-group': number
  readonly 'max-upload': number
  readonly 'max-unfinished-bodies': number
  readonly 'kv-cache-memory': number | null
  readonly speculation: Speculation
  readonly 'training-data-root': string | null
  readonly 'allowed-hosts': readonly string[]
  readonly 'webhook-hosts': readonly string[]
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

/** Project of a model named without one. */
export const DEFAULT_PROJECT = 'default'

export const settings: { readonly [K in SettingKey]: Setting<SettingValues[K]> } = {
  server: {
    type: 'url',
    default: DEFAULT_SERVER_URL,
    env: ['TRAINYARD_URL', 'TRAINYARD_SERVER'],
    flag: '--server <url>',
    usedBy: 'client',
    summary: 'service to talk to',
    parse: parseUrl,
  },
  'api-key': {
    type: 'text',
    default: null,
    env: ['TRAINYARD_API_KEY'],
    flag: null,
    usedBy: 'client',
    isSecret: true,
    summary: 'credential; for a local server it is found by itself',
    parse: parseText,
  },
  'api-key-file': {
    type: 'path',
    default: null,
    env: ['TRAINYARD_API_KEY_FILE'],
    flag: '--api-key-file <path>',
    usedBy: 'client',
    summary: 'file with the credential, - for standard input',
    parse: parseText,
  },
  project: {
    type: 'text',
    default: DEFAULT_PROJECT,
    env: ['TRAINYARD_PROJECT'],
    flag: '--project <name>',
    usedBy: 'client',
    summary: 'project of models named without one',
    parse: parseText,
  },
  entity: {
    type: 'text',
    default: null,
    env: ['TRAINYARD_ENTITY'],
    flag: '--entity <name>',
    usedBy: 'client',
    summary: "entity of models named without one; default the key's own",
    parse: parseText,
  },
  json: {
    type: 'boolean',
    default: false,
    env: ['TRAINYARD_JSON'],
    flag: '--json',
    usedBy: 'client',
    summary: 'one JSON document, or JSON Lines for a stream, on stdout',
    parse: parseBoolean,
  },
  color: {
    type: 'boolean',
    default: null,
    env: [],
    flag: '--no-color',
    usedBy: 'client',
    summary: 'no colour; NO_COLOR and FORCE_COLOR are honoured too',
    parse: parseBoolean,
  },
  'no-input': {
    type: 'boolean',
    default: false,
    env: ['TRAINYARD_NO_INPUT', 'CI'],
    flag: '--no-input',
    usedBy: 'client',
    summary: 'never ask; exit 2 naming the flag instead',
    parse: parseBoolean,
  },
  timeout: {
    type: 'duration',
    default: null,
    unit: 'ms',
    env: ['TRAINYARD_TIMEOUT'],
    flag: '--timeout <duration>',
    usedBy: 'client',
    summary: 'limit per request, for example 500ms, 30s, 5m; default 30s, answers and uploads 20m',
    parse: parseDurationMs,
  },
  verbose: {
    type: 'boolean',
    default: false,
    env: ['TRAINYARD_VERBOSE'],
    flag: '-v, --verbose',
    usedBy: 'client',
    summary: 'request lines on stderr: method, path, status, time, request id',
    parse: parseBoolean,
  },
  host: {
    type: 'address',
    default: SERVICE_DEFAULTS.host,
    env: ['TRAINYARD_HOST'],
    flag: '--host <address>',
    usedBy: 'service',
    summary: 'address to listen on',
    parse: parseText,
  },
  port: {
    type: 'integer',
    default: SERVICE_DEFAULTS.port,
    env: ['TRAINYARD_PORT'],
    flag: '--port <n>',
    usedBy: 'service',
    summary: 'port to listen on, 0 for any free one',
    parse: (text) => parseWhole(text, SERVICE_BOUNDS.port),
  },
  'data-dir': {
    type: 'path',
    default: null,
    env: ['TRAINYARD_DATA_DIR'],
    flag: '--data-dir <dir>',
    usedBy: 'service',
    summary: 'where models, checkpoints and jobs live; default $XDG_DATA_HOME/trainyard',
    parse: parseText,
  },
  'base-models': {
    type: 'list',
    default: [],
    env: ['TRAINYARD_BASE_MODELS'],
    flag: '--base-model <path>',
    usedBy: 'service',
    summary: 'weights to serve and train: a folder or GGUF file, name=path, or trainyard/spark; repeatable',
    parse: parseList,
  },
  threads: {
    type: 'integer',
    default: null,
    env: ['TRAINYARD_THREADS'],
    flag: '--threads <n>',
    usedBy: 'service',
    summary: 'threads for inference and training; default all cores',
    parse: (text) => parseWhole(text, SERVICE_BOUNDS.threads),
  },
  precision: {
    type: 'choice',
    default: SERVICE_DEFAULTS.precision,
    env: ['TRAINYARD_PRECISION'],
    flag: `--precision <${PRECISIONS.join('|')}>`,
    usedBy: 'service',
    summary: 'weights while serving; auto is f32 up to 200 million parameters, int8 above',
    parse: (text) => parseChoice(text, PRECISIONS),
  },
  'train-workers': {
    type: 'integer',
    default: SERVICE_DEFAULTS.trainWorkers,
    env: ['TRAINYARD_TRAIN_WORKERS'],
    flag: '--train-workers <n>',
    usedBy: 'service',
    summary: 'training jobs that run side by side',
    parse: (text) => parseWhole(text, SERVICE_BOUNDS.trainWorkers),
  },
  'job-lease': {
    type: 'duration',
    default: 30_000,
    unit: 'ms',
    env: ['TRAINYARD_JOB_LEASE'],
    flag: '--job-lease <duration>',
    usedBy: 'service',
    summary: 'a job whose worker is not known to live runs again after this silence; default 30s',
    parse: (text) => parseDurationBetween(text, 1000, 3_600_000),
  },
  'worker-start-timeout': {
    type: 'duration',
    default: 600_000,
    unit: 'ms',
    env: ['TRAINYARD_WORKER_START_TIMEOUT'],
    flag: '--worker-start-timeout <duration>',
    usedBy: 'service',
    summary: 'a training worker that has not reported by then is started again; default 10m',
    parse: (text) => parseDurationBetween(text, 1000, MAX_DURATION_MS),
  },
  'worker-stall-timeout': {
    type: 'duration',
    default: 3_600_000,
    unit: 'ms',
    env: ['TRAINYARD_WORKER_STALL_TIMEOUT'],
    flag: '--worker-stall-timeout <duration>',
    usedBy: 'service',
    summary: 'a training worker that answers but does nothing for so long is started again; default 1h',
    parse: (text) => parseDurationBetween(text, 1000, MAX_DURATION_MS),
  },
  'keep-worker': {
    type: 'duration',
    default: 600_000,
    unit: 'ms',
    env: ['TRAINYARD_KEEP_WORKER'],
    flag: '--keep-worker <duration>',
    usedBy: 'service',
    summary: 'how long an idle training worker stays loaded for the next job, 0s for not at all; default 10m',
    parse: (text) => parseDurationBetween(text, 0, MAX_DURATION_MS),
  },
  'resume-interval': {
    type: 'duration',
    default: SERVICE_DEFAULTS.resumeIntervalMs,
    unit: 'ms',
    env: ['TRAINYARD_RESUME_INTERVAL'],
    flag: '--resume-interval <duration>',
    usedBy: 'service',
    summary: 'least time between points from which a job goes on after a crash, for example 60s',
    parse: (text) => parseDurationBetween(text, 0, SERVICE_BOUNDS.resumeIntervalMs.max),
  },
  'max-context-length': {
    type: 'integer',
    default: null,
    unit: 'tokens',
    env: ['TRAINYARD_MAX_CONTEXT_LENGTH'],
    flag: '--max-context-length <n>',
    usedBy: 'service',
    summary: "ceiling for prompt and answer together; default the model's own",
    parse: (text) => parseWhole(text, SERVICE_BOUNDS.maxContextLength),
  },
  'max-sequences': {
    type: 'integer',
    default: SERVICE_DEFAULTS.maxConcurrentSequences,
    env: ['TRAINYARD_MAX_SEQUENCES'],
    flag: '--max-sequences <n>',
    usedBy: 'service',
    summary: `answers computed at once; more wait; default ${SERVICE_DEFAULTS.maxConcurrentSequences}`,
    parse: (text) => parseWhole(text, SERVICE_BOUNDS.maxConcurrentSequences),
  },
  'max-pending-requests': {
    type: 'integer',
    default: SERVICE_DEFAULTS.maxPendingRequests,
    env: ['TRAINYARD_MAX_PENDING_REQUESTS'],
    flag: '--max-pending-requests <n>',
    usedBy: 'service',
    summary: `chat requests of one base model that may run or wait; beyond it 429; default ${SERVICE_DEFAULTS.maxPendingRequests}`,
    parse: (text) => parseWhole(text, SERVICE_BOUNDS.maxPendingRequests),
  },
  'max-concurrent-requests': {
    type: 'integer',
    default: SERVICE_DEFAULTS.maxConcurrentRequests,
    env: ['TRAINYARD_MAX_CONCURRENT_REQUESTS'],
    flag: '--max-concurrent-requests <n>',
    usedBy: 'service',
    summary: 'requests of one key that may run at once, streams included; beyond it 429; default 2000',
    parse: (text) => parseWhole(text, SERVICE_BOUNDS.maxConcurrentRequests),
  },
  'requests-per-minute': {
    type: 'integer',
    default: null,
    env: ['TRAINYARD_REQUESTS_PER_MINUTE'],
    flag: '--requests-per-minute <n>',
    usedBy: 'service',
    summary: 'requests that one key may send in a minute; beyond it 429; default no limit',
    parse: (text) => parseWhole(text, SERVICE_BOUNDS.requestsPerMinute),
  },
  'max-queued-jobs': {
    type: 'integer',
    default: SERVICE_DEFAULTS.maxQueuedJobs,
    env: ['TRAINYARD_MAX_QUEUED_JOBS'],
    flag: '--max-queued-jobs <n>',
    usedBy: 'service',
    summary: 'training jobs of one entity that may wait or run; beyond it 429; default 1000',
    parse: (text) => parseWhole(text, SERVICE_BOUNDS.maxQueuedJobs),
  },
  'max-request-body': {
    type: 'size',
    default: SERVICE_DEFAULTS.maxRequestBodyBytes,
    unit: 'bytes',
    env: ['TRAINYARD_MAX_REQUEST_BODY'],
    flag: '--max-request-body <size>',
    usedBy: 'service',
    summary: 'largest body of requests that no other limit is for; default 8MB',
    parse: (text) => parseSize(text, SERVICE_BOUNDS.maxRequestBodyBytes),
  },
  'max-chat-body': {
    type: 'size',
    default: SERVICE_DEFAULTS.maxChatBodyBytes,
    unit: 'bytes',
    env: ['TRAINYARD_MAX_CHAT_BODY'],
    flag: '--max-chat-body <size>',
    usedBy: 'service',
    summary: 'largest body of a request for an answer; default 16MB',
    parse: (text) => parseSize(text, SERVICE_BOUNDS.maxChatBodyBytes),
  },
  'max-trajectories-body': {
    type: 'size',
    default: SERVICE_DEFAULTS.maxTrajectoriesBytes,
    unit: 'bytes',
    env: ['TRAINYARD_MAX_TRAJECTORIES_BODY'],
    flag: '--max-trajectories-body <size>',
    usedBy: 'service',
    summary: 'largest body of trajectory groups; costs disk, not memory; default 1GB',
    parse: (text) => parseSize(text, SERVICE_BOUNDS.maxTrajectoriesBytes),
  },
  'max-trajectory-group': {
    type: 'size',
    default: SERVICE_DEFAULTS.maxGroupBytes,
    unit: 'bytes',
    env: ['TRAINYARD_MAX_TRAJECTORY_GROUP'],
    flag: '--max-trajectory-group <size>',
    usedBy: 'service',
    summary: 'largest trajectory group, which is read in memory; default 128MB',
    parse: (text) => parseSize(text, SERVICE_BOUNDS.maxGroupBytes),
  },
  'max-upload': {
    type: 'size',
    default: SERVICE_DEFAULTS.maxUploadBytes,
    unit: 'bytes',
    env: ['TRAINYARD_MAX_UPLOAD'],
    flag: '--max-upload <size>',
    usedBy: 'service',
    summary: 'largest uploaded file; default 16GB',
    parse: (text) => parseSize(text, SERVICE_BOUNDS.maxUploadBytes),
  },
  'max-unfinished-bodies': {
    type: 'size',
    default: SERVICE_DEFAULTS.maxUnfinishedBytes,
    unit: 'bytes',
    env: ['TRAINYARD_MAX_UNFINISHED_BODIES'],
    flag: '--max-unfinished-bodies <size>',
    usedBy: 'service',
    summary: 'request bodies on disk that are not read to their end yet, together; beyond it 503; default 4GB',
    parse: (text) => parseSize(text, SERVICE_BOUNDS.maxUnfinishedBytes),
  },
  'kv-cache-memory': {
    type: 'size',
    default: null,
    unit: 'bytes',
    env: ['TRAINYARD_KV_CACHE_MEMORY'],
    flag: '--kv-cache-memory <size>',
    usedBy: 'service',
    summary:
      "memory of a base model's keys and values; half of it may stay for later prompts; default a quarter of the machine's",
    parse: (text) => parseSize(text, SERVICE_BOUNDS.kvCacheBytes),
  },
  speculation: {
    type: 'choice',
    default: SERVICE_DEFAULTS.speculation,
    env: ['TRAINYARD_SPECULATION'],
    flag: `--speculation <${SPECULATIONS.join('|')}>`,
    usedBy: 'service',
    summary: 'auto computes several tokens at a time where an answer repeats earlier text; the answers are the same',
    parse: (text) => parseChoice(text, SPECULATIONS),
  },
  'training-data-root': {
    type: 'path',
    default: null,
    env: ['TRAINYARD_TRAINING_DATA_ROOT'],
    flag: '--training-data-root <dir>',
    usedBy: 'service',
    summary: 'folder below which training_data_url may name file: URLs; default none',
    parse: parseText,
  },
  'allowed-hosts': {
    type: 'list',
    default: [],
    env: ['TRAINYARD_ALLOWED_HOSTS'],
    flag: '--allowed-host <name>',
    usedBy: 'service',
    summary: 'host name clients may call this service by, besides loopback ones; repeatable',
    parse: parseList,
  },
  'webhook-hosts': {
    type: 'list',
    default: [],
    env: ['TRAINYARD_WEBHOOK_HOSTS'],
    flag: '--webhook-host <host>',
    usedBy: 'service',
    summary: 'host webhooks may be sent to although it is private or plain http; repeatable',
    parse: parseList,
  },
  'log-level': {
    type: 'choice',
    default: SERVICE_DEFAULTS.logLevel,
    env: ['TRAINYARD_LOG'],
    flag: `--log-level <${LOG_LEVELS.join('|')}>`,
    usedBy: 'service',
    summary: 'least severe log line to print',
    parse: (text) => parseChoice(text, LOG_LEVELS),
  },
  'log-format': {
    type: 'choice',
    default: SERVICE_DEFAULTS.logFormat,
    env: ['TRAINYARD_LOG_FORMAT'],
    flag: `--log-format <${LOG_FORMATS.join('|')}>`,
    usedBy: 'service',
    summary: 'log lines; auto is a short line per request on a terminal, without reads, and JSON elsewhere',
    parse: (text) => parseChoice(text, LOG_FORMATS),
  },
}

/** Keys in table order, for help and `config list`. */
export const settingKeys: readonly SettingKey[] = Object.keys(settings).filter(isSettingKey)

/** Whether `key` is a row of the table. */
export function isSettingKey(key: string): key is SettingKey {
  return Object.hasOwn(settings, key)
}

/**
 * Parses one setting's text.
 *
 * @param origin where the text came from, for the message: a flag, a variable or a file
 * @throws {InvalidRequestError} `invalid_setting` with what was expected and got
 */
export function parseSetting<K extends SettingKey>(key: K, text: string, origin: string): SettingValues[K] {
  try {
    return settings[key].parse(text)
  } catch (cause) {
    const expected = cause instanceof ExpectedError ? cause.message : 'a valid value'
    const got = settings[key].isSecret === true ? '' : `, got "${text}"`
    throw new InvalidRequestError('invalid_setting', `${origin} must be ${expected}${got}`, { param: key, cause })
  }
}
