/**
 * Bearer authentication of everything below `/v1` but the public routes. Guards unknown paths too, so no route can be
 * forgotten. Worker routes carry their own tokens.
 */
import type { MiddlewareHandler } from 'hono'
import type { AppEnvironment, AppOptions } from '../environment.js'

/** Paths without a key, as the hosted service publishes them. */
export const PUBLIC_PATHS = ['/', '/v1/health', '/v1/system-check', '/v1/preview/base-models'] as const

export function bearerAuth(options: Pick<AppOptions, 'services'>): MiddlewareHandler<AppEnvironment> {
  const publicPaths: ReadonlySet<string> = new Set(PUBLIC_PATHS)
  return async function authenticate(c, next) {
    const isRead = c.req.method === 'GET' || c.req.method === 'HEAD'
    if (!(publicPaths.has(c.req.path) && isRead)) {
      c.set('principal', await options.services.auth.authenticate(c.req.header('authorization')))
    }
    await next()
  }
}
