/**
 * HEAD answers as GET does, without the body. Nobody would read that body, so what it holds is let go: a file stays open and an event
 * stream waits until somebody says that no reader comes.
 */
import type { MiddlewareHandler } from 'hono'
import type { AppEnvironment } from '../environment.js'

export function dropBodyOfHead(): MiddlewareHandler<AppEnvironment> {
  return async function dropBody(c, next) {
    await next()
    if (c.req.method === 'HEAD') await c.res.body?.cancel()
  }
}
