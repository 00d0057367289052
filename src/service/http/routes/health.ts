/**
 * Whether the server lives, and whether its parts work.
 */
import { AppError } from '#base/errors/errors.js'
import type { AppOptions } from '../environment.js'
import { handlers } from '../handlers.js'

export function healthHandlers(options: AppOptions) {
  return handlers({
    'GET /v1/health': () => ({ status: 'ok', version: options.version }),
    'GET /v1/ready': async () => {
      const faults = await options.services.systemCheck.faults()
      if (faults.length === 0) return { status: 'ready', version: options.version } as const
      throw new AppError('unavailable', 'not_ready', `the server cannot work: ${faults.join('; ')}`, {
        hint: 'it comes back by itself when they answer; GET /v1/system-check says more',
        details: { retry_after_seconds: 5 },
      })
    },
    'GET /v1/system-check': async ({ c }) => {
      const { isHealthy, body } = await options.services.systemCheck.run()
      return c.json(body, isHealthy ? 200 : 503)
    },
  })
}
