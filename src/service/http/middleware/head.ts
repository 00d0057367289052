/**
 * HEAD answers as GET does, without the body. The unread body is cancelled: otherwise its file would stay open, or its
 * event stream would wait for a reader.
 */
import type { MiddlewareHandler } from 'hono'
import type { AppEnvironment } from '../environment.js'

export function dropBodyOfHead(): MiddlewareHandler<AppEnvironment> {
  return async function dropBody(c, next) {
    await next()
    if (c.req.method === 'HEAD') await c.res.body?.cancel()
  }
}
