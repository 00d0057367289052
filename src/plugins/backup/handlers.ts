/**
 * Looks through the blobs of a running service, and tells how far it is.
 */
import { AppError } from '#base/errors/errors.js'
import type { AppOptions } from '#service/http/environment.js'
import { connectionOf, sendEvents } from '#service/http/event-stream.js'
import type { PluginHandlers, PluginService } from '#service/plugin.js'
import type { verifyEndpoints } from './endpoints.js'
import { createVerifyService, type VerifyEvent } from './verify-storage.js'

const PING_MS = 15_000

export function verifyHandlers({ app, context }: PluginService): PluginHandlers<typeof verifyEndpoints> {
  const verify = createVerifyService(context)
  return {
    'POST /v1/preview/verify': async ({ principal, c }) => {
      app.eventStreams.enter(connectionOf(c), principal.entity)
      const gone = new AbortController()
      const signal = AbortSignal.any([c.req.raw.signal, app.closing, gone.signal])
      const events = await verify.run(principal, signal)
      return sendEvents(c, format(events, app), { pingMs: PING_MS, onCancel: () => gone.abort() })
    },
  }
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
