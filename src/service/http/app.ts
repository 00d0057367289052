/**
 * The HTTP application: middleware in order, then one line per resource. The server's table of contents.
 *
 * Building it has no side effects. A test that needs no port calls `app.request(path)`.
 */
import { Hono } from 'hono'
import { AppError, shuttingDown } from '#base/errors/errors.js'
import type { App, AppEnvironment, AppOptions } from './environment.js'
import { accessLog } from './middleware/access-log.js'
import { bearerAuth, GUARDED_PATHS } from './middleware/auth.js'
import { browserGuard } from './middleware/browser-guard.js'
import { handleErrors } from './middleware/errors.js'
import { dropBodyOfHead } from './middleware/head.js'
import { limitRequests } from './middleware/rate-limit.js'
import { requestId } from './middleware/request-id.js'
import { bindAbout, unknownPath } from './routes/about.js'
import { bindAccess } from './routes/access.js'
import { bindChatCompletions } from './routes/chat-completions.js'
import { bindCheckpoints } from './routes/checkpoints.js'
import { bindDocs } from './routes/docs.js'
import { bindFiles } from './routes/files.js'
import { bindFineTuning } from './routes/fine-tuning.js'
import { bindHealth } from './routes/health.js'
import { bindCompletions } from './routes/inference/completions.js'
import { bindMessages } from './routes/inference/messages.js'
import { bindResponses } from './routes/inference/responses.js'
import { bindTokens } from './routes/inference/tokens.js'
import { bindLog } from './routes/log.js'
import { bindModels } from './routes/models.js'
import { bindRoot } from './routes/root.js'
import { bindTrainingJobs } from './routes/training-jobs.js'
import { bindWandb } from './routes/wandb.js'
import { bindWebhooks } from './routes/webhooks.js'
import { bindBaseModels } from './routes/weights/base-models.js'
import { bindWorker } from './routes/worker.js'

export function createApp(options: AppOptions): App {
  // `/v1/health/` is `/v1/health`: middleware and routes see the path without its last slash
  const app = new Hono<AppEnvironment>({ strict: false })
  app.onError(handleErrors(options))

  app.use('*', requestId(options))
  app.use('*', accessLog(options))
  app.use('*', dropBodyOfHead())
  app.use('*', browserGuard(options.allowedHosts))
  app.use('*', async function refuseWhileClosing(_, next) {
    if (options.closing.aborted) throw shuttingDown()
    await next()
  })
  app.use('*', async function provideBodies(c, next) {
    c.set('bodies', options.bodies)
    await next()
  })
  for (const guarded of GUARDED_PATHS) app.use(guarded, bearerAuth(options))
  app.use('*', limitRequests(options))

  bindAbout(app, options)
  bindDocs(app, options)
  bindRoot(app, options)
  bindHealth(app, options)
  bindAccess(app, options)
  bindModels(app, options)
  bindBaseModels(app, options)
  bindCheckpoints(app, options)
  bindLog(app, options)
  bindTrainingJobs(app, options)
  bindFiles(app, options)
  bindFineTuning(app, options)
  bindChatCompletions(app, options)
  bindCompletions(app, options)
  bindResponses(app, options)
  bindMessages(app, options)
  bindTokens(app, options)
  bindWandb(app, options)
  bindWebhooks(app, options)
  bindWorker(app, options)

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
