/**
 * Whether the server lives, whether its parts work, and whether what it stored is whole.
 */
import { AppError } from '#base/errors/errors.js'
import type { VerifyEvent } from '#service/operations/backup/verify-storage.js'
import type { AppOptions } from '../environment.js'
import { connectionOf, sendEvents } from '../event-stream.js'
import { handlers } from '../handlers.js'

const PING_MS = 15_000

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
    'POST /v1/preview/verify': async ({ principal, c }) => {
      options.eventStreams.enter(connectionOf(c), principal.entity)
      const gone = new AbortController()
      const signal = AbortSignal.any([c.req.raw.signal, options.closing, gone.signal])
      const events = await options.services.verify.run(principal, signal)
      return sendEvents(c, format(events, options), { pingMs: PING_MS, onCancel: () => gone.abort() })
    },
  })
}

/** An error after the first byte is the last event. */
async function* format(events: AsyncIterable<VerifyEvent>, { translateError }: Pick<AppOptions, 'translateError'>) {
  try {
    for await (const event of events) yield { event: event.object, data: JSON.stringify(event) }
  } catch (error) {
    const known = error instanceof AppError ? error : translateError(error)
    const { code, message } = known ?? { code: 'verify_failed', message: 'the blobs could not be verified' }
    yield { event: 'error', data: JSON.stringify({ error: { code, message } }) }
  }
}
