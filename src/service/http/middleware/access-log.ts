/**
 * One line and one count per request: method, path, status, time, and what a route adds, such as the model. Never bodies, headers or queries.
 *
 * Where there is a connection the line is written behind the answer's first bytes: a write of a log waits for whoever reads it.
 */
import type { MiddlewareHandler } from 'hono'
import { matchedRoutes } from 'hono/route'
import type { AppEnvironment, AppOptions, RequestContext } from '../environment.js'
import { connectionOf } from '../event-stream.js'

const QUIET_PATHS: ReadonlySet<string> = new Set(['/v1/health', '/v1/ready', '/health', '/ping', '/metrics'])

const METHODS: ReadonlySet<string> = new Set(['GET', 'HEAD', 'POST', 'PUT', 'PATCH', 'DELETE', 'OPTIONS'])

export function accessLog(
  options: Pick<AppOptions, 'logger' | 'clock' | 'metrics'>,
): MiddlewareHandler<AppEnvironment> {
  return async function logAccess(c, next) {
    const startMs = options.clock.monotonicMs()
    await next()
    const durationMs = options.clock.monotonicMs() - startMs
    options.metrics.observeHttp({ method: methodOf(c), route: routeOf(c), status: c.res.status, durationMs })
    const line = {
      request_id: c.get('requestId'),
      method: c.req.method,
      path: shownPath(c),
      status: c.res.status,
      duration_ms: Math.round(durationMs * 10) / 10,
      ...c.get('logFacts'),
    }
    // health checks and worker traffic would drown everything else
    const isQuiet = QUIET_PATHS.has(c.req.path) || c.req.path.startsWith('/internal/')
    const level = c.res.status >= 500 ? 'error' : isQuiet ? 'debug' : 'info'
    const write = (): void => options.logger[level](line, 'http.request')
    if (connectionOf(c) === null) write()
    else setImmediate(write)
  }
}

/** The pattern of the route that answered; paths that nothing matches are one, or a stranger could make counters without end. */
function routeOf(c: RequestContext): string {
  return matchedRoutes(c).findLast(({ method }) => method !== 'ALL')?.path ?? 'none'
}

/** The path as logs show it: what looks like a secret of this server is none of theirs. */
export function shownPath(c: RequestContext): string {
  return c.req.path.replaceAll(/\bty[a-z_]*_\w{16,}/g, 'ty_…').slice(0, 500)
}

/** Anybody may invent methods. */
function methodOf(c: RequestContext): string {
  return METHODS.has(c.req.method) ? c.req.method : 'other'
}
