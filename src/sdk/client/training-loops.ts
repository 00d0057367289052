/**
 * Methods for the endpoints of training loops, request by request. A request of work is answered at once with an id, and `result`
 * waits for what it comes to.
 *
 * Requests of work carry numbers of the caller's, by which the server knows a repeated one: broken connections are retried.
 */
import { AppError } from '#base/errors/errors.js'
import type { AnswerOf, GivenBody } from '#contract/endpoints/table.js'
import { type CallOptions, createCalls, type Manner, requestOf } from './calls.js'
import { ApiError } from './errors.js'
import { type Http, readJson, sourceOf } from './http.js'
import { anything, type Check, listOf, maybe, objectOf, text } from './shape.js'

/** What a request of work came to. */
export type WorkResult =
  | { readonly bytes: Uint8Array }
  | { readonly json: Readonly<Record<string, unknown>>; readonly bytes?: undefined }

const PROTOBUF = 'application/x-protobuf'
const FUTURE = 'POST /api/v1/retrieve_future'
const ROWS = 'POST /api/v1/forward_backward'
const SAMPLE = 'POST /api/v1/asample'
const REPEATABLE: Manner = { isRepeatable: true }

/** Times that a sample is asked for again which the server was too busy for, and the longest wait between two, milliseconds. */
const SAMPLE_TRIES = 30
const LONGEST_WAIT_MS = 8000

const future = objectOf<AnswerOf<typeof ROWS>>({
  request_id: text,
  model_id: maybe(text),
  sample_sequence_ids: maybe(listOf(text)),
})
const created: Check<AnswerOf<'POST /api/v1/create_session'>> = objectOf({
  type: anything,
  session_id: text,
  info_message: maybe(text),
  warning_message: maybe(text),
  error_message: maybe(text),
})
const nothing = objectOf<object>({})

export function createLoopCalls(http: Http) {
  const { ask, send } = createCalls(http)

  /** @throws {AppError} `session_request_failed` with the server's reason; {ApiError} 410 for a result that was forgotten */
  async function result(requestId: string, call: CallOptions = {}): Promise<WorkResult> {
    const json: GivenBody<typeof FUTURE> = { request_id: requestId }
    const headers = { accept: `${PROTOBUF}, application/json` }
    const request = requestOf(FUTURE, { json }, { ...REPEATABLE, headers, isLong: true, ...call })
    for (;;) {
      try {
        return await readResult(await http.open(request), sourceOf(http.baseUrl, request))
      } catch (error) {
        // the server held the request as long as it may
        if (!(error instanceof ApiError && error.status === 408)) throw error
      }
    }
  }

  return {
    /** Opens what runs and samplers belong to. */
    open: send('POST /api/v1/create_session', created),
    /** Runs of it give their workers back, their state stored. */
    finish: (id: string, call: CallOptions = {}) =>
      ask('POST /api/v1/sessions/{session_id}/finish', nothing, { ids: [id], json: {} }, { ...REPEATABLE, ...call }),
    createRun: send('POST /api/v1/create_model', future, REPEATABLE),
    loadWeights: send('POST /api/v1/load_weights', future, REPEATABLE),
    /** @param message a `ForwardBackwardRequest` */
    forwardBackward: (message: Uint8Array, call: CallOptions = {}) =>
      http.json(
        { ...requestOf(ROWS, {}, { ...REPEATABLE, ...call }), bytes: { contentType: PROTOBUF, data: message } },
        future,
      ),
    optimStep: send('POST /api/v1/optim_step', future, REPEATABLE),
    saveWeights: send('POST /api/v1/save_weights', future, REPEATABLE),
    saveForSampler: send('POST /api/v1/save_weights_for_sampler', future, REPEATABLE),
    /** Answers to a prompt of tokens: bytes of a `SampleResponse`. Asked for again while the server is too busy. */
    async sample(body: GivenBody<typeof SAMPLE>, call: CallOptions = {}): Promise<WorkResult> {
      for (let tries = 1; ; tries++) {
        const { request_id: id } = await ask(SAMPLE, future, { json: body }, { ...REPEATABLE, ...call })
        try {
          return await result(id, call)
        } catch (error) {
          if (!(error instanceof ApiError && error.status === 410) || tries >= SAMPLE_TRIES) throw error
          await http.sleep(Math.min(LONGEST_WAIT_MS, 250 * 2 ** tries), call.signal)
        }
      }
    },
    result,
  }
}

async function readResult(response: Response, source: string): Promise<WorkResult> {
  if (response.headers.get('content-type')?.startsWith(PROTOBUF) === true) {
    return { bytes: new Uint8Array(await response.arrayBuffer()) }
  }
  const json = await readJson<Readonly<Record<string, unknown>>>(response, { source, check: nothing })
  const { error, category } = json
  if (typeof error !== 'string') return { json }
  const isTheirs = category === 'user'
  throw new AppError(isTheirs ? 'invalid_request' : 'internal', 'session_request_failed', error)
}
