/**
 * `/v1/health`, `/v1/system-check`, `/v1/whoami` and `/v1/preview/verify`.
 */
import { AppError } from '#base/errors/errors.js'
import type { VerifyEvent } from '#service/operations/backup/verify-storage.js'
import type { App, AppOptions } from '../environment.js'
import { sendEvents } from '../event-stream.js'

const PING_MS = 15_000

export function bindHealth(app: App, options: AppOptions): void {
  app.get('/v1/health', (c) => c.json({ status: 'ok', version: options.version }))
  app.get('/v1/system-check', async (c) => {
    const { isHealthy, body } = await options.services.systemCheck.run()
    return c.json(body, isHealthy ? 200 : 503)
  })
  app.post('/v1/preview/verify', (c) => {
    const gone = new AbortController()
    const signal = AbortSignal.any([c.req.raw.signal, options.closing, gone.signal])
    const events = options.services.verify.run(c.get('principal'), signal)
    return sendEvents(c, format(events, options), { pingMs: PING_MS, onCancel: () => gone.abort() })
  })
  app.get('/v1/whoami', (c) => {
    const principal = c.get('principal')
    return c.json({
      entity: principal.entity,
      project: principal.project,
      scope: principal.scope,
      key_id: principal.keyId,
      key_prefix: principal.keyPrefix,
      version: options.version,
    })
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
