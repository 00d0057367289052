/**
 * Authentication, by `Authorization: Bearer` or `X-Api-Key`, and scopes of everything below `/v1` but the public routes. Guards
 * unknown paths too, so no route can be forgotten, and whatever is not known to change nothing needs `write`. Worker routes
 * carry their own tokens.
 */

import type { MiddlewareHandler } from 'hono'
import type { KeyScope } from '#contract/wire/access/key-words.js'
import { requireScope } from '#service/operations/access/tenant.js'
import type { AppEnvironment, AppOptions, RequestContext } from '../environment.js'

/** Paths without a key, as the hosted service and vLLM have them. */
export const PUBLIC_PATHS = [
  '/',
  '/health',
  '/ping',
  '/version',
  '/metrics',
  '/v1/health',
  '/v1/system-check',
  '/v1/preview/base-models',
] as const

/** W&B's client sends its key as the password of HTTP Basic. Whether a GraphQL document changes something is seen when it is read. */
const WANDB_PATHS = ['/graphql', '/files/*'] as const

/** Where a key is asked for: patterns of routes. */
export const GUARDED_PATHS = [
  '/v1/*',
  '/tokenize',
  '/detokenize',
  '/apply-template',
  '/tokenizer_info',
  '/invocations',
  ...WANDB_PATHS,
] as const

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
  /^(?:\/v1)?\/(?:chat\/completions|completions|responses|messages|invocations|tokenize|detokenize|apply-template|graphql|inference\/\w+)(?:\/|$)/

/** The scope a request needs. */
export function neededScope(method: string, path: string): KeyScope {
  if (/^\/v1\/preview\/keys(?:\/|$)/.test(path)) return 'admin'
  const isRead = method === 'GET' || method === 'HEAD'
  // everybody shares base models, and the server's disk
  if (!isRead && /^\/v1\/preview\/(?:base-models|verify)(?:\/|$)/.test(path)) return 'admin'
  if (isRead || (method === 'POST' && ANSWERS.test(path))) return 'read'
  return 'write'
}

/** A key in a header of its own, or a password of HTTP Basic, counts as a bearer's. */
function authorizationOf(c: RequestContext): string | undefined {
  const authorization = c.req.header('authorization')
  const key =
    authorization === undefined
      ? c.req.header('x-api-key')
      : isWandb(c.req.path)
        ? passwordOf(authorization)
        : undefined
  return key === undefined ? authorization : `Bearer ${key}`
}

/** A browser sends a password that somebody once typed by itself: only the client that has no other way may use one. */
function isWandb(path: string): boolean {
  return path === '/graphql' || path.startsWith('/files/')
}

function passwordOf(authorization: string): string | undefined {
  const encoded = /^basic +([\w+/=-]{1,1024})$/i.exec(authorization.trim())?.[1]
  if (encoded === undefined) return undefined
  return /^[^:]*:(.*)$/s.exec(Buffer.from(encoded, 'base64').toString())?.[1]
}
