/**
 * A typed client of the service: one method per endpoint, values exactly as the wire carries them.
 *
 * Knows nothing of terminals, files or settings. Every failure is an `AppError`: `ApiError` for a refusal,
 * `ConnectionError` or `RequestTimeoutError` when no answer came.
 */

import { AppError } from '#base/errors/errors.js'
import { systemIds } from '#base/util/ids.js'
import type { BodyKey, GivenBody, GivenQuery } from '#contract/endpoints/table.js'
import type { Activity } from '#contract/wire/activity.js'
import type { ChatChunk, ChatRequestBody } from '#contract/wire/chat-completions.js'
import type { FileObject } from '#contract/wire/files.js'
import type { StorageReport, SystemCheckResponse, VerifyProgress } from '#contract/wire/health.js'
import type { CompletionPrompt } from '#contract/wire/inference/completions.js'
import * as answers from './answers.js'
import { type CallOptions, createCalls, requestOf } from './calls.js'
import { baseModelFiles, engineNodes } from './engine-node-answers.js'
import { ApiError, ProtocolError } from './errors.js'
import { type FollowOptions, followEvents } from './event-stream.js'
import { assertAnswer, createHttp, type HttpOptions, parseAnswer, sourceOf } from './http.js'
import { createMarkCalls } from './marks.js'
import { createRolloutCalls } from './rollouts.js'
import { isEventStream, readEvents } from './sse.js'
import { createTinkerCalls } from './tinker.js'
import * as watched from './watch-answers.js'

