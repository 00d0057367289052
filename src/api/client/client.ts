/**
 * A typed client of the service: one method per endpoint, values exactly as the wire carries them.
 *
 * Knows nothing of terminals, files or settings. Every failure is an `AppError`: `ApiError` for a refusal,
 * `ConnectionError` or `RequestTimeoutError` when no answer came.
 */
import type { KeyScope } from '#api/wire/access/key-words.js'
import type { ApiKey, CreatedKey, DeletedKey } from '#api/wire/access/keys.js'
import type { UsageResponse } from '#api/wire/access/usage.js'
import type { ChatChunk, ChatRequestBody, ChatResponse } from '#api/wire/chat-completions.js'
import type {
  Checkpoint,
  CheckpointFiles,
  CheckpointFilesQuery,
  DeleteCheckpointsResponse,
} from '#api/wire/checkpoints.js'
import type { FileObject } from '#api/wire/files.js'
import type {
  HealthResponse,
  StorageReport,
  SystemCheckResponse,
  VerifyProgress,
  WhoamiResponse,
} from '#api/wire/health.js'
import type { JobStatus } from '#api/wire/job-words.js'
import type { List } from '#api/wire/list.js'
import type {
  AddBaseModelRequest,
  BaseModel,
  DeleteBaseModelResponse,
  DeleteModelResponse,
  Model,
  ServedModel,
} from '#api/wire/models.js'
import type { TrainingPlan } from '#api/wire/training/plan.js'
import type { TrainingEvent, TrainingJob } from '#api/wire/training-jobs.js'
import type { LogTrajectoriesResponse } from '#api/wire/trajectories.js'
import type { WebhookEvent } from '#api/wire/webhooks/webhook-words.js'
import type { CreatedWebhook, DeletedWebhook, Webhook, WebhookDelivery } from '#api/wire/webhooks/webhooks.js'
import { AppError, InvalidRequestError } from '#base/errors.js'
import { systemIds } from '#base/util/ids.js'
import type { JsonObject, JsonValue } from '#base/util/json.js'
import type { CompletionRequestBody, CompletionResponse } from '../wire/inference/completions.js'
import type {
  ApplyTemplateRequestBody,
  DetokenizeRequestBody,
  PromptResponse,
  TokenizeRequestBody,
  TokenizeResponse,
} from '../wire/inference/tokens.js'
import { ApiError, ProtocolError } from './errors.js'
import { type FollowOptions, followEvents } from './event-stream.js'
import { createHttp, type HttpOptions, type HttpRequest } from './http.js'
import type { PageQuery } from './pages.js'
import { isEventStream, readEvents } from './sse.js'

export type ClientOptions = HttpOptions

export interface ModelFilter extends PageQuery {
  readonly entity?: string | undefined
  readonly project?: string | undefined
  readonly name?: string | undefined
  readonly base_model?: string | undefined
}

export interface NewModel {
  readonly name: string
  readonly project: string
  /** Left out with `from_checkpoint`. */
  readonly base_model?: string | undefined
  /** Begin as this checkpoint: `name:step3`. */
  readonly from_checkpoint?: string | undefined
  /** Begin as this PEFT adapter: ids of two uploaded files. */
  readonly from_adapter?: { readonly adapter_config: string; readonly adapter_model: string } | undefined
  readonly entity?: string | null
  readonly return_existing?: boolean
}

export interface NewRlJob {
  readonly model_id: string
  readonly trajectory_groups: readonly JsonValue[]
  readonly experimental_config?: JsonObject | null
}

export interface NewSftJob {
  readonly model_id: string
  readonly training_data_url: string
  readonly validation_data_url?: string | null
  readonly config?: JsonObject | null
}

export interface NewKey {
  readonly scope: KeyScope
  readonly name?: string
  readonly project?: string | undefined
  readonly expires_in_seconds?: number | undefined
}

export interface UsageFilter {
  readonly from?: string | undefined
  readonly to?: string | undefined
  readonly project?: string | undefined
  readonly model?: string | undefined
}

export interface NewWebhook {
  readonly url: string
  readonly events?: readonly WebhookEvent[] | undefined
  readonly project?: string | null | undefined
}

/** A page of all that a key sees, or of what is bound to one project. */
export interface ProjectQuery extends PageQuery {
  readonly project?: string | undefined
}

export interface JobFilter extends PageQuery {
  readonly entity?: string | undefined
  readonly project?: string | undefined
  readonly model_id?: string | undefined
  readonly status?: JobStatus | undefined
}

