/**
 * A typed client of the service: one method per endpoint, values exactly as the wire carries them.
 *
 * Knows nothing of terminals, files or settings. Every failure is an `AppError`: `ApiError` for a refusal,
 * `ConnectionError` or `RequestTimeoutError` when no answer came.
 */

import { AppError, InvalidRequestError } from '#base/errors/errors.js'
import { systemIds } from '#base/util/ids.js'
import type { JsonObject, JsonValue } from '#base/util/json.js'
import type { KeyScope } from '#contract/wire/access/key-words.js'
import type { DeletedKey } from '#contract/wire/access/keys.js'
import type { ChatChunk, ChatRequestBody } from '#contract/wire/chat-completions.js'
import type { CheckpointFilesQuery } from '#contract/wire/checkpoints.js'
import type { FileObject } from '#contract/wire/files.js'
import type { StorageReport, SystemCheckResponse, VerifyProgress } from '#contract/wire/health.js'
import type { JobStatus } from '#contract/wire/job-words.js'
import type { AddBaseModelRequest, DeleteBaseModelResponse } from '#contract/wire/models.js'
import type { WebhookEvent } from '#contract/wire/webhooks/webhook-words.js'
import type { DeletedWebhook } from '#contract/wire/webhooks/webhooks.js'
import type { CompletionRequestBody } from '../../contract/wire/inference/completions.js'
import type {
  ApplyTemplateRequestBody,
  DetokenizeRequestBody,
  TokenizeRequestBody,
} from '../../contract/wire/inference/tokens.js'
import * as answers from './answers.js'
import { ApiError, ProtocolError } from './errors.js'
import { type FollowOptions, followEvents } from './event-stream.js'
import { assertAnswer, createHttp, type HttpOptions, type HttpRequest, parseAnswer, sourceOf } from './http.js'
import type { PageQuery } from './pages.js'
import type { Check } from './shape.js'
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
  const get = <T>(check: Check<T>, path: string, query: HttpRequest['query'] = {}, call: CallOptions = {}) =>
    http.json({ method: 'GET', path, query, signal: call.signal }, check)
  const post = <T>(check: Check<T>, path: string, json: unknown, call: CallOptions & { isLong?: boolean } = {}) =>
    http.json({ method: 'POST', path, json, signal: call.signal, isLong: call.isLong === true }, check)
  const plan = (path: string, job: unknown, call: CallOptions = {}) =>
    http.json(
      { method: 'POST', path, query: { plan: 'true' }, json: job, signal: call.signal, isLong: true },
      answers.trainingPlan,
    )
  /** Lets the server recognise a create that arrives twice. */
  const create = (path: string, json: unknown, call: CallOptions = {}) => {
    const headers = { 'idempotency-key': systemIds.uuid() }
    return http.json({ method: 'POST', path, json, headers, signal: call.signal, isLong: true }, answers.trainingJob)
  }

  return {
    baseUrl: options.baseUrl,
    /** What an OpenAI client needs to reach the same service. */
    connection: () => ({ baseURL: `${options.baseUrl.replace(/\/+$/, '')}/v1`, apiKey: options.apiKey }),
    models: {
      list: (filter: ModelFilter = {}, call?: CallOptions) =>
        get(answers.pageOf(answers.model), '/v1/preview/models', { ...filter }, call),
      get: (id: string, call?: CallOptions) => get(answers.model, modelPath(id), {}, call),
      create: (model: NewModel, call?: CallOptions) => post(answers.model, '/v1/preview/models', model, call),
      delete: (id: string, call: CallOptions = {}) =>
        http.json({ method: 'DELETE', path: modelPath(id), ...call }, answers.deletedModel),
      /** Averages trajectory groups into metrics of the latest checkpoint; trains nothing. */
      log: (id: string, body: { split: string; trajectory_groups: readonly JsonValue[] }, call?: CallOptions) =>
        post(answers.loggedTrajectories, `${modelPath(id)}/log`, body, { ...call, isLong: true }),
    },
    checkpoints: {
      list: (modelId: string, query: PageQuery & { order?: 'asc' | 'desc' | undefined } = {}, call?: CallOptions) =>
        get(answers.pageOf(answers.checkpoint), `${modelPath(modelId)}/checkpoints`, { ...query }, call),
      delete: (modelId: string, steps: readonly number[], call: CallOptions = {}) =>
        http.json(
          {
            method: 'DELETE',
            path: `${modelPath(modelId)}/checkpoints`,
            json: { steps },
            ...call,
          },
          answers.deletedCheckpoints,
        ),
      /** Files of a checkpoint, or of its export in another format; step 0 is the base model. */
      files: (modelId: string, step: number, call: CallOptions & CheckpointFilesQuery = {}) =>
        http.json(
          {
            method: 'GET',
            path: `${modelPath(modelId)}/checkpoints/${step}/files`,
            query: { format: call.format, precision: call.precision },
            signal: call.signal,
            isLong: true,
          },
          answers.checkpointFiles,
        ),
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
      list: (filter: JobFilter = {}, call?: CallOptions) =>
        get(answers.pageOf(answers.trainingJob), JOBS, { ...filter }, call),
      get: (id: string, call?: CallOptions) => get(answers.trainingJob, jobPath(id), {}, call),
      createRl: (job: NewRlJob, call?: CallOptions) => create(JOBS, job, call),
      createDpo: (job: NewSftJob, call?: CallOptions) => create(DPO_JOBS, job, call),
      createSft: (job: NewSftJob, call?: CallOptions) => create(SFT_JOBS, job, call),
      /** What a job would do; starts nothing. */
      planRl: (job: NewRlJob, call?: CallOptions) => plan(JOBS, job, call),
      planDpo: (job: NewSftJob, call?: CallOptions) => plan(DPO_JOBS, job, call),
      planSft: (job: NewSftJob, call?: CallOptions) => plan(SFT_JOBS, job, call),
      events: (id: string, query: PageQuery = {}, call?: CallOptions) =>
        get(answers.pageOf(answers.trainingEvent), `${jobPath(id)}/events`, { ...query }, call),
      /** Events until the terminal one; reconnects by itself. */
      follow: (id: string, follow?: FollowOptions) => followEvents(http, id, follow),
      cancel: (id: string, call?: CallOptions) => post(answers.trainingJob, `${jobPath(id)}/cancel`, {}, call),
    },
    files: {
      /** Uploads training data; `id` is then a `training_data_url`. Files of another purpose are not read as rows. */
      upload(
        file: Blob,
        filename: string,
        { purpose = 'fine-tune', ...call }: CallOptions & { readonly purpose?: 'fine-tune' | 'user_data' } = {},
      ): Promise<FileObject> {
        const form = new FormData()
        form.set('purpose', purpose)
        form.set('file', file, filename)
        return http.json({ method: 'POST', path: '/v1/files', form, isLong: true, ...call }, answers.uploadedFile)
      },
    },
    chat: {
      create: (request: ChatRequestBody, call: CallOptions = {}) =>
        post(answers.chatResponse, '/v1/chat/completions', { ...request, stream: false }, { ...call, isLong: true }),
      stream: (request: ChatRequestBody, call: CallOptions = {}) => streamChat(request, call),
    },
    completions: {
      create: (request: CompletionRequestBody, call: CallOptions = {}) =>
        post(answers.completion, '/v1/completions', { ...request, stream: false }, { ...call, isLong: true }),
    },
    /** Text and tokens without generation. */
    text: {
      tokenize: (request: TokenizeRequestBody, call?: CallOptions) => post(answers.tokens, '/tokenize', request, call),
      detokenize: (request: DetokenizeRequestBody, call?: CallOptions) =>
        post(answers.prompt, '/detokenize', request, call),
      applyTemplate: (request: ApplyTemplateRequestBody, call?: CallOptions) =>
        post(answers.prompt, '/apply-template', request, call),
    },
    servedModels: { list: (call?: CallOptions) => get(answers.servedModels, '/v1/models', {}, call) },
    keys: {
      list: (query: ProjectQuery = {}, call?: CallOptions) =>
        get(answers.pageOf(answers.apiKey), KEYS, { ...query }, call),
      get: (id: string, call?: CallOptions) => get(answers.apiKey, `${KEYS}/${segment(id)}`, {}, call),
      /** The answer is the only one that holds the key itself. */
      create: (key: NewKey, call?: CallOptions) => post(answers.createdKey, KEYS, key, call),
      delete: (id: string, call: CallOptions = {}) =>
        http.json<DeletedKey>({ method: 'DELETE', path: `${KEYS}/${segment(id)}`, ...call }, answers.deletion),
    },
    webhooks: {
      list: (query: ProjectQuery = {}, call?: CallOptions) =>
        get(answers.pageOf(answers.webhook), WEBHOOKS, { ...query }, call),
      /** The answer is the only one that holds the secret. */
      create: (webhook: NewWebhook, call?: CallOptions) => post(answers.createdWebhook, WEBHOOKS, webhook, call),
      delete: (id: string, call: CallOptions = {}) =>
        http.json<DeletedWebhook>({ method: 'DELETE', path: `${WEBHOOKS}/${segment(id)}`, ...call }, answers.deletion),
      deliveries: (id: string, query: PageQuery = {}, call?: CallOptions) =>
        get(answers.pageOf(answers.webhookDelivery), `${WEBHOOKS}/${segment(id)}/deliveries`, { ...query }, call),
      /** The answer is the new delivery; it is sent soon. */
      redeliver: (id: string, deliveryId: string, call: CallOptions = {}) =>
        http.json(
          {
            method: 'POST',
            path: `${WEBHOOKS}/${segment(id)}/deliveries/${segment(deliveryId)}/redeliver`,
            ...call,
          },
          answers.webhookDelivery,
        ),
    },
    usage: (filter: UsageFilter = {}, call?: CallOptions) => get(answers.usageReport, '/v1/usage', { ...filter }, call),
    baseModels: {
      /** Names a model may be created from. */
      list: (call?: CallOptions) => get(answers.baseModelNames, BASE_MODELS, {}, call),
      /** All base models with what is known of them, also those that are being downloaded. */
      details: (call?: CallOptions) =>
        get(answers.pageOf(answers.baseModel), `${BASE_MODELS}/details`, {}, { ...call }),
      get: (name: string, call?: CallOptions) =>
        get(answers.baseModelFacts, `${BASE_MODELS}/${encodeURI(required(name))}`, {}, call),
      /** Adds one; a download goes on after the answer, `get` tells how far it is. */
      add: (request: AddBaseModelRequest, call: CallOptions = {}) =>
        post(answers.baseModel, BASE_MODELS, request, { ...call, isLong: true }),
      delete: (name: string, call: CallOptions = {}) =>
        http.json<DeleteBaseModelResponse>(
          {
            method: 'DELETE',
            path: `${BASE_MODELS}/${encodeURI(required(name))}`,
            ...call,
          },
          answers.deletion,
        ),
    },
    health: (call?: CallOptions) => get(answers.health, '/v1/health', {}, call),
    /** The checks' results, also when the server answers 503 because one failed. */
    systemCheck: (call: CallOptions = {}) => readSystemCheck(call),
    whoami: (call?: CallOptions) => get(answers.whoami, '/v1/whoami', {}, call),
    /** Progress about once a second, and the report at last. */
    verify: (call: CallOptions = {}) => verifyStorage(call),
  }

  async function* verifyStorage(call: CallOptions): AsyncGenerator<VerifyProgress | StorageReport> {
    const path = '/v1/preview/verify'
    const response = await http.open({ method: 'POST', path, isLong: true, ...call })
    const source = sourceOf(options.baseUrl, { method: 'POST', path })
    assertStream(response, source)
    for await (const { event, data } of readEvents(response)) {
      if (event === 'error') throw verifyError(parseAnswer(data, { source }))
      if (event !== 'storage_report') yield parseAnswer(data, { source, check: answers.verifyProgress })
      else return yield parseAnswer(data, { source, check: answers.storageReport })
    }
    throw new ProtocolError(`${source} ended the answer before it was complete`)
  }

  async function* streamChat(request: ChatRequestBody, call: CallOptions): AsyncGenerator<ChatChunk> {
    const path = '/v1/chat/completions'
    const response = await http.open({
      method: 'POST',
      path,
      json: { ...request, stream: true, stream_options: { include_usage: true } },
      headers: { accept: 'text/event-stream' },
      isLong: true,
      ...call,
    })
    const source = sourceOf(options.baseUrl, { method: 'POST', path })
    assertStream(response, source)
    for await (const message of readEvents(response)) {
      if (message.data === '[DONE]') return
      yield parseChunk(message.data, source)
    }
    throw new ProtocolError(`${source} ended the answer before it was complete`)
  }

  async function readSystemCheck(call: CallOptions): Promise<SystemCheckResponse> {
    try {
      return await http.json({ method: 'GET', path: '/v1/system-check', maxRetries: 0, ...call }, answers.systemCheck)
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
  const error = typeof value === 'object' && value !== null && 'error' in value ? value.error : null
  const { code, message } = (error ?? {}) as { readonly code?: unknown; readonly message?: unknown }
  return new AppError('internal', String(code), String(message))
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
  return answers.systemCheck.find(body, '') === null
}

/** @throws {ProtocolError} for an answer in one piece where events were asked for */
function assertStream(response: Response, source: string): void {
  if (isEventStream(response)) return
  const type = response.headers.get('content-type') ?? 'nothing'
  throw new ProtocolError(`${source} answered with ${type}, expected a stream of events`)
}

/** A stream that fails half-way ends with an error object instead of a chunk. */
function parseChunk(data: string, source: string): ChatChunk {
  const chunk = parseAnswer<unknown>(data, { source })
  if (typeof chunk === 'object' && chunk !== null && 'error' in chunk) {
    const { error } = chunk
    const code = typeof error === 'object' && error !== null && 'code' in error ? Number(error.code) : Number.NaN
    const status = code >= 400 && code < 600 ? code : 500
    throw new ApiError({ status, body: chunk, requestId: null, retryAfterMs: null })
  }
  return assertAnswer(chunk, { source, check: answers.chatChunk })
}
