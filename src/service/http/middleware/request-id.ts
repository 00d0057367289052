/**
 * One id per request: taken from `X-Request-Id` if it is a plain token, else new; sent back on every answer.
 */
import type { MiddlewareHandler } from 'hono'
import type { AppEnvironment, AppOptions } from '../environment.js'

export function requestId(options: Pick<AppOptions, 'ids'>): MiddlewareHandler<AppEnvironment> {
  return async function assignRequestId(c, next) {
    const given = c.req.header('x-request-id')
    const id = given !== undefined && /^[\w.:-]{1,128}$/.test(given) ? given : `req_${options.ids.uuid()}`
    c.set('requestId', id)
    c.header('x-request-id', id)
    await next()
  }
}
