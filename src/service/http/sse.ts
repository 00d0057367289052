/**
 * Server-sent events from an async iterable: pulled at the reader's pace, ended when the reader goes away.
 */

export interface ServerSentEvent {
  readonly id?: string
  readonly event?: string
  readonly data: string
}

export interface EventStreamOptions {
  /** How often a comment is sent while nothing happens, milliseconds; 0 for never. Default 0. */
  readonly pingMs?: number
  /** Called as soon as the reader goes away, so that the iterable can stop waiting. */
  readonly onCancel?: () => void
}

/** Comment line sent while nothing happens, so that proxies keep the connection. */
export const PING = ': ping\n\n'

/**
 * A body that sends each event as it comes.
 */
export function toEventStream(
  events: AsyncIterable<ServerSentEvent>,
  options: EventStreamOptions = {},
): ReadableStream<Uint8Array> {
  const iterator = events[Symbol.asyncIterator]()
  const encoder = new TextEncoder()
  const pingMs = options.pingMs ?? 0
  // one timer for the whole stream, set back by every event: a stream may have thousands
  let ping: NodeJS.Timeout | undefined
  return new ReadableStream<Uint8Array>({
    pull: async (controller) => {
      if (pingMs > 0) {
        ping ??= setInterval(() => {
          // a reader that has not read the last one needs no other
          if ((controller.desiredSize ?? 0) > 0) controller.enqueue(encoder.encode(PING))
        }, pingMs).unref()
      }
      try {
        const next = await iterator.next()
        ping?.refresh()
        if (next.done !== true) {
          controller.enqueue(encoder.encode(formatEvent(next.value)))
          return
        }
        clearInterval(ping)
        controller.close()
      } catch (error) {
        clearInterval(ping)
        throw error
      }
    },
    cancel: async () => {
      clearInterval(ping)
      options.onCancel?.()
      await iterator.return?.()
    },
  })
}

/** @throws {Error} if `id` or `event` has a line break: it could forge other fields */
export function formatEvent(event: ServerSentEvent): string {
  let text = ''
  for (const [field, value] of [
    ['id', event.id],
    ['event', event.event],
  ] as const) {
    if (value === undefined) continue
    if (/[\r\n\0]/.test(value)) throw new Error(`the ${field} of a server-sent event must be one line`)
    text += `${field}: ${value}\n`
  }
  for (const line of event.data.split(/\r\n|[\r\n]/)) text += `data: ${line}\n`
  return `${text}\n`
}
