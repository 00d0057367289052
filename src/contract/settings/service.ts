/**
 * The settings of a service, one row each: what it is called in the library (the name), in the config file, as a flag and as a
 * variable (its key), its type, default, bounds and sentence. The options of `createService` and their types, the flags of `serve`
 * with their help, the environment, the keys of the config file and the table in the documentation follow from these rows, in
 * this order. A new setting is a row here, and its use as `settings.<name>` in `service/assembly/`.
 *
 * Plain data; knows neither how texts are read (`cli/config/`) nor what a setting does.
 */
import { LIMIT_SETTINGS } from './limits.js'
import { defineSettings, MAX_DURATION_MS, type SettingValue } from './setting.js'

/** Weights while serving. */
export const PRECISIONS = ['auto', 'f32', 'int8', 'int4'] as const
export type Precision = (typeof PRECISIONS)[number]

/** Whether answers that repeat what was said are computed several tokens at a time. */
export const SPECULATIONS = ['auto', 'off'] as const
export type Speculation = (typeof SPECULATIONS)[number]

/** Who gets a row first: who came first, or who has the lower `priority`. */
export const SCHEDULING_POLICIES = ['fcfs', 'priority'] as const
export type SchedulingPolicy = (typeof SCHEDULING_POLICIES)[number]

/** What computes gradients: ONNX Runtime in the worker, or PyTorch in a process of its own. */
export const TRAINER_NAMES = ['onnx', 'torch'] as const
export type TrainerName = (typeof TRAINER_NAMES)[number]
/** The same as it is set: `auto` is PyTorch where it has a graphics card. */
export const TRAINERS = [...TRAINER_NAMES, 'auto'] as const
export type TrainerSetting = (typeof TRAINERS)[number]

/** Who computes answers: this machine, engine nodes, or this machine where no node does. */
export const ENGINE_SETTINGS = ['local', 'remote', 'auto'] as const
export type EngineSetting = (typeof ENGINE_SETTINGS)[number]

/** What computes on an engine node. */
export const NODE_ENGINES = ['onnx', 'vllm'] as const
export type NodeEngineName = (typeof NODE_ENGINES)[number]

/** What computes: the processor, an accelerator by the interface it is reached through, or what is right and faster. */
export const DEVICE_SETTINGS = ['cpu', 'webgpu', 'cuda', 'auto'] as const
export type DeviceSetting = (typeof DEVICE_SETTINGS)[number]

const MB = 1024 ** 2
const GB = 1024 ** 3
const TB = 1024 ** 4
const SECOND = 1000
const MINUTE = 60_000
const HOUR = 3_600_000
const DAY = 86_400_000

