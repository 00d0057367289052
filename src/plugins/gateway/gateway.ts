/**
 * Routes of the gateway: made, listed, summed up, read as rows, deleted.
 */

import { isDeepStrictEqual } from 'node:util'
import type { z } from 'zod'
import { ConflictError, InvalidRequestError, NotFoundError } from '#base/errors/errors.js'
import { command } from '#contract/wire/command-words.js'
import { DEFAULT_PAGE_LIMIT, type List, type PageQuery, toList } from '#contract/wire/list.js'
import { checkProject } from '#service/operations/access/tenant.js'
import type { AddressRules } from '#service/operations/address-rules.js'
import type { Principal, ServiceContext, Tenant } from '#service/operations/context.js'
import type { Database } from '#service/storage/database.js'
import { compilePattern } from './record/mask.js'
import type { GatewayRoute, RecordedCall } from './route.js'
import { checkPatterns, readUpstream } from './rules.js'
import { readCalls } from './storage/calls.js'
import { countRoutes, deleteRoute, findRoute, insertRoute, listRoutes } from './storage/routes.js'
import { type CallSummary, summarizeCalls } from './storage/summary.js'
import type { createRouteRequestSchema, Route, RouteSummary } from './wire.js'

/** Of one entity. */
const MOST_ROUTES = 200
/** Read at once. */
const TOGETHER = 100

interface GatewayService {
  create(principal: Principal, request: z.output<typeof createRouteRequestSchema>): Promise<Route>
  list(tenant: Tenant, page: PageQuery): Promise<List<Route>>
  summary(tenant: Tenant, reference: string): Promise<RouteSummary>
  delete(tenant: Tenant, reference: string): Promise<string>
  /** Lines of JSON, oldest first. */
  rows(tenant: Tenant, reference: string): Promise<AsyncIterable<string>>
}

export function createGatewayService(
  { db, ids }: Pick<ServiceContext, 'db' | 'ids'>,
  {
    rules,
    keyRules,
    settle,
  }: {
    readonly rules: AddressRules
    readonly keyRules: ReadonlyMap<string, string>
    /** Calls of before are written when it is done. */
    readonly settle: () => Promise<void>
  },
): GatewayService {
  async function get(tenant: Tenant, reference: string): Promise<GatewayRoute> {
    const found = await findRoute(db, tenant, reference)
    if (found !== null) return found
    throw new NotFoundError('route_not_found', `there is no route "${reference.slice(0, 100)}"`, {
      param: 'route',
      hint: 'trainyard routes list shows them',
    })
  }

  return {
    create: async (principal, request) => {
      const upstream = readUpstream(rules, request.upstream)
      checkPatterns(request.mask_patterns, compilePattern)
      const keyVariable = request.key_variable ?? null
      if (keyVariable !== null) checkVariable(keyRules, keyVariable, new URL(upstream).origin)
      if ((await countRoutes(db, principal.entity)) >= MOST_ROUTES) {
        throw new ConflictError('too_many_routes', `an entity may have ${MOST_ROUTES} routes`, {
          hint: 'trainyard routes delete removes one with its calls',
        })
      }
      const route = {
        id: ids.uuid(),
        entity: principal.entity,
        project: checkProject(principal, request.project ?? undefined) ?? null,
        name: request.name,
        isLocal: request.access === 'local',
        spec: {
          ...{ upstream, keyVariable, sample: request.sample, keepsContent: request.content },
          retentionDays: request.retention_days,
          maxCallBytes: request.max_call_bytes,
          maxBytes: request.max_bytes,
          maskPatterns: request.mask_patterns,
        },
      }
      if (await insertRoute(db, route)) return toWire(await get(principal, route.id))
      // the same once more is no other route
      const before = await findRoute(db, principal, route.name)
      const isSame = before?.isLocal === route.isLocal && before.project === route.project
      if (before !== null && isSame && isDeepStrictEqual(before.spec, route.spec)) return toWire(before)
      throw new ConflictError('route_exists', `the name "${request.name}" is taken`, {
        param: 'name',
        hint: route.isLocal
          ? 'names of local routes are of the whole server: choose another'
          : 'choose another, or delete that route first',
      })
    },
    list: async (tenant, { after, limit = DEFAULT_PAGE_LIMIT }) => {
      const page = await listRoutes(db, tenant, { after, limit })
      return toList(page.items.map(toWire), page.hasMore)
    },
    summary: async (tenant, reference) => {
      await settle()
      const route = await get(tenant, reference)
      return { ...toWire(route), recorded: toWireSummary(await summarizeCalls(db, route.id)) }
    },
    delete: async (tenant, reference) => {
      const { id } = await get(tenant, reference)
      await deleteRoute(db, id)
      return id
    },
    rows: async (tenant, reference) => {
      await settle()
      const { id } = await get(tenant, reference)
      // its converters are parts of other formats, and nobody else needs them
      const { toExample } = await import('./examples.js')
      return readRows(db, id, toExample)
    },
  }
}

/** Examples of a route's calls, oldest first. */
async function* readRows(
  db: Database,
  routeId: string,
  toExample: (call: RecordedCall) => { readonly row: object } | { readonly reason: string },
): AsyncGenerator<string> {
  for (let after: string | null = null; ; ) {
    const calls: readonly RecordedCall[] = await readCalls(db, routeId, { after, limit: TOGETHER })
    for (const call of calls) {
      const example = toExample(call)
      if ('row' in example) yield `${JSON.stringify(example.row)}\n`
    }
    after = calls.at(-1)?.id ?? null
    if (calls.length < TOGETHER) return
  }
}

function toWireSummary(summary: CallSummary): RouteSummary['recorded'] {
  const { alike, models, durations, firstBytes, firstAtMs, lastAtMs, ...counted } = summary
  const { largestShape, ...different } = alike
  return {
    ...counted,
    first_at: firstAtMs === null ? null : toIso(firstAtMs),
    last_at: lastAtMs === null ? null : toIso(lastAtMs),
    duration_ms: durations,
    first_byte_ms: firstBytes,
    models: models.map(({ model, calls, inputTokens, cachedTokens, outputTokens }) => ({
      ...{ model, calls, input_tokens: inputTokens, cached_tokens: cachedTokens, output_tokens: outputTokens },
    })),
    alike: { ...different, largest_shape: largestShape },
  }
}

/** @throws {InvalidRequestError} where the server's administrator has not said that the key may go there */
function checkVariable(keyRules: ReadonlyMap<string, string>, variable: string, origin: string): void {
  if (keyRules.get(variable) === origin) return
  throw new InvalidRequestError('key_variable_refused', `no key in ${variable} may be sent to ${origin}`, {
    param: 'key_variable',
    hint: `the administrator allows it: ${command`trainyard serve --gateway-key ${`${variable}=${origin}`}`}; without key_variable clients bring the upstream's key`,
  })
}

function toWire(route: GatewayRoute): Route {
  const { id, name, project, spec, calls } = route
  return {
    ...{ id, object: 'gateway.route', name, project, path: `/gateway/${name}/v1` },
    upstream: spec.upstream,
    access: route.isLocal ? 'local' : 'key',
    key_variable: spec.keyVariable,
    sample: spec.sample,
    content: spec.keepsContent,
    retention_days: spec.retentionDays,
    max_call_bytes: spec.maxCallBytes,
    max_bytes: spec.maxBytes,
    mask_patterns: [...spec.maskPatterns],
    calls,
    lost_calls: route.lostCalls,
    created_at: toIso(route.createdAtMs),
  }
}

const toIso = (ms: number): string => new Date(ms).toISOString()
