/**
 * What happens on the server: as a page, or followed as server-sent events.
 */
import type { Activity } from '#contract/wire/activity.js'
import type { AppOptions } from '../environment.js'
import { connectionOf, sendEvents } from '../event-stream.js'
import { handlers } from '../handlers.js'

const PING_MS = 15_000

export function activityHandlers({ services: { activity }, closing, clock, eventStreams }: AppOptions) {
  return handlers({
    'GET /v1/preview/events': ({ principal, query, c }) => {
      const asked = query()
      if (c.req.header('accept')?.includes('text/event-stream') !== true) return activity.list(principal, asked)
      eventStreams.enter(connectionOf(c), principal.entity)
      const after = c.req.header('last-event-id') ?? asked.after
      const gone = new AbortController()
      const signal = AbortSignal.any([c.req.raw.signal, closing, gone.signal])
      const events = activity.follow(principal, asked, after, signal)
      return sendEvents(c, format(events, noticeOfEnd), { pingMs: PING_MS, onCancel: () => gone.abort() })
    },
  })

  /** The last word of a server that stops; it has no place in the stream. */
  function noticeOfEnd(): Omit<Activity, 'id'> | null {
    if (!closing.aborted) return null
    const created = new Date(clock.nowMs()).toISOString()
    return { type: 'server.notice', created_at: created, project: null, model_id: null, data: { notice: 'stopping' } }
  }
}

async function* format(events: AsyncIterable<Activity>, lastWord: () => Omit<Activity, 'id'> | null) {
  for await (const event of events) yield { id: event.id, event: event.type, data: JSON.stringify(event) }
  const notice = lastWord()
  if (notice !== null) yield { event: notice.type, data: JSON.stringify(notice) }
}