export const SERVICE_SETTINGS = defineSettings({
  /** Address to listen on. */
  host: { key: 'host', type: 'address', default: '127.0.0.1', isCommon: true, summary: 'address to listen on' },
  /** 0 takes any free port. */
  port: {
    key: 'port',
    type: 'integer',
    default: 8642,
    bounds: { min: 0, max: 65_535 },
    hidesDefault: true,
    isCommon: true,
    summary: 'port to listen on, 0 for any free one',
  },
  dataDir: {
    key: 'data-dir',
    type: 'path',
    default: null,
    whenAbsent: '$XDG_DATA_HOME/trainyard',
    isCommon: true,
    summary: 'where models, checkpoints and jobs live',
  },
  /** `postgres://user@host:5432/name`: rows are kept there; the password is in PGPASSWORD or PGPASSFILE. Default null: a file in the data directory. */
  database: {
    key: 'database',
    type: 'text',
    default: null,
    flag: '--database <address>',
    whenAbsent: 'a file in the data directory',
    summary:
      'where rows are kept: postgres://user@host:5432/name, PostgreSQL 15 or newer, with its password in PGPASSWORD or PGPASSFILE',
  },
  /** Connections to PostgreSQL that requests share. */
  databaseConnections: {
    key: 'database-connections',
    type: 'integer',
    default: 10,
    bounds: { min: 2, max: 500 },
    summary: 'connections to PostgreSQL that requests share',
  },
  /**
   * No other server works with the PostgreSQL database: blobs may lie in the data directory, which no other could read. Default false: several
   * may, and blobs must be in a bucket.
   */
  singleServer: {
    key: 'single-server',
    type: 'boolean',
    default: false,
    summary: 'keep other servers out of the PostgreSQL database; blobs may then lie in the data directory',
  },
  /** `s3://bucket/prefix?endpoint=…`: blobs are objects there; keys are in the environment or a file. Default null: the data directory. */
  blobStore: {
    key: 'blob-store',
    type: 'text',
    default: null,
    flag: '--blob-store <address>',
    whenAbsent: 'the data directory',
    summary:
      'where files, checkpoints and training data lie: s3://bucket/prefix, with ?endpoint=https://host&style=path for other stores than AWS',
  },
  baseModels: {
    key: 'base-models',
    type: 'list',
    default: [],
    flag: '--base-model <path>',
    isCommon: true,
    summary: 'weights to serve and train: a folder or GGUF file, name=path, or trainyard/spark',
  },
  /** Threads of the engine and of training; null for all cores. */
  threads: {
    key: 'threads',
    type: 'integer',
    default: null,
    bounds: { min: 1, max: 1024 },
    whenAbsent: 'all cores, up to 50M parameters half',
    summary: 'threads for inference and training each',
  },
  /** Weights while serving. */
  precision: {
    key: 'precision',
    type: 'choice',
    default: 'auto',
    choices: PRECISIONS,
    summary: 'weights while serving; auto is f32 for small models and measures f32 against int8 once for others',
  },
  /** What computes answers and gradients on this machine. */
  device: {
    key: 'device',
    type: 'choice',
    default: 'cpu',
    choices: DEVICE_SETTINGS,
    summary:
      'what computes here; an accelerator is compared with the CPU at the start and refused where it is wrong, auto takes one that is right and faster',
  },
  /** Who computes answers. */
  engines: {
    key: 'engines',
    type: 'choice',
    default: 'local',
    choices: ENGINE_SETTINGS,
    summary:
      'who computes answers: this machine, engine nodes (trainyard engine-node), or with auto this machine where no node serves the model',
  },
  /** Jobs that train side by side; 0 trains nothing here. Default null: as many as fill the cores. */
  trainWorkers: {
    key: 'train-workers',
    type: 'integer',
    default: null,
    bounds: { min: 0, max: 64 },
    whenAbsent: '2, on one core 1',
    summary: 'training jobs and sessions that run side by side, as far as memory allows',
  },
  /** `ray://head:8265?…`: workers on other machines that are started and ended as there is work. Default null: only those that somebody starts. */
  workers: {
    key: 'workers',
    type: 'text',
    default: null,
    flag: '--workers <address>',
    whenAbsent: 'those that somebody starts',
    summary:
      'a Ray cluster that gets workers as there is work: ray://head:8265?server=http://this-server:8642&key-file=/on/each/node&max=8&gpus=1',
  },
  /** What computes gradients. */
  trainer: {
    key: 'trainer',
    type: 'choice',
    default: 'onnx',
    choices: TRAINERS,
    summary:
      'what computes gradients; torch is PyTorch in a Python process, auto is torch where it has a graphics card',
  },
  /** Interpreter that has PyTorch. */
  python: {
    key: 'python',
    type: 'text',
    default: 'python3',
    summary: 'interpreter of Python that has PyTorch, for --trainer torch',
  },
  /** How long requests that run may go on when the server is stopped. */
  drainMs: {
    key: 'drain',
    type: 'duration',
    default: MINUTE,
    bounds: { min: 0, max: MAX_DURATION_MS },
    summary: 'when stopped, how long answers may go on; new requests are refused meanwhile',
  },
  /** Silence after which a job whose worker is not known to live is given away. */
  jobLeaseMs: {
    key: 'job-lease',
    type: 'duration',
    default: 30 * SECOND,
    bounds: { min: SECOND, max: HOUR },
    summary:
      'silence after which a job runs again: this long when its worker is not known to live, ten times as long when it is',
  },
  /** How long a worker may take from its start to its first request. */
  workerStartTimeoutMs: {
    key: 'worker-start-timeout',
    type: 'duration',
    default: 10 * MINUTE,
    bounds: { min: SECOND, max: MAX_DURATION_MS },
    summary: 'a training worker that has not reported by then is started again',
  },
  /** How long a worker that answers may make no progress. */
  workerStallTimeoutMs: {
    key: 'worker-stall-timeout',
    type: 'duration',
    default: HOUR,
    bounds: { min: SECOND, max: MAX_DURATION_MS },
    summary: 'a training worker that answers but does nothing for so long is started again',
  },
  /** How long a training worker without a job stays; 0: not at all. */
  keepWorkerMs: {
    key: 'keep-worker',
    type: 'duration',
    default: 10 * MINUTE,
    bounds: { min: 0, max: MAX_DURATION_MS },
    summary: 'how long an idle training worker stays loaded for the next job, 0s for not at all',
  },
  /** Least time between two points from which a job goes on when it loses its worker; 0: after every step. */
  resumeIntervalMs: {
    key: 'resume-interval',
    type: 'duration',
    default: MINUTE,
    bounds: { min: 0, max: DAY },
    hidesDefault: true,
    summary: 'least time between points from which a job goes on after a crash, for example 60s',
  },
  /** How long a training session without requests keeps its worker. */
  sessionIdleMs: {
    key: 'session-idle',
    type: 'duration',
    default: 5 * MINUTE,
    bounds: { min: SECOND, max: MAX_DURATION_MS },
    summary: 'how long a training session of a loop of your own keeps its worker without requests; its state stays',
  },
  /** Ceiling for prompt + answer, tokens; null for the model's own. */
  maxContextLength: {
    key: 'max-context-length',
    type: 'integer',
    default: null,
    bounds: { min: 16, max: 2 ** 24 },
    unit: 'tokens',
    whenAbsent: "the model's own",
    summary: 'ceiling for prompt and answer together',
  },
  /** Sequences an engine computes at once. */
  maxConcurrentSequences: {
    key: 'max-sequences',
    type: 'integer',
    default: 64,
    bounds: { min: 1, max: 1024 },
    summary: 'answers computed at once; more wait',
  },
  ...LIMIT_SETTINGS,
  /** Memory of a base model's keys and values, bytes; null for a quarter of the machine's beyond 320 MB. */
  kvCacheBytes: {
    key: 'kv-cache-memory',
    type: 'size',
    default: null,
    bounds: { min: 16 * MB, max: 1024 * TB },
    whenAbsent: "a quarter of the machine's beyond 320 MB",
    summary:
      "memory of a base model's keys and values; half of it may stay for later prompts, at most four full conversations",
  },
  /** Whether an answer that repeats earlier text is computed several tokens at a time. */
  speculation: {
    key: 'speculation',
    type: 'choice',
    default: 'auto',
    choices: SPECULATIONS,
    summary: 'auto computes several tokens at a time where an answer repeats earlier text; the answers are the same',
  },
  /** `priority`: requests with a lower `priority` go first; otherwise the field is refused. Default `fcfs`. */
  schedulingPolicy: {
    key: 'scheduling-policy',
    type: 'choice',
    default: 'fcfs',
    choices: SCHEDULING_POLICIES,
    summary: 'who is answered first: who came first, or who has the lower priority; fcfs refuses the field',
  },
  /** Whether requests may bring a chat template of their own, which then runs in the engine's process. Default false. */
  trustsRequestChatTemplate: {
    key: 'trust-request-chat-template',
    type: 'boolean',
    default: false,
    summary: 'let requests bring a chat_template, which runs in the engine within limits of time and size',
  },
  /** Folder below which `file:` training data is read; null refuses all. Default null. */
  trainingDataRoot: {
    key: 'training-data-root',
    type: 'path',
    default: null,
    whenAbsent: 'none',
    summary: 'folder below which training_data_url may name file: URLs',
  },
  /** Host names requests may carry besides loopback names and addresses. Default none. */
  allowedHosts: {
    key: 'allowed-hosts',
    type: 'list',
    default: [],
    flag: '--allowed-host <name>',
    summary: 'host name clients may call this service by, besides loopback ones',
  },
  /** Origins (`https://app.example`) of web pages whose scripts may call the service; `*`: of all. Default none. */
  allowedOrigins: {
    key: 'allowed-origins',
    type: 'list',
    default: [],
    flag: '--allowed-origin <origin>',
    summary:
      'web page (https://app.example) whose scripts may call this service, with a key they have; * for all pages',
  },
  /** Address under which clients reach the service when a proxy stands before it, with its prefix. Default null: what each request says. */
  publicUrl: {
    key: 'public-url',
    type: 'url',
    default: null,
    whenAbsent: 'what each request names',
    summary:
      'address under which clients reach the service through a proxy, with the path it adds; links in answers begin with it',
  },
  /** Proxies whose `X-Forwarded-For` counts, and `-Proto`, `-Host`, `-Prefix` where there is no `publicUrl`: addresses, networks. Default none. */
  trustedProxies: {
    key: 'trusted-proxies',
    type: 'list',
    default: [],
    flag: '--trusted-proxy <address>',
    summary: 'address or network of a proxy whose X-Forwarded-For, -Proto, -Host and -Prefix are believed',
  },
  /** Forms of tool calls in place of those that chat templates show: one for all base models, or `name=form` for one. Default none. */
  toolFormats: {
    key: 'tool-formats',
    type: 'list',
    default: [],
    flag: '--tool-format <form>',
    summary:
      'form in which models write tool calls, whatever their chat templates show: hermes, or name=hermes for one base model',
  },
  /** Hosts (`name` or `name:port`) that training data may be fetched from although they are in a private network or speak plain http. Default none. */
  trainingDataHosts: {
    key: 'training-data-hosts',
    type: 'list',
    default: [],
    flag: '--training-data-host <host>',
    summary: 'host training data may be fetched from although it is private or plain http',
  },
  /** Which checkpoints of a model stay, where it has no rule of its own: `all`, or parts of `last 5, best val/reward, every 10`. */
  keepCheckpoints: {
    key: 'keep-checkpoints',
    type: 'text',
    default: 'all',
    flag: '--keep-checkpoints <rule>',
    summary:
      'which checkpoints of a model stay, where it has no rule of its own: all, or parts of "last 5, best val/reward, every 10"',
  },
  /** Newest checkpoints of a model that keep the state of their optimizer; older ones keep the adapter alone. */
  keepOptimizers: {
    key: 'keep-optimizers',
    type: 'integer',
    default: 2,
    bounds: { min: 1, max: 1_000_000 },
    summary: 'newest checkpoints of a model that keep the state of their optimizer, two thirds of their size',
  },
  /** How long what a job trained on is kept past its end; 0: not at all. Default a week. */
  keepTrainingDataMs: {
    key: 'keep-training-data',
    type: 'duration',
    default: 7 * DAY,
    bounds: { min: 0, max: MAX_DURATION_MS },
    summary:
      'how long what jobs trained on can be read past their end, 0s for not at all; the oldest goes first beyond its size',
  },
  /** All of it together, bytes, but at most a tenth of the disk; the oldest goes first. Default 2 GB. */
  keepTrainingDataBytes: {
    key: 'keep-training-data-size',
    type: 'size',
    default: 2 * GB,
    bounds: { min: MB, max: 1024 * TB },
    summary: 'most that what jobs trained on takes, and at most a tenth of the disk',
  },
  /** How long blobs that no row names any more are kept. Default 24 hours. */
  sweepGraceMs: {
    key: 'sweep-grace',
    type: 'duration',
    default: DAY,
    bounds: { min: 2 * MINUTE, max: 365 * DAY },
    summary: 'how long blobs stay on the disk that nothing names any more',
  },
  /** Files of plugins that are no part of this package. */
  plugins: {
    key: 'plugins',
    type: 'list',
    default: [],
    flag: '--plugin <file>',
    summary: 'file of a plugin to load; "plugins" of the configuration file names it for all commands',
  },
  /** Least severe log line to print. Default `info`. */
  logLevel: {
    key: 'log-level',
    type: 'choice',
    default: 'info',
    choices: ['debug', 'info', 'warn', 'error'],
    env: ['TRAINYARD_LOG'],
    summary: 'least severe log line to print',
  },
  /** How log lines look; `auto`: short lines on a terminal, else JSON. */
  logFormat: {
    key: 'log-format',
    type: 'choice',
    default: 'auto',
    choices: ['auto', 'json', 'lines', 'pretty'],
    summary: 'log lines; auto is a short line per request on a terminal, without reads, and JSON elsewhere',
  },
})

export type ServiceSettingName = keyof typeof SERVICE_SETTINGS

/** Values by name. */
export type ServiceSettingValues = {
  readonly [Name in ServiceSettingName]: SettingValue<(typeof SERVICE_SETTINGS)[Name]>
}

/** Defaults by name. */
export const SERVICE_DEFAULTS = Object.freeze(
  Object.fromEntries(Object.entries(SERVICE_SETTINGS).map(([name, row]) => [name, row.default])),
) as { readonly [Name in ServiceSettingName]: (typeof SERVICE_SETTINGS)[Name]['default'] }

/** Project of a model that is named without one. */
export const DEFAULT_PROJECT = 'default'

/** Where a client looks for a service that nobody named. */
export const DEFAULT_SERVER_URL = `http://${SERVICE_DEFAULTS.host}:${SERVICE_DEFAULTS.port}`
