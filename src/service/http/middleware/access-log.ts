/**
 * One line per request: method, path, status, time, and what a route adds, such as the model. Never bodies, headers or queries.
 */
import type { MiddlewareHandler } from 'hono'
import type { AppEnvironment, AppOptions } from '../environment.js'

const QUIET_PATHS: ReadonlySet<string> = new Set(['/v1/health', '/health', '/ping', '/metrics'])

export function accessLog(options: Pick<AppOptions, 'logger' | 'clock'>): MiddlewareHandler<AppEnvironment> {
  return async function logAccess(c, next) {
    const startMs = options.clock.monotonicMs()
    await next()
    const line = {
      request_id: c.get('requestId'),
      method: c.req.method,
      path: c.req.path.slice(0, 500),
      status: c.res.status,
      duration_ms: Math.round((options.clock.monotonicMs() - startMs) * 10) / 10,
      ...c.get('logFacts'),
    }
    // health checks and worker traffic would drown everything else
    const isQuiet = QUIET_PATHS.has(c.req.path) || c.req.path.startsWith('/internal/')
    if (c.res.status >= 500) options.logger.error(line, 'http.request')
    else options.logger[isQuiet ? 'debug' : 'info'](line, 'http.request')
  }
}
