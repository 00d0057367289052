/**
 * A scripted service for tests of the client and the command line: routes as data, answers as plain values, requests kept.
 */
import type { Fetch } from '../../../src/sdk/client/light-fetch.js'

export interface RecordedRequest {
  readonly method: string
  readonly path: string
  readonly query: URLSearchParams
  readonly headers: Headers
  readonly body: unknown
}

/** A status with a JSON body, or a whole response. */
export type Answer =
  | { readonly status?: number; readonly body?: unknown; readonly headers?: Record<string, string> }
  | Response

/** `GET /v1/health` → answer, or a function of the request. */
export type Routes = Readonly<Record<string, Answer | ((request: RecordedRequest) => Answer)>>

/** Creates a `fetch` that answers from `routes`; unknown routes are 404 in the service's own form. */
export function scriptedService(routes: Routes): { readonly fetch: Fetch; readonly requests: RecordedRequest[] } {
  const requests: RecordedRequest[] = []
  async function fetch(url: string, init: RequestInit): Promise<Response> {
    init.signal?.throwIfAborted()
    const { pathname, searchParams } = new URL(url)
    const request: RecordedRequest = {
      method: init.method ?? 'GET',
      path: pathname,
      query: searchParams,
      headers: new Headers(init.headers),
      body: typeof init.body === 'string' ? JSON.parse(init.body) : init.body,
    }
    requests.push(request)
    const route = routes[`${request.method} ${pathname}`]
    const answer = typeof route === 'function' ? route(request) : (route ?? notFound(pathname))
    if (answer instanceof Response) return answer
    return Response.json(answer.body ?? {}, { status: answer.status ?? 200, headers: answer.headers ?? {} })
  }
  return { fetch, requests }
}

/** The envelope of a page. */
export function page<T extends { readonly id: string }>(data: readonly T[], hasMore = false) {
  return { object: 'list', data, first_id: data[0]?.id ?? '', last_id: data.at(-1)?.id ?? '', has_more: hasMore }
}

/** An error body as the service sends it. */
export function errorBody(code: string, message: string, extra: Record<string, unknown> = {}) {
  return {
    error: { message, type: 'invalid_request_error', param: null, code, ...extra },
    detail: message,
    request_id: 'req_1',
  }
}

function notFound(path: string): Answer {
  return { status: 404, body: errorBody('not_found', `${path} does not exist`) }
}

export const MODEL = {
  id: '019a3c5e-0000-7000-8000-000000000001',
  entity: 'local',
  project: 'default',
  name: 'email-agent',
  base_model: 'trainyard/tiny-random',
  run_id: null,
  step: 12,
  created_at: '2026-11-20T09:12:44.000Z',
}

export const JOB = {
  id: '019a3c5e-7b1f-7000-8000-00000000009c',
  model_id: MODEL.id,
  kind: 'rl',
  status: 'running',
  attempt: 1,
  is_cancel_requested: false,
  config: { learning_rate: 0.001 },
  created_at: '2026-11-20T10:00:00.000Z',
  training_start: '2026-11-20T10:00:01.000Z',
  training_end: null,
  error_code: null,
  error_message: null,
  num_gradient_steps: 2,
  num_sequences: 4,
  step: null,
}

/** A checkpoint of a step. */
export function checkpoint(step: number, metrics: Record<string, number> = {}) {
  return {
    id: `019a3c5e-0000-7000-8000-1${String(step).padStart(11, '0')}`,
    step,
    metrics,
    created_at: '2026-11-20T09:12:44.000Z',
    size_bytes: 8_734_976,
  }
}
