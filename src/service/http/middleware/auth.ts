/**
 * Authentication, by `Authorization: Bearer`, `X-Api-Key` or `Api-Key`, and the scope that an endpoint's row asks for. Unknown
 * paths beside guarded ones are guarded too, and whatever is not known to change nothing needs `write`. Worker routes carry their
 * own tokens.
 */
import type { MiddlewareHandler } from 'hono'
import { matchedRoutes } from 'hono/route'
import type { EndpointScope } from '#contract/endpoints/endpoint.js'
import type { EndpointTable, Route } from '#contract/endpoints/table.js'
import { foreignEntity } from '#service/operations/access/auth.js'
import { TICKET } from '#service/operations/access/downloads.js'
import type { Principal } from '#service/operations/access/principal.js'
import { requireScope } from '#service/operations/access/tenant.js'
import { reportIgnored } from '../body.js'
import type { AppEnvironment, AppOptions, RequestContext } from '../environment.js'
import { createRouteFinder } from '../handlers.js'
import { noteOwner } from '../owner.js'

export function bearerAuth(
  options: Pick<AppOptions, 'services' | 'publicAddress' | 'table'>,
): MiddlewareHandler<AppEnvironment> {
  const routeOf = createRouteFinder(options.table)
  const guarded = guardedParts(options.table)

  /** Who made the ticket that a download comes with; null for a request without one. */
  async function ticketHolder(c: RequestContext, route: Route | undefined): Promise<Principal | null> {
    const ticket = c.req.query(TICKET)
    const isDownload = c.req.method === 'GET' && route !== undefined && sendsFile(route)
    if (ticket === undefined || !isDownload || c.req.header('authorization') !== undefined) return null
    const asked = new URL(c.req.url)
    asked.searchParams.delete(TICKET)
    const query = asked.searchParams.toString()
    const address = `${options.publicAddress.pathWithin(asked.pathname)}${query === '' ? '' : `?${query}`}`
    const principal = await options.services.downloads.redeem(ticket, address)
    c.set('hasTicket', true)
    // a browser keeps it as a file, whatever is in it
    c.header('content-disposition', 'attachment')
    // and nobody on the way keeps what an address gives once
    c.header('cache-control', 'no-store')
    return principal
  }

  return async function authenticate(c, next) {
    const bound = matchedRoutes(c).find(({ method }) => method !== 'ALL')
    const route = bound === undefined ? undefined : routeOf(bound)
    const scope = route?.scope ?? unknownScope(c, guarded)
    if (scope !== 'open' && scope !== 'attempt') {
      const usageProject = c.req.header('compat-project') ?? c.req.header('openai-project')
      const principal =
        (await innerCaller(c, options.services.auth)) ??
        (await ticketHolder(c, route)) ??
        (await options.services.auth.authenticate(authorizationOf(c, route), usageProject))
      const entity = usageProject === undefined ? null : foreignEntity(principal, usageProject)
      if (entity !== null) reportIgnored(c, [`Compat-Project.${entity}`])
      requireScope(principal, scope)
      options.services.usage.noteKey(principal.keyId)
      c.set('principal', principal)
      noteOwner(c, principal.entity)
    }
    await next()
  }
}

/** For whom this server itself asks (`PluginStart.ask`): nothing that arrives at the port has it. */
async function innerCaller(
  c: RequestContext,
  { confirm }: Pick<AppOptions['services']['auth'], 'confirm'>,
): Promise<Principal | null> {
  const { principal = null } = (c.env ?? {}) as { readonly principal?: Principal }
  if (principal !== null) await confirm(principal)
  return principal
}

/** Whether an answer is a file, which a browser may fetch with a ticket. */
export function sendsFile(route: Pick<Route, 'method' | 'scope' | 'answer'>): boolean {
  const isFile = route.answer === 'application/octet-stream' || route.answer === 'application/jsonl'
  return isFile && route.method === 'GET' && route.scope !== 'open' && route.scope !== 'attempt'
}

/**
 * Makes the question whether a request's key will be looked at, which is asked before the application has seen it. Where no row
 * fits the path as it was sent, the answer is no: nobody gains by writing it in other ways.
 *
 * @returns takes the path without the query and without a proxy's prefix
 */
export function createKeyQuestion({ routes }: Pick<EndpointTable, 'routes'>) {
  const asSent = routes.map(({ method, path, scope }) => {
    const parts = path.split(/(\{\+?\w+\})/).map((part) => {
      if (!part.startsWith('{')) return part.replaceAll(/[.*+?^${}()|[\]\\]/g, '\\$&')
      return part.startsWith('{+') ? '.+' : '[^/]+'
    })
    return { method, scope, pattern: new RegExp(`^${parts.join('')}/?$`, 's') }
  })
  return (method: string, path: string): boolean => {
    const row = asSent.find((each) => each.method === method && each.pattern.test(path))
    return row !== undefined && row.scope !== 'open'
  }
}

const firstPart = (path: string): string => path.split('/')[1] ?? ''

/** How paths begin behind which keys are asked for. */
function guardedParts({ routes }: Pick<EndpointTable, 'routes'>): ReadonlySet<string> {
  const guarded = routes.filter(({ scope }) => scope !== 'open' && scope !== 'attempt')
  return new Set(guarded.map(({ path }) => firstPart(path)))
}

function unknownScope(c: RequestContext, guarded: ReadonlySet<string>): EndpointScope {
  if (!guarded.has(firstPart(c.req.path))) return 'open'
  return c.req.method === 'GET' || c.req.method === 'HEAD' ? 'read' : 'write'
}

/**
 * A key in a header of its own, or a password of HTTP Basic, counts as a bearer's. A browser sends a password that somebody once
 * typed by itself: only the client that has no other way may use one.
 */
function authorizationOf(c: RequestContext, route: Route | undefined): string | undefined {
  const authorization = c.req.header('authorization')
  const takesPassword = route?.takesPassword === true
  const key =
    authorization === undefined
      ? (c.req.header('x-api-key') ?? c.req.header('api-key'))
      : takesPassword
        ? passwordOf(authorization)
        : undefined
  return key === undefined ? authorization : `Bearer ${key}`
}

function passwordOf(authorization: string): string | undefined {
  const encoded = /^basic +([\w+/=-]{1,1024})$/i.exec(authorization.trim())?.[1]
  if (encoded === undefined) return undefined
  return /^[^:]*:(.*)$/s.exec(Buffer.from(encoded, 'base64').toString())?.[1]
}
