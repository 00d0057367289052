/**
 * The Tinker client: training loops of one's own.
 */

import { InvalidRequestError } from '#base/errors/errors.js'
import { readRunOfBeginning } from '#formats/tinker/loss-request.js'
import type { Future } from '#service/facades/tinker/training.js'
import type { Principal } from '#service/operations/context.js'
import { withBody } from '../body.js'
import type { AppOptions, RequestContext } from '../environment.js'
import { sendFile } from '../file-answer.js'
import { handlers } from '../handlers.js'

const PROTOBUF = 'application/x-protobuf'
/** Rows of one request: the client cuts larger ones at 5 MB by its own estimate. */
const MAX_ROWS_BYTES = 32 * 1024 ** 2
/** Bytes of each part in which a run's name is looked for: longer ones are refused. */
const MAX_BEGINNING = 1024

export function tinkerHandlers({ services: { tinker, downloads }, publicAddress }: AppOptions) {
  const { clients, training, sampling, futures, runs } = tinker
  type Taken = 'optimStep' | 'save' | 'saveForSampler' | 'saveExternal' | 'load'
  /** A request of a run: a body that is refused has its place in the run's order all the same. */
  const numbered =
    <M extends Taken>(kind: Parameters<typeof training.refuse>[1], method: M) =>
    async (call: {
      readonly principal: Principal
      body(): Promise<Parameters<(typeof training)[M]>[1]>
    }): Promise<Future> => {
      const { principal } = call
      const body = await call.body().then(
        (request) => ({ request }),
        (refusal: unknown) => ({ refusal }),
      )
      if ('refusal' in body) return training.refuse(principal, kind, body.refusal)
      const { request } = body
      const take = training[method] as (principal: Principal, given: typeof request) => Promise<Future>
      return take(principal, request)
    }
  return handlers({
    'POST /api/v1/client/config': async ({ body }) => {
      await body()
      return {}
    },
    'POST /api/v1/client/dynamic_config': async ({ body }) => {
      await body()
      return {}
    },
    'GET /api/v1/healthz': () => ({ status: 'ok' as const }),
    'POST /api/v1/telemetry': async ({ body }) => {
      await body()
      return { status: 'accepted' as const }
    },
    'GET /api/v1/get_server_capabilities': () => clients.capabilities(),
    'POST /api/v1/create_session': async ({ principal, body }) => clients.create(principal, await body()),
    'POST /api/v1/session_heartbeat': async ({ principal, body }) =>
      clients.heartbeat(principal, (await body()).session_id),
    'GET /api/v1/sessions': ({ principal, query }) => runs.sessions(principal, query()),
    'GET /api/v1/sessions/{session_id}': ({ principal, params }) => runs.session(principal, params.session_id),
    'POST /api/v1/sessions/{session_id}/finish': async ({ principal, params, body }) => {
      await body()
      await clients.finish(principal, params.session_id)
      return {}
    },
    'POST /api/v1/create_model': async ({ principal, body }) => training.create(principal, await body()),
    'POST /api/v1/get_info': async ({ principal, body }) => training.info(principal, (await body()).model_id),
    'POST /api/v1/forward_backward': async ({ principal, c }) => {
      const type = c.req.header('content-type')?.split(';')[0]?.trim().toLowerCase()
      if (type !== PROTOBUF) {
        throw new InvalidRequestError('unsupported_media_type', `rows are sent as ${PROTOBUF}, got "${type ?? ''}"`)
      }
      const look = lookForRun((id) => training.requireRun(principal, id))
      const bodies = c.get('bodies')
      return withBody(c, { maxBytes: MAX_ROWS_BYTES, look }, async (body) => {
        const { read, bytes } = await bodies.readLoss(body)
        return training.forwardBackward(principal, read, bytes)
      })
    },
    'POST /api/v1/optim_step': numbered('optim_step', 'optimStep'),
    'POST /api/v1/save_weights': numbered('save_weights', 'save'),
    'POST /api/v1/save_weights_for_sampler': numbered('save_weights_for_sampler', 'saveForSampler'),
    'POST /api/v1/save_weights_external': numbered('save_weights_external', 'saveExternal'),
    'POST /api/v1/load_weights': numbered('load_weights', 'load'),
    'POST /api/v1/weights_info': async ({ principal, body }) =>
      training.weightsInfo(principal, (await body()).tinker_path),
    'POST /api/v1/create_sampling_session': async ({ principal, body }) =>
      sampling.createSampler(principal, await body()),
    'GET /api/v1/samplers/{sampler_id}': ({ principal, params }) => sampling.sampler(principal, params.sampler_id),
    'POST /api/v1/asample': async ({ principal, body }) => sampling.sample(principal, await body()),
    'POST /api/v1/retrieve_future': async ({ principal, body, c }) => {
      const answer = await futures.retrieve(principal, (await body()).request_id, c.req.raw.signal)
      switch (answer.kind) {
        case 'protobuf':
          return c.body(Buffer.from(answer.bytes), 200, { 'content-type': PROTOBUF })
        case 'later':
          return c.json(answer.body, 408)
        case 'gone':
          return c.json({ detail: 'the result is no longer known; send the request again' }, 410)
        case 'json':
          return c.json(answer.body)
      }
    },
    'GET /api/v1/training_runs': ({ principal, query }) => runs.runs(principal, query()),
    'GET /api/v1/training_runs/{training_run_id}': ({ principal, params }) =>
      runs.run(principal, params.training_run_id),
    'GET /api/v1/training_runs/{training_run_id}/checkpoints': ({ principal, params, query }) =>
      runs.saved(principal, params.training_run_id, query()),
    'GET /api/v1/checkpoints': ({ principal, query }) => runs.saved(principal, null, query()),
    'GET /api/v1/training_runs/{training_run_id}/checkpoints/external_weights/{weights_name}/external_weights_urls':
      async (call) => {
        const { training_run_id: runId, weights_name: name } = call.params
        const kind = 'external_weights'
        const urls: Record<string, string> = {}
        let expires = new Date(0).toISOString()
        for (const file of await runs.fileNames(call.principal, runId, kind, name)) {
          const parts = [runId, 'checkpoints', kind, name, 'files', file].map((part) => encodeURIComponent(part))
          const made = await downloads.create(call.principal, `/api/v1/training_runs/${parts.join('/')}`)
          urls[file] = publicAddress.of(call.c) + made.address
          expires = made.expiresAt
        }
        call.c.header('cache-control', 'no-store')
        return { urls, expires }
      },
    'GET /api/v1/training_runs/{training_run_id}/checkpoints/{weights_kind}/{weights_name}/files/{name}': async (
      call,
    ) => {
      const { training_run_id: runId, weights_kind: kind, weights_name: name, name: file } = call.params
      const found = await runs.openFile(call.principal, runId, { kind, name, file })
      return sendFile(call.c, found.stream, {
        'content-type': 'application/octet-stream',
        'content-length': String(found.sizeBytes),
        'x-content-sha256': found.sha256,
        etag: `"${found.sha256}"`,
      })
    },
    'DELETE /api/v1/training_runs/{training_run_id}/checkpoints/{weights_kind}/{weights_name}': async (call) => {
      const { training_run_id: runId, weights_kind: kind, weights_name: name } = call.params
      await runs.deleteSaved(call.principal, runId, kind, name)
      return nothing(call.c)
    },
    'PUT /api/v1/training_runs/{training_run_id}/checkpoints/{weights_kind}/{weights_name}/ttl': async (call) => {
      const { training_run_id: runId, weights_kind: kind, weights_name: name } = call.params
      const ttlSeconds = (await call.body()).ttl_seconds ?? null
      await runs.setExpiry(call.principal, runId, { kind, name, ttlSeconds })
      return nothing(call.c)
    },
  })
}

/** Looks for the run of a request when its name has come, before the rest of the body is taken. */
function lookForRun(require: (id: string) => Promise<unknown>): (part: Uint8Array) => Promise<void> {
  let beginning = new Uint8Array(0)
  let isKnown = false
  return async (part) => {
    if (isKnown) return
    beginning = new Uint8Array(Buffer.concat([beginning, part.subarray(0, MAX_BEGINNING)]))
    const id = readRunOfBeginning(beginning)
    if (id === null) return
    isKnown = true
    await require(id)
  }
}

function nothing(c: RequestContext): Response {
  return c.body(null, 204)
}
