/**
 * What probes and dashboards ask at the root, as vLLM answers it: `/health`, `/ping`, `/version`, `/metrics`.
 */
import { AppError } from '#base/errors/errors.js'
import type { App, AppOptions, RequestContext } from '../environment.js'

export function bindRoot(app: App, options: Pick<AppOptions, 'version' | 'isEngineAlive' | 'metrics'>): void {
  /** 200 and nothing else, or 503: unlike `/v1/health`, which speaks for the server alone. */
  function answerHealth(c: RequestContext): Response {
    if (!options.isEngineAlive()) {
      throw new AppError('unavailable', 'engine_dead', 'the engine of a base model does not run', {
        hint: 'GET /v1/system-check says more, and the log of the server why',
      })
    }
    return c.body(null, 200)
  }

  app.get('/health', answerHealth)
  app.get('/ping', answerHealth)
  app.post('/ping', answerHealth)
  app.get('/metrics', async (c) =>
    c.body(await options.metrics.text(), 200, { 'content-type': options.metrics.contentType }),
  )
  app.get('/version', (c) => c.json({ version: options.version }))
}
