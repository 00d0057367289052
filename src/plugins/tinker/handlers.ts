/**
 * The Tinker API: sessions of clients, requests of their training runs, samples, results by long poll, and what was saved.
 *
 * What a run computes and how it outlives its worker is `service/queue/sessions/`; what the client sends and reads is `wire.ts`,
 * `contract/wire/training/training-loops.ts` and `formats/training-loop/`.
 */
import { InvalidRequestError } from '#base/errors/errors.js'
import type { LoadWeightsRequest } from '#contract/wire/training/training-loops.js'
import { readRunOfBeginning } from '#formats/training-loop/loss-request.js'
import { withBody } from '#service/http/body.js'
import type { AppOptions, RequestContext } from '#service/http/environment.js'
import { sendFile } from '#service/http/file-answer.js'
import type { Principal } from '#service/operations/context.js'
import type { PluginHandlers, PluginService } from '#service/plugin.js'
import { LOSS_REQUEST } from './bodies.js'
import { createClients } from './clients.js'
import type { tinkerEndpoints } from './endpoints.js'
import { createFutures } from './futures.js'
import { createNewRuns, type Future } from './new-runs.js'
import { createRunRequests } from './run-requests.js'
import { createRuns } from './runs.js'
import { createSamplers } from './samplers.js'
import { createSamples } from './samples.js'
import { createSampling } from './sampling.js'
import { createSavedWeights } from './saved-weights.js'
import type { Sampling } from './start.js'

type All = PluginHandlers<typeof tinkerEndpoints>
type TinkerService = ReturnType<typeof createTinkerService>

const PROTOBUF = 'application/x-protobuf'
/** Rows of one request: the client cuts larger ones at 5 MB by its own estimate. */
const MAX_ROWS_BYTES = 32 * 1024 ** 2
/** Bytes of each part in which a run's name is looked for: longer ones are refused. */
const MAX_BEGINNING = 1024

export function tinkerHandlers(service: PluginService<Sampling>): All {
  const tinker = createTinkerService(service)
  return {
    ...clientHandlers(tinker),
    ...trainingHandlers(tinker),
    ...samplingHandlers(tinker),
    ...runHandlers(tinker),
    ...savedHandlers(tinker, service.app),
  }
}

function createTinkerService({ context, started }: Pick<PluginService<Sampling>, 'context' | 'started'>) {
  const samples = started.samples(createSamples)
  const samplers = createSamplers(context)
  const sampleState = samples.stateOf
  return {
    clients: createClients(context, samples),
    newRuns: createNewRuns(context),
    requests: createRunRequests(context),
    runs: createRuns(context),
    saved: createSavedWeights(context),
    samplers,
    sampling: createSampling(context, { samples, samplers }),
    futures: createFutures({ ...context, sampleState, isShared: started.isShared }),
  }
}

function clientHandlers({ clients }: TinkerService) {
  return {
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
    'GET /api/v1/sessions': ({ principal, query }) => clients.list(principal, query()),
    'GET /api/v1/sessions/{session_id}': ({ principal, params }) => clients.get(principal, params.session_id),
    'POST /api/v1/sessions/{session_id}/finish': async ({ principal, params, body }) => {
      await body()
      await clients.finish(principal, params.session_id)
      return {}
    },
  } satisfies Partial<All>
}