export type { CallOptions } from './calls.js'
export type ClientOptions = HttpOptions
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
  const { ask, plain, one, list, listOf, send } = createCalls(http)
  /** Lets the server recognise a create that arrives twice. */
  const create =
    <K extends JobKey>(key: K) =>
    (job: GivenBody<K>, call: CallOptions = {}) => {
      const headers = { 'idempotency-key': systemIds.uuid() }
      return http.json(requestOf(key, { json: job }, { headers, isLong: true, ...call }), answers.trainingJob)
    }
  const plan =
    <K extends JobKey>(key: K) =>
    (job: GivenBody<K>, call: CallOptions = {}) =>
      http.json(requestOf(key, { query: { plan: true }, json: job }, { isLong: true, ...call }), answers.trainingPlan)

  return {
    baseUrl: options.baseUrl,
    /** What an OpenAI client needs to reach the same service. */
    connection: () => ({ baseURL: `${options.baseUrl.replace(/\/+$/, '')}/v1`, apiKey: options.apiKey }),
    models: {
      list: list('GET /v1/preview/models', answers.pageOf(answers.listedModel)),
      get: one('GET /v1/preview/models/{model_id}', answers.model),
      create: send('POST /v1/preview/models', answers.model),
      delete: one('DELETE /v1/preview/models/{model_id}', answers.deletedModel),
      /** Which of its checkpoints stay. */
      keepRule: one('GET /v1/preview/models/{model_id}/keep-rule', watched.keepRule),
      /** @param rule `all`, or parts of `last 5, best val/reward, every 10`; null: the server's */
      setKeepRule: (id: string, rule: string | null, call: CallOptions = {}) =>
        ask('PUT /v1/preview/models/{model_id}/keep-rule', watched.keepRule, { ids: [id], json: { rule } }, call),
      /** Its curves, also of steps whose checkpoints were deleted. */
      metrics: listOf('GET /v1/preview/models/{model_id}/metrics', watched.modelMetrics),
      /** What was logged, newest first. */
      logs: listOf('GET /v1/preview/models/{model_id}/log', answers.pageOf(watched.trajectoryLog)),
      /** What was logged at two steps, prompt by prompt. */
      compareLogs: listOf('GET /v1/preview/models/{model_id}/log/compare', watched.logComparison),
      /** Averages trajectory groups into metrics of the latest checkpoint; trains nothing. */
      log: (id: string, body: GivenBody<'POST /v1/preview/models/{model_id}/log'>, call: CallOptions = {}) =>
        ask(
          'POST /v1/preview/models/{model_id}/log',
          answers.loggedTrajectories,
          { ids: [id], json: body },
          { isLong: true, ...call },
        ),
    },
    checkpoints: {
      list: listOf('GET /v1/preview/models/{model_id}/checkpoints', answers.pageOf(answers.checkpoint)),
      delete: (modelId: string, steps: readonly number[], call: CallOptions = {}) =>
        ask(
          'DELETE /v1/preview/models/{model_id}/checkpoints',
          answers.deletedCheckpoints,
          { ids: [modelId], json: { steps } },
          call,
        ),
      /** Files of a checkpoint, or of its export in another format; step 0 is the base model. */
      files: (modelId: string, step: number, { signal, ...query }: CallOptions & FilesQuery = {}) =>
        ask(
          'GET /v1/preview/models/{model_id}/checkpoints/{step}/files',
          answers.checkpointFiles,
          { ids: [modelId, step], query },
          { isLong: true, signal },
        ),
      /** The open body of one file; the caller checks the digest. */
      download: (modelId: string, step: number, name: string, { signal, ...query }: CallOptions & FilesQuery = {}) =>
        http.open(
          requestOf(
            'GET /v1/preview/models/{model_id}/checkpoints/{step}/files/{name}',
            { ids: [modelId, step, name], query },
            { isLong: true, signal },
          ),
        ),
    },
    trainingJobs: {
      list: list('GET /v1/preview/training-jobs', answers.pageOf(answers.trainingJob)),
      get: one('GET /v1/preview/training-jobs/{training_job_id}', answers.trainingJob),
      createRl: create('POST /v1/preview/training-jobs'),
      createDpo: create('POST /v1/preview/dpo-training-jobs'),
      createSft: create('POST /v1/preview/sft-training-jobs'),
      /** What a job would do; starts nothing. */
      planRl: plan('POST /v1/preview/training-jobs'),
      planDpo: plan('POST /v1/preview/dpo-training-jobs'),
      planSft: plan('POST /v1/preview/sft-training-jobs'),
      /** What each kind of job can be told, with defaults, and what suits a base model. */
      options: list('GET /v1/preview/training-options', watched.trainingOptions),
      events: listOf('GET /v1/preview/training-jobs/{training_job_id}/events', answers.pageOf(answers.trainingEvent)),
      /** Events until the terminal one; reconnects by itself. */
      follow: (id: string, follow?: FollowOptions) => followEvents(http, id, follow),
      cancel: one('POST /v1/preview/training-jobs/{training_job_id}/cancel', answers.trainingJob),
      stop: one('POST /v1/preview/training-jobs/{training_job_id}/stop', answers.trainingJob),
    },
    /** Watched prompts. */
    probes: {
      /** Oldest first, each with its answers at the steps asked for. */
      list: listOf(`GET ${PROBES}`, answers.pageOf(watched.probe)),
      create: (modelId: string, body: GivenBody<`POST ${typeof PROBES}`>, call: CallOptions = {}) =>
        ask(`POST ${PROBES}`, watched.probe, { ids: [modelId], json: body }, call),
      delete: (modelId: string, id: string, call: CallOptions = {}) =>
        ask(`DELETE ${PROBES}/{probe_id}`, answers.deletion, { ids: [modelId, id] }, call),
      /** By step. */
      answers: (modelId: string, id: string, query: GivenQuery<typeof PROBE_ANSWERS> = {}, call: CallOptions = {}) =>
        ask(PROBE_ANSWERS, answers.pageOf(watched.probeAnswer), { ids: [modelId, id], query }, call),
      /** Has steps answer it that have not; they do so after this. */
      ask: (modelId: string, id: string, steps: readonly number[], call: CallOptions = {}) =>
        ask(
          `POST ${PROBES}/{probe_id}/answers`,
          answers.pageOf(watched.probeAnswer),
          { ids: [modelId, id], json: { steps } },
          call,
        ),
    },
    /** What jobs trained on. */
    rollouts: createRolloutCalls(http, options.baseUrl),
    /** What readers think of answers, and training files of that. */
    marks: createMarkCalls(http),
    trainingSessions: {
      list: list('GET /v1/preview/training-sessions', answers.pageOf(watched.trainingSession)),
      end: one('POST /v1/preview/training-sessions/{training_run_id}/end', watched.trainingSession),
    },
    events: {
      /** What happened lately, oldest first. */
      list: list('GET /v1/preview/events', answers.pageOf(watched.activity)),
      /** What happens, until the server ends or the connection breaks; `after` goes on behind the last one seen. */
      follow: (query: GivenQuery<'GET /v1/preview/events'> = {}, call: CallOptions = {}) => followActivity(query, call),
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
        return http.json({ ...requestOf('POST /v1/files', {}, { isLong: true, ...call }), form }, answers.uploadedFile)
      },
    },
    chat: {
      create: (request: ChatRequestBody, call: CallOptions = {}) =>
        ask(CHAT, answers.chatResponse, { json: { ...request, stream: false } }, { isLong: true, ...call }),
      stream: (request: ChatRequestBody, call: CallOptions = {}) => streamChat(request, call),
    },
    completions: {
      create: (request: CompletionBody, call: CallOptions = {}) =>
        ask(
          'POST /v1/completions',
          answers.completion,
          { json: { ...request, stream: false } },
          { isLong: true, ...call },
        ),
    },
    /** Training loops, request by request: Tinker's wire. */
    tinker: createTinkerCalls(http),
    /** Text and tokens without generation. */
    text: {
      tokenize: send('POST /tokenize', answers.tokens),
      detokenize: send('POST /detokenize', answers.prompt),
      applyTemplate: send('POST /apply-template', answers.prompt),
    },
    servedModels: { list: plain('GET /v1/models', answers.servedModels) },
    keys: {
      list: list('GET /v1/preview/keys', answers.pageOf(answers.apiKey)),
      get: one('GET /v1/preview/keys/{key_id}', answers.apiKey),
      /** The answer is the only one that holds the key itself. */
      create: send('POST /v1/preview/keys', answers.createdKey),
      delete: one('DELETE /v1/preview/keys/{key_id}', answers.deletion),
      /** What each asked for. */
      usage: list('GET /v1/preview/keys/usage', watched.keyUsage),
    },
    /** Sessions of browsers, which stand for a key and end with it. */
    sessions: {
      list: list('GET /v1/preview/sessions', answers.pageOf(watched.session)),
      /** The answer is the only one that holds the token. */
      create: send('POST /v1/preview/sessions', watched.createdSession),
      delete: one('DELETE /v1/preview/sessions/{session_id}', answers.deletion),
      /** A code that begins one session in a browser, and the page's address with it. */
      createCode: plain('POST /v1/preview/sessions/codes', watched.sessionCode),
      exchange: send('POST /v1/preview/sessions/exchange', watched.createdSession),
    },
    /** An address that gives a file once, without a header. */
    downloads: { create: send('POST /v1/preview/downloads', watched.download) },
    webhooks: {
      list: list('GET /v1/preview/webhooks', answers.pageOf(answers.webhook)),
      /** The answer is the only one that holds the secret. */
      create: send('POST /v1/preview/webhooks', answers.createdWebhook),
      delete: one('DELETE /v1/preview/webhooks/{webhook_id}', answers.deletion),
      deliveries: listOf('GET /v1/preview/webhooks/{webhook_id}/deliveries', answers.pageOf(answers.webhookDelivery)),
      /** The answer is the delivery of a message that says nothing; it is sent soon. */
      test: one('POST /v1/preview/webhooks/{webhook_id}/test', answers.webhookDelivery),
      /** The answer is the new delivery; it is sent soon. */
      redeliver: (id: string, deliveryId: string, call: CallOptions = {}) =>
        ask(
          'POST /v1/preview/webhooks/{webhook_id}/deliveries/{delivery_id}/redeliver',
          answers.webhookDelivery,
          { ids: [id, deliveryId] },
          call,
        ),
    },
    workers: {
      /** Asks for a training job and waits for one, as long as the request says; the caller asks again. */
      claim: send('POST /internal/worker/claims', answers.workerClaim, { isLong: true, maxRetries: 0 }),
    },
    engineNodes: {
      /** Other machines that compute answers. */
      list: plain('GET /v1/preview/engine-nodes', engineNodes),
      /** The files of a base model that a node would serve, with a key of scope worker. */
      baseModelFiles: one('GET /internal/engine/base-models/{base_model}', baseModelFiles),
    },
    usage: list('GET /v1/usage', answers.usageReport),
    baseModels: {
      /** Names a model may be created from. */
      list: plain('GET /v1/preview/base-models', answers.baseModelNames),
      /** All base models with what is known of them, also those that are being downloaded. */
      details: plain('GET /v1/preview/base-models/details', answers.pageOf(answers.baseModel)),
      get: one('GET /v1/preview/base-models/{+name}', answers.baseModelFacts),
      /** Adds one; a download goes on after the answer, `get` tells how far it is. */
      add: send('POST /v1/preview/base-models', answers.baseModel, { isLong: true }),
      delete: one('DELETE /v1/preview/base-models/{+name}', answers.deletion),
    },
    health: plain('GET /v1/health', answers.health),
    /** The checks' results, also when the server answers 503 because one failed. */
    systemCheck: (call: CallOptions = {}) => readSystemCheck(call),
    whoami: plain('GET /v1/whoami', answers.whoami),
    /** Progress about once a second, and the report at last. */
    verify: (call: CallOptions = {}) => verifyStorage(call),
  }

  async function* verifyStorage(call: CallOptions): AsyncGenerator<VerifyProgress | StorageReport> {
    const request = requestOf('POST /v1/preview/verify', {}, { isLong: true, ...call })
    const response = await http.open(request)
    const source = sourceOf(options.baseUrl, request)
    assertStream(response, source)
    for await (const { event, data } of readEvents(response)) {
      if (event === 'error') throw verifyError(parseAnswer(data, { source }))
      if (event !== 'storage_report') yield parseAnswer(data, { source, check: answers.verifyProgress })
      else return yield parseAnswer(data, { source, check: answers.storageReport })
    }
    throw new ProtocolError(`${source} ended the answer before it was complete`)
  }

  async function* followActivity(
    query: GivenQuery<'GET /v1/preview/events'>,
    call: CallOptions,
  ): AsyncGenerator<Activity> {
    const headers = { accept: 'text/event-stream' }
    const request = requestOf('GET /v1/preview/events', { query }, { headers, isLong: true, ...call })
    const response = await http.open(request)
    const source = sourceOf(options.baseUrl, request)
    assertStream(response, source)
    for await (const { data } of readEvents(response)) yield parseAnswer(data, { source, check: watched.activity })
  }

  async function* streamChat(request: ChatRequestBody, call: CallOptions): AsyncGenerator<ChatChunk> {
    const json = { ...request, stream: true, stream_options: { include_usage: true } }
    const headers = { accept: 'text/event-stream' }
    const asked = requestOf(CHAT, { json }, { headers, isLong: true, ...call })
    const response = await http.open(asked)
    const source = sourceOf(options.baseUrl, asked)
    assertStream(response, source)
    for await (const message of readEvents(response)) {
      if (message.data === '[DONE]') return
      yield parseChunk(message.data, source)
    }
    throw new ProtocolError(`${source} ended the answer before it was complete`)
  }

  async function readSystemCheck(call: CallOptions): Promise<SystemCheckResponse> {
    try {
      return await ask('GET /v1/system-check', answers.systemCheck, {}, { maxRetries: 0, ...call })
    } catch (error) {
      const body = error instanceof ApiError ? error.body : null
      if (isSystemCheck(body)) return body
      throw error
    }
  }
}

const CHAT = 'POST /v1/chat/completions'
const PROBES = '/v1/preview/models/{model_id}/probes'
const PROBE_ANSWERS = `GET ${PROBES}/{probe_id}/answers` as const
type JobKey = BodyKey & `POST /v1/preview/${string}training-jobs`
/** One prompt may also stand alone. */
type CompletionBody = Omit<GivenBody<'POST /v1/completions'>, 'prompt'> & {
  readonly prompt: CompletionPrompt | readonly CompletionPrompt[]
}
type FilesQuery = GivenQuery<'GET /v1/preview/models/{model_id}/checkpoints/{step}/files'>

function verifyError(value: unknown): AppError {
  const error = typeof value === 'object' && value !== null && 'error' in value ? value.error : null
  const { code, message } = (error ?? {}) as { readonly code?: unknown; readonly message?: unknown }
  return new AppError('internal', String(code), String(message))
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
