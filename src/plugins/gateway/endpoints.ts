/**
 * Endpoints of the gateway: routes, and what stands below the address of one, which passes on to its upstream. A call brings the
 * upstream's key where that of ours would stand, so whose call it is is looked at by the handler.
 */
import { small } from '#contract/endpoints/bodies.js'
import { type Endpoint, endpoints } from '#contract/endpoints/endpoint.js'
import { pageQuerySchema } from '#contract/wire/list.js'
import type { ErrorForm } from '#service/http/environment.js'
import { shownError } from '#service/http/middleware/errors.js'
import type { PluginEndpoints } from '#service/plugin.js'
import {
  createRouteRequestSchema,
  deletedRouteSchema,
  routeListSchema,
  routeSchema,
  routeSummarySchema,
} from './wire.js'

const SECTION = 'Gateway'
const ours = { tag: SECTION, origin: 'ours', parameters: { gateway_route: 'Name or id of a route' } } as const

const ROUTES = endpoints({
  'POST /v1/preview/gateway-routes': {
    ...ours,
    summary: 'Make a route to another service',
    scope: 'write',
    body: small(createRouteRequestSchema),
    answer: routeSchema,
  },
  'GET /v1/preview/gateway-routes': {
    ...ours,
    summary: 'List routes, newest first',
    scope: 'read',
    query: pageQuerySchema,
    answer: routeListSchema,
  },
  'GET /v1/preview/gateway-routes/{gateway_route}': {
    ...ours,
    summary: 'Get a route, and what its recorded calls come to',
    scope: 'read',
    answer: routeSummarySchema,
  },
  'DELETE /v1/preview/gateway-routes/{gateway_route}': {
    ...ours,
    summary: 'Delete a route with all of its calls',
    scope: 'write',
    answer: deletedRouteSchema,
  },
  'GET /v1/preview/gateway-routes/{gateway_route}/rows': {
    ...ours,
    summary: 'Read recorded calls as rows of `train sft`, oldest first',
    scope: 'read',
    answer: 'application/jsonl',
  },
})

const passed = {
  ...{ tag: SECTION, origin: 'the upstream', scope: 'open', answer: 'application/octet-stream' },
  refusals: [401, 403, 404, 429, 503],
  parameters: { gateway_route: 'Name or id of a route', path: 'What stands behind the upstream’s own address' },
} as const satisfies Partial<Endpoint>

const PASSED = endpoints({
  'POST /gateway/{gateway_route}/v1/{+path}': {
    ...passed,
    summary: 'Pass a call on; chat, responses and messages are recorded',
    body: 'application/octet-stream',
  },
  'GET /gateway/{gateway_route}/v1/{+path}': { ...passed, summary: 'Pass a request on' },
  'DELETE /gateway/{gateway_route}/v1/{+path}': { ...passed, summary: 'Pass a deletion on' },
})

/** In words that clients of every format read; what the upstream says is passed on in its own. */
const gatewayErrors: ErrorForm = {
  paths: /^\/gateway\//,
  requestIdHeader: 'request-id',
  toBody: (raw, requestId) => {
    const { error, type, message } = shownError(raw)
    const hint = error.hint === undefined ? {} : { hint: error.hint }
    const shown = { type, message, param: error.param ?? null, code: error.code, ...hint, ...error.details }
    return { type: 'error', error: shown, request_id: requestId }
  },
}

export const gatewayEndpoints = {
  runs: [
    { after: 'DELETE /v1/preview/training-jobs/{training_job_id}/data', rows: ROUTES },
    { after: 'POST /v1/completions', rows: PASSED },
  ],
  sections: [{ name: SECTION, after: 'Training' }],
  errors: gatewayErrors,
} as const satisfies PluginEndpoints
