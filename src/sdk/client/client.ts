/**
 * A typed client of the service: one method per endpoint, values exactly as the wire carries them.
 *
 * Knows nothing of terminals, files or settings. Every failure is an `AppError`: `ApiError` for a refusal,
 * `ConnectionError` or `RequestTimeoutError` when no answer came.
 */

import { AppError } from '#base/errors/errors.js'
import type { BaseModelFiles } from '#contract/processes/worker.js'
import type { EngineNodeInfo } from '#contract/wire/engine-nodes.js'
import type { FileObject } from '#contract/wire/files.js'
import type { StorageReport, SystemCheckResponse, VerifyProgress } from '#contract/wire/health.js'
import { createAccessCalls } from './access.js'
import * as answers from './answers.js'
import { type CallOptions, createCalls, requestOf } from './calls.js'
import { ApiError, ProtocolError } from './errors.js'
import { createHttp, type HttpOptions, parseAnswer, sourceOf } from './http.js'
import { createInferenceCalls } from './inference.js'
import { createMarkCalls } from './marks.js'
import { createRolloutCalls } from './rollouts.js'
import { type Check, listOf, mapOf, number, objectOf, text } from './shape.js'
import { assertStream, readEvents } from './sse.js'
import { createModelCalls, createTrainingCalls } from './training.js'
import { createLoopCalls } from './training-loops.js'

/**
 * What the client needs of an answer about engine nodes, as `answers.ts` has it for others.
 */
const baseModelFiles = objectOf<BaseModelFiles>({
  digest: text,
  layout: text as Check<BaseModelFiles['layout']>,
  files: listOf(objectOf<BaseModelFiles['files'][number]>({ name: text, sha256: text, size_bytes: number })),
})
const engineNodes = objectOf<{ readonly data: readonly EngineNodeInfo[] }>({
  data: listOf(
    objectOf<EngineNodeInfo>({
      id: text,
      name: text,
      url: text,
      base_model: text,
      engine: text,
      device: text,
      versions: mapOf(text),
      state: text as Check<EngineNodeInfo['state']>,
      context_length: number,
      slots: number,
      running: number,
      waiting: number,
      adapters: number,
    }),
  ),
})

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
  const { ask, plain, one, list, send } = createCalls(http)
  return {
    ...createModelCalls(http),
    ...createTrainingCalls(http),
    ...createInferenceCalls(http),
    ...createAccessCalls(http),
    baseUrl: options.baseUrl,
    /** Requests of what the core does not know: endpoints of plugins. */
    http,
    /** What an OpenAI client needs to reach the same service. */
    connection: () => ({ baseURL: `${options.baseUrl.replace(/\/+$/, '')}/v1`, apiKey: options.apiKey }),
    /** What jobs trained on. */
    rollouts: createRolloutCalls(http, options.baseUrl),
    /** What readers think of answers, and training files of that. */
    marks: createMarkCalls(http),
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
    /** Training loops, request by request. */
    loops: createLoopCalls(http),
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

function verifyError(value: unknown): AppError {
  const error = typeof value === 'object' && value !== null && 'error' in value ? value.error : null
  const { code, message } = (error ?? {}) as { readonly code?: unknown; readonly message?: unknown }
  return new AppError('internal', String(code), String(message))
}

function isSystemCheck(body: unknown): body is SystemCheckResponse {
  return answers.systemCheck.find(body, '') === null
}
