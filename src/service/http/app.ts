/**
 * The HTTP application: middleware in order, then the handlers of all endpoints, a file a resource. What there is stands in the
 * table, `contract/endpoints/table.ts`; handlers of plugins are loaded when one is called.
 *
 * Building it has no side effects. A test that needs no port calls `app.request(path)`.
 */
import { Hono } from 'hono'
import { getPathNoStrict } from 'hono/utils/url'
import { AppError, shuttingDown } from '#base/errors/errors.js'
import type { App, AppEnvironment, AppOptions } from './environment.js'
import { bindEndpoints, type Handlers, patternOf } from './handlers.js'
import { accessLog } from './middleware/access-log.js'
import { bearerAuth } from './middleware/auth.js'
import { browserGuard } from './middleware/browser-guard.js'
import { handleErrors } from './middleware/errors.js'
import { dropBodyOfHead } from './middleware/head.js'
import { limitRequests } from './middleware/rate-limit.js'
import { requestId } from './middleware/request-id.js'
import { aboutHandlers, unknownPath } from './routes/about.js'
import { accessHandlers } from './routes/access.js'
import { activityHandlers } from './routes/activity.js'
import { baseModelHandlers } from './routes/base-models.js'
import { chatHandlers } from './routes/chat-completions.js'
import { checkpointHandlers } from './routes/checkpoints.js'
import { fileHandlers } from './routes/files.js'
import { healthHandlers } from './routes/health.js'
import { completionHandlers } from './routes/inference/completions.js'
import { tokenHandlers } from './routes/inference/tokens.js'
import { logHandlers } from './routes/log.js'
import { modelHandlers } from './routes/models.js'
import { rootHandlers } from './routes/root.js'
import { sessionHandlers } from './routes/sessions.js'
import { trainingJobHandlers } from './routes/training-jobs.js'
import { requireLease, workerHandlers } from './routes/worker.js'

/** One handler for each row of the table of endpoints. */
function createHandlers(options: AppOptions): Handlers {
  return {
    ...aboutHandlers(options),
    ...accessHandlers(options),
    ...activityHandlers(options),
    ...baseModelHandlers(options),
    ...chatHandlers(options),
    ...checkpointHandlers(options),
    ...completionHandlers(options),
    ...fileHandlers(options),
    ...healthHandlers(options),
    ...logHandlers(options),
    ...modelHandlers(options),
    ...rootHandlers(options),
    ...sessionHandlers(options),
    ...tokenHandlers(options),
    ...trainingJobHandlers(options),
    ...workerHandlers(options),
  }
}

/** Answered to the end: that a server takes no more work does not mean that it is dead. */
const LIVES = '/v1/health'

export function createApp(options: AppOptions): App {
  // `/v1/health/` is `/v1/health`: middleware and routes see the path without its last slash, and without a proxy's prefix
  const { publicAddress } = options
  const app = new Hono<AppEnvironment>({ getPath: (request) => publicAddress.pathWithin(getPathNoStrict(request)) })
  app.onError(handleErrors(options))

  app.use('*', requestId(options))
  app.use('*', accessLog(options))
  app.use('*', dropBodyOfHead())
  app.use(
    '*',
    browserGuard({
      allowedHosts: [...options.allowedHosts, ...publicAddress.hosts],
      allowedOrigins: options.allowedOrigins,
      publicOrigin: publicAddress.origin,
    }),
  )
  app.use('*', async function refuseWhileClosing(c, next) {
    if (options.closing.aborted) {
      // whoever sends the next request over another connection may meet another server
      c.header('connection', 'close')
      if (c.req.path !== LIVES) throw shuttingDown()
    }
    await next()
  })
  app.use('*', async function provideBodies(c, next) {
    c.set('bodies', options.bodies)
    await next()
  })
  app.use('*', bearerAuth(options))
  app.use('*', limitRequests(options))
  const proven = new Set(options.table.routes.filter(({ scope }) => scope === 'attempt').map(patternOf))
  for (const path of proven) app.use(path, requireLease(options))
  bindEndpoints(app, createHandlers(options), options)

  app.notFound(function answerUnknown(c) {
    const others = app.routes.filter((route) => route.method !== 'ALL' && matches(route.path, c.req.path))
    if (others.length === 0) throw unknownPath(c.req.method, c.req.path)
    const methods = [...new Set(others.map((route) => route.method))].join(', ')
    c.header('allow', methods)
    throw new AppError('invalid_request', 'method_not_allowed', 'Method Not Allowed', {
      hint: `this path takes ${methods}`,
    })
  })
  return app
}

/** Whether a route pattern (`/a/:b`) fits a path. */
function matches(pattern: string, path: string): boolean {
  const expected = pattern.split('/')
  const given = path.split('/')
  return (
    expected.length === given.length &&
    expected.every((part, i) => part === given[i] || (part.startsWith(':') && given[i] !== ''))
  )
}