/** Every call may be given a signal; aborting rejects with its reason. */
export interface CallOptions {
  readonly signal?: AbortSignal | undefined
}

export type Client = ReturnType<typeof createClient>

/**
 * Creates a client; opens no connection.
 *
 * @example
 * const client = createClient({ baseUrl: 'http://127.0.0.1:8642', apiKey })
 * const model = await client.models.create({ project: 'default', name: 'm', base_model: 'trainyard/spark' })
 */
export function createClient(options: ClientOptions) {
  const http = createHttp(options)
  const get = <T>(path: string, query: HttpRequest['query'] = {}, call: CallOptions = {}) =>
    http.json<T>({ method: 'GET', path, query, signal: call.signal })
  const post = <T>(path: string, json: unknown, call: CallOptions & { isLong?: boolean } = {}) =>
    http.json<T>({ method: 'POST', path, json, signal: call.signal, isLong: call.isLong === true })
  const plan = (path: string, job: unknown, call: CallOptions = {}) =>
    http.json<TrainingPlan>({
      method: 'POST',
      path,
      query: { plan: 'true' },
      json: job,
      signal: call.signal,
      isLong: true,
    })
  /** Lets the server recognise a create that arrives twice. */
  const create = <T>(path: string, json: unknown, call: CallOptions = {}) =>
    http.json<T>({
      method: 'POST',
      path,
      json,
      headers: { 'idempotency-key': systemIds.uuid() },
      signal: call.signal,
      isLong: true,
    })

  return {
    baseUrl: options.baseUrl,
    /** What an OpenAI client needs to reach the same service. */
    connection: () => ({ baseURL: `${options.baseUrl.replace(/\/+$/, '')}/v1`, apiKey: options.apiKey }),
    models: {
      list: (filter: ModelFilter = {}, call?: CallOptions) =>
        get<List<Model>>('/v1/preview/models', { ...filter }, call),
      get: (id: string, call?: CallOptions) => get<Model>(modelPath(id), {}, call),
      create: (model: NewModel, call?: CallOptions) => post<Model>('/v1/preview/models', model, call),
      delete: (id: string, call: CallOptions = {}) =>
        http.json<DeleteModelResponse>({ method: 'DELETE', path: modelPath(id), ...call }),
      /** Averages trajectory groups into metrics of the latest checkpoint; trains nothing. */
      log: (id: string, body: { split: string; trajectory_groups: readonly JsonValue[] }, call?: CallOptions) =>
        post<LogTrajectoriesResponse>(`${modelPath(id)}/log`, body, { ...call, isLong: true }),
    },
    checkpoints: {
      list: (modelId: string, query: PageQuery & { order?: 'asc' | 'desc' | undefined } = {}, call?: CallOptions) =>
        get<List<Checkpoint>>(`${modelPath(modelId)}/checkpoints`, { ...query }, call),
      delete: (modelId: string, steps: readonly number[], call: CallOptions = {}) =>
        http.json<DeleteCheckpointsResponse>({
          method: 'DELETE',
          path: `${modelPath(modelId)}/checkpoints`,
          json: { steps },
          ...call,
        }),
      /** Files of a checkpoint, or of its export in another format; step 0 is the base model. */
      files: (modelId: string, step: number, call: CallOptions & CheckpointFilesQuery = {}) =>
        http.json<CheckpointFiles>({
          method: 'GET',
          path: `${modelPath(modelId)}/checkpoints/${step}/files`,
          query: { format: call.format, precision: call.precision },
          signal: call.signal,
          isLong: true,
        }),
      /** The open body of one file; the caller checks the digest. */
      download: (modelId: string, step: number, name: string, call: CallOptions & CheckpointFilesQuery = {}) =>
        http.open({
          method: 'GET',
          path: `${modelPath(modelId)}/checkpoints/${step}/files/${segment(name)}`,
          query: { format: call.format, precision: call.precision },
          isLong: true,
          signal: call.signal,
        }),
    },
    trainingJobs: {
      list: (filter: JobFilter = {}, call?: CallOptions) => get<List<TrainingJob>>(JOBS, { ...filter }, call),
      get: (id: string, call?: CallOptions) => get<TrainingJob>(jobPath(id), {}, call),
      createRl: (job: NewRlJob, call?: CallOptions) => create<TrainingJob>(JOBS, job, call),
      createDpo: (job: NewSftJob, call?: CallOptions) => create<TrainingJob>(DPO_JOBS, job, call),
      createSft: (job: NewSftJob, call?: CallOptions) => create<TrainingJob>(SFT_JOBS, job, call),
      /** What a job would do; starts nothing. */
      planRl: (job: NewRlJob, call?: CallOptions) => plan(JOBS, job, call),
      planDpo: (job: NewSftJob, call?: CallOptions) => plan(DPO_JOBS, job, call),
      planSft: (job: NewSftJob, call?: CallOptions) => plan(SFT_JOBS, job, call),
      events: (id: string, query: PageQuery = {}, call?: CallOptions) =>
        get<List<TrainingEvent>>(`${jobPath(id)}/events`, { ...query }, call),
      /** Events until the terminal one; reconnects by itself. */
      follow: (id: string, follow?: FollowOptions) => followEvents(http, id, follow),
      cancel: (id: string, call?: CallOptions) => post<TrainingJob>(`${jobPath(id)}/cancel`, {}, call),
    },
    files: {
      /** Uploads training data; `id` is then a `training_data_url`. */
      upload(file: Blob, filename: string, call: CallOptions = {}): Promise<FileObject> {
        const form = new FormData()
        form.set('purpose', 'fine-tune')
        form.set('file', file, filename)
        return http.json<FileObject>({ method: 'POST', path: '/v1/files', form, isLong: true, ...call })
      },
    },
    chat: {
      create: (request: ChatRequestBody, call: CallOptions = {}) =>
        post<ChatResponse>('/v1/chat/completions', { ...request, stream: false }, { ...call, isLong: true }),
      stream: (request: ChatRequestBody, call: CallOptions = {}) => streamChat(request, call),
    },
    completions: {
      create: (request: CompletionRequestBody, call: CallOptions = {}) =>
        post<CompletionResponse>('/v1/completions', { ...request, stream: false }, { ...call, isLong: true }),
    },
    /** Text and tokens without generation. */
    text: {
      tokenize: (request: TokenizeRequestBody, call?: CallOptions) =>
        post<TokenizeResponse>('/tokenize', request, call),
      detokenize: (request: DetokenizeRequestBody, call?: CallOptions) =>
        post<PromptResponse>('/detokenize', request, call),
      applyTemplate: (request: ApplyTemplateRequestBody, call?: CallOptions) =>
        post<PromptResponse>('/apply-template', request, call),
    },
    servedModels: { list: (call?: CallOptions) => get<{ data: readonly ServedModel[] }>('/v1/models', {}, call) },
    keys: {
      list: (query: ProjectQuery = {}, call?: CallOptions) => get<List<ApiKey>>(KEYS, { ...query }, call),
      get: (id: string, call?: CallOptions) => get<ApiKey>(`${KEYS}/${segment(id)}`, {}, call),
      /** The answer is the only one that holds the key itself. */
      create: (key: NewKey, call?: CallOptions) => post<CreatedKey>(KEYS, key, call),
      delete: (id: string, call: CallOptions = {}) =>
        http.json<DeletedKey>({ method: 'DELETE', path: `${KEYS}/${segment(id)}`, ...call }),
    },
    webhooks: {
      list: (query: ProjectQuery = {}, call?: CallOptions) => get<List<Webhook>>(WEBHOOKS, { ...query }, call),
      /** The answer is the only one that holds the secret. */
      create: (webhook: NewWebhook, call?: CallOptions) => post<CreatedWebhook>(WEBHOOKS, webhook, call),
      delete: (id: string, call: CallOptions = {}) =>
        http.json<DeletedWebhook>({ method: 'DELETE', path: `${WEBHOOKS}/${segment(id)}`, ...call }),
      deliveries: (id: string, query: PageQuery = {}, call?: CallOptions) =>
        get<List<WebhookDelivery>>(`${WEBHOOKS}/${segment(id)}/deliveries`, { ...query }, call),
      /** The answer is the new delivery; it is sent soon. */
      redeliver: (id: string, deliveryId: string, call: CallOptions = {}) =>
        http.json<WebhookDelivery>({
          method: 'POST',
          path: `${WEBHOOKS}/${segment(id)}/deliveries/${segment(deliveryId)}/redeliver`,
          ...call,
        }),
    },
    usage: (filter: UsageFilter = {}, call?: CallOptions) => get<UsageResponse>('/v1/usage', { ...filter }, call),
    baseModels: {
      /** Names a model may be created from. */
      list: (call?: CallOptions) => get<readonly string[]>(BASE_MODELS, {}, call),
      /** All base models with what is known of them, also those that are being downloaded. */
      details: (call?: CallOptions) => get<List<BaseModel>>(`${BASE_MODELS}/details`, {}, { ...call }),
      get: (name: string, call?: CallOptions) =>
        get<BaseModel>(`${BASE_MODELS}/${encodeURI(required(name))}`, {}, call),
      /** Adds one; a download goes on after the answer, `get` tells how far it is. */
      add: (request: AddBaseModelRequest, call: CallOptions = {}) =>
        post<BaseModel>(BASE_MODELS, request, { ...call, isLong: true }),
      delete: (name: string, call: CallOptions = {}) =>
        http.json<DeleteBaseModelResponse>({
          method: 'DELETE',
          path: `${BASE_MODELS}/${encodeURI(required(name))}`,
          ...call,
        }),
    },
    health: (call?: CallOptions) => get<HealthResponse>('/v1/health', {}, call),
    /** The checks' results, also when the server answers 503 because one failed. */
    systemCheck: (call: CallOptions = {}) => readSystemCheck(call),
    whoami: (call?: CallOptions) => get<WhoamiResponse>('/v1/whoami', {}, call),
    /** Progress about once a second, and the report at last. */
    verify: (call: CallOptions = {}) => verifyStorage(call),
  }

  async function* verifyStorage(call: CallOptions): AsyncGenerator<VerifyProgress | StorageReport> {
    const response = await http.open({ method: 'POST', path: '/v1/preview/verify', isLong: true, ...call })
    if (!isEventStream(response)) throw new ProtocolError('the server did not stream its answer')
    for await (const { event, data } of readEvents(response)) {
      const value: unknown = JSON.parse(data)
      if (event === 'error') throw verifyError(value)
      yield value as VerifyProgress | StorageReport
      if (event === 'storage_report') return
    }
    throw new ProtocolError('the answer ended before it was complete')
  }

  async function* streamChat(request: ChatRequestBody, call: CallOptions): AsyncGenerator<ChatChunk> {
    const response = await http.open({
      method: 'POST',
      path: '/v1/chat/completions',
      json: { ...request, stream: true, stream_options: { include_usage: true } },
      headers: { accept: 'text/event-stream' },
      isLong: true,
      ...call,
    })
    if (!isEventStream(response)) throw new ProtocolError('the server did not stream its answer')
    for await (const message of readEvents(response)) {
      if (message.data === '[DONE]') return
      yield parseChunk(message.data)
    }
    throw new ProtocolError('the answer ended before it was complete')
  }

  async function readSystemCheck(call: CallOptions): Promise<SystemCheckResponse> {
    try {
      return await http.json<SystemCheckResponse>({ method: 'GET', path: '/v1/system-check', maxRetries: 0, ...call })
    } catch (error) {
      const body = error instanceof ApiError ? error.body : null
      if (isSystemCheck(body)) return body
      throw error
    }
  }
}

