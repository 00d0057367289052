/**
 * What probes and dashboards ask at the root, as vLLM answers it: `/health`, `/ping`, `/version`, `/metrics`.
 */
import { AppError } from '#base/errors/errors.js'
import type { AppOptions } from '../environment.js'
import { handlers } from '../handlers.js'

export function rootHandlers(options: Pick<AppOptions, 'version' | 'isEngineAlive' | 'metrics'>) {
  return handlers({
    /** 200 and nothing else, or 503: unlike `/v1/health`, which speaks for the server alone. */
    'GET /health': ({ c }) => {
      if (!options.isEngineAlive()) {
        throw new AppError('unavailable', 'engine_dead', 'the engine of a base model does not run', {
          hint: 'GET /v1/system-check says more, and the log of the server why',
        })
      }
      return c.body(null, 200)
    },
    'GET /metrics': async ({ c }) =>
      c.body(await options.metrics.text(), 200, { 'content-type': options.metrics.contentType }),
    'GET /version': () => ({ version: options.version }),
  })
}
