/**
 * Authentication, by `Authorization: Bearer` or `X-Api-Key`, and scopes of everything below `/v1` but the public routes. Guards
 * unknown paths too, so no route can be forgotten, and whatever is not known to change nothing needs `write`. Worker routes
 * carry their own tokens.
 */

import type { MiddlewareHandler } from 'hono'
import type { KeyScope } from '#api/wire/access/key-words.js'
import { requireScope } from '#service/operations/access/tenant.js'
import type { AppEnvironment, AppOptions, RequestContext } from '../environment.js'

/** Paths without a key, as the hosted service and vLLM have them. */
export const PUBLIC_PATHS = [
  '/',
  '/health',
  '/ping',
  '/version',
  '/v1/health',
  '/v1/system-check',
  '/v1/preview/base-models',
] as const

/** Where a key is asked for: patterns of routes. */
export const GUARDED_PATHS = ['/v1/*', '/tokenize', '/detokenize', '/apply-template', '/tokenizer_info'] as const

export function bearerAuth(options: Pick<AppOptions, 'services'>): MiddlewareHandler<AppEnvironment> {
  const publicPaths: ReadonlySet<string> = new Set(PUBLIC_PATHS)
  return async function authenticate(c, next) {
    const isRead = c.req.method === 'GET' || c.req.method === 'HEAD'
    if (!(publicPaths.has(c.req.path) && isRead)) {
      const principal = await options.services.auth.authenticate(
        authorizationOf(c),
        c.req.header('compat-project') ?? c.req.header('openai-project'),
      )
      requireScope(principal, neededScope(c.req.method, c.req.path))
      options.services.usage.noteKey(principal.keyId)
      c.set('principal', principal)
    }
    await next()
  }
}

/** Posts that ask for an answer and change nothing. */
const ANSWERS =
  /^(?:\/v1)?\/(?:chat\/completions|completions|responses|tokenize|detokenize|apply-template|inference\/\w+)(?:\/|$)/

/** The scope a request needs. */
export function neededScope(method: string, path: string): KeyScope {
  if (/^\/v1\/preview\/keys(?:\/|$)/.test(path)) return 'admin'
  if (method === 'GET' || method === 'HEAD' || (method === 'POST' && ANSWERS.test(path))) return 'read'
  return 'write'
}

/** A key in a header of its own counts as a bearer's, where there is no other. */
function authorizationOf(c: RequestContext): string | undefined {
  const key = c.req.header('x-api-key')
  return c.req.header('authorization') ?? (key === undefined ? undefined : `Bearer ${key}`)
}