const BASE_MODELS = '/v1/preview/base-models'
const JOBS = '/v1/preview/training-jobs'
const SFT_JOBS = '/v1/preview/sft-training-jobs'
const DPO_JOBS = '/v1/preview/dpo-training-jobs'
const KEYS = '/v1/preview/keys'
const WEBHOOKS = '/v1/preview/webhooks'

function verifyError(value: unknown): AppError {
  const { error } = value as { readonly error?: { readonly code?: unknown; readonly message?: unknown } }
  return new AppError('internal', String(error?.code), String(error?.message))
}

/** A part of a path. Without its id, the path of one thing is that of the list it is in. */
function segment(id: string): string {
  return encodeURIComponent(required(id))
}

function required(name: string): string {
  if (name !== '') return name
  throw new InvalidRequestError('missing_id', 'an id or name is empty, expected text that names one thing')
}

function modelPath(id: string): string {
  return `/v1/preview/models/${segment(id)}`
}

function jobPath(id: string): string {
  return `${JOBS}/${segment(id)}`
}

function isSystemCheck(body: unknown): body is SystemCheckResponse {
  return typeof body === 'object' && body !== null && 'cpu_queue' in body && 'gpu_queue' in body && 'database' in body
}

/** A stream that fails half-way ends with an error object instead of a chunk. */
function parseChunk(data: string): ChatChunk {
  let chunk: unknown
  try {
    chunk = JSON.parse(data)
  } catch (cause) {
    throw new ProtocolError('the answer carried something that is not JSON', cause)
  }
  if (typeof chunk === 'object' && chunk !== null && 'error' in chunk) {
    const { error } = chunk
    const code = typeof error === 'object' && error !== null && 'code' in error ? Number(error.code) : Number.NaN
    const status = code >= 400 && code < 600 ? code : 500
    throw new ApiError({ status, body: chunk, requestId: null, retryAfterMs: null })
  }
  return chunk as ChatChunk
}