function trainingHandlers({ newRuns, requests }: TinkerService) {
  /** A request of a run: a body that is refused has its place in the run's order all the same. */
  const numbered =
    <B>(kind: Parameters<typeof requests.refuse>[1], take: (principal: Principal, body: B) => Promise<Future>) =>
    async (call: { readonly principal: Principal; body(): Promise<B> }): Promise<Future> => {
      const { principal } = call
      const body = await call.body().then(
        (request) => ({ request }),
        (refusal: unknown) => ({ refusal }),
      )
      if ('refusal' in body) return requests.refuse(principal, kind, body.refusal)
      return take(principal, body.request)
    }
  return {
    'POST /api/v1/create_model': async ({ principal, body }) => newRuns.create(principal, await body()),
    'POST /api/v1/forward_backward': async ({ principal, c }) => {
      const type = c.req.header('content-type')?.split(';')[0]?.trim().toLowerCase()
      if (type !== PROTOBUF) {
        throw new InvalidRequestError('unsupported_media_type', `rows are sent as ${PROTOBUF}, got "${type ?? ''}"`)
      }
      const look = lookForRun((id) => requests.requireRun(principal, id))
      const bodies = c.get('bodies')
      return withBody(c, { maxBytes: MAX_ROWS_BYTES, look }, async (body) => {
        const { read, bytes } = await bodies.readBinary(LOSS_REQUEST, body)
        return requests.forwardBackward(principal, read, bytes)
      })
    },
    'POST /api/v1/optim_step': numbered('optim_step', requests.optimStep),
    'POST /api/v1/save_weights': numbered('save_weights', requests.save),
    'POST /api/v1/save_weights_for_sampler': numbered('save_weights_for_sampler', requests.saveForSampler),
    'POST /api/v1/save_weights_external': numbered('save_weights_external', requests.saveExternal),
    'POST /api/v1/load_weights': numbered('load_weights', (principal, request: LoadWeightsRequest) =>
      // with a client's session a run begins, without one a run goes on
      request.session_id === null || request.session_id === undefined
        ? requests.load(principal, request)
        : newRuns.createFromWeights(principal, request),
    ),
  } satisfies Partial<All>
}

function samplingHandlers({ samplers, sampling, futures }: TinkerService) {
  return {
    'POST /api/v1/create_sampling_session': async ({ principal, body }) => samplers.create(principal, await body()),
    'GET /api/v1/samplers/{sampler_id}': ({ principal, params }) => samplers.get(principal, params.sampler_id),
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
  } satisfies Partial<All>
}

function runHandlers({ runs, saved }: TinkerService) {
  return {
    'POST /api/v1/get_info': async ({ principal, body }) => runs.info(principal, (await body()).model_id),
    'POST /api/v1/weights_info': async ({ principal, body }) => saved.info(principal, (await body()).tinker_path),
    'GET /api/v1/training_runs': ({ principal, query }) => runs.list(principal, query()),
    'GET /api/v1/training_runs/{training_run_id}': ({ principal, params }) =>
      runs.get(principal, params.training_run_id),
    'GET /api/v1/training_runs/{training_run_id}/checkpoints': ({ principal, params, query }) =>
      saved.list(principal, params.training_run_id, query()),
    'GET /api/v1/checkpoints': ({ principal, query }) => saved.list(principal, null, query()),
  } satisfies Partial<All>
}

function savedHandlers({ saved }: TinkerService, { services: { downloads }, publicAddress }: AppOptions) {
  return {
    'GET /api/v1/training_runs/{training_run_id}/checkpoints/external_weights/{weights_name}/external_weights_urls':
      async (call) => {
        const { training_run_id: runId, weights_name: name } = call.params
        const kind = 'external_weights'
        const urls: Record<string, string> = {}
        let expires = new Date(0).toISOString()
        for (const file of await saved.fileNames(call.principal, runId, kind, name)) {
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
      const found = await saved.openFile(call.principal, runId, { kind, name, file })
      return sendFile(call.c, found.stream, {
        'content-type': 'application/octet-stream',
        'content-length': String(found.sizeBytes),
        'x-content-sha256': found.sha256,
        etag: `"${found.sha256}"`,
      })
    },
    'DELETE /api/v1/training_runs/{training_run_id}/checkpoints/{weights_kind}/{weights_name}': async (call) => {
      const { training_run_id: runId, weights_kind: kind, weights_name: name } = call.params
      await saved.delete(call.principal, runId, kind, name)
      return nothing(call.c)
    },
    'PUT /api/v1/training_runs/{training_run_id}/checkpoints/{weights_kind}/{weights_name}/ttl': async (call) => {
      const { training_run_id: runId, weights_kind: kind, weights_name: name } = call.params
      const ttlSeconds = (await call.body()).ttl_seconds ?? null
      await saved.setExpiry(call.principal, runId, { kind, name, ttlSeconds })
      return nothing(call.c)
    },
  } satisfies Partial<All>
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
