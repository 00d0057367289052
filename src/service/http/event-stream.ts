/**
 * A route's answer as an event stream, written to the connection itself.
 *
 * A web stream between an event and the socket costs as much as all that the server does for a token; it is there only where
 * an application is called without a port, as some tests do.
 */
import { RESPONSE_ALREADY_SENT } from '@hono/node-server/utils/response'
import type { RequestContext } from './environment.js'
import { type EventStreamOptions, formatEvent, PING, type ServerSentEvent, toEventStream } from './sse.js'

/** Headers of an event stream; the last one turns off buffering in nginx. */
const EVENT_STREAM_HEADERS = {
  'content-type': 'text/event-stream; charset=utf-8',
  'cache-control': 'no-cache, no-transform',
  'x-accel-buffering': 'no',
} as const

/** What is used of Node's response. */
export interface Connection {
  readonly writableNeedDrain: boolean
  readonly destroyed: boolean
  writeHead(status: number, headers: Readonly<Record<string, string>>): unknown
  flushHeaders(): void
  /** @param onSent called when the bytes are no longer needed */
  write(bytes: string | Uint8Array, onSent?: () => void): boolean
  end(): unknown
  destroy(): unknown
  on(event: 'close' | 'drain', listener: () => void): unknown
  once(event: 'close', listener: () => void): unknown
  off(event: 'close' | 'drain', listener: () => void): unknown
}

/** Node's response; null without a port. */
export function connectionOf(c: RequestContext): Connection | null {
  const outgoing = (c.env as { readonly outgoing?: Connection } | undefined)?.outgoing
  return typeof outgoing?.writeHead === 'function' ? outgoing : null
}

/** Answers with status 200 and each event as it comes. */
export function sendEvents(
  c: RequestContext,
  events: AsyncIterable<ServerSentEvent>,
  options: EventStreamOptions,
): Response {
  if (c.req.method === 'HEAD') {
    // nobody reads, so nothing is waited for
    options.onCancel?.()
    return c.body(null, 200, EVENT_STREAM_HEADERS)
  }
  const connection = connectionOf(c)
  if (connection === null) return c.body(toEventStream(events, options), 200, EVENT_STREAM_HEADERS)
  // what middleware and the route have set is among them
  const { headers } = c.body(null, 200, EVENT_STREAM_HEADERS)
  connection.writeHead(200, Object.fromEntries(headers))
  void writeEvents(connection, events, options)
  return RESPONSE_ALREADY_SENT
}

/**
 * Writes each event at the reader's pace. Never rejects: an iterable that throws cuts the connection.
 */
export async function writeEvents(
  connection: Connection,
  events: AsyncIterable<ServerSentEvent>,
  { pingMs = 0, onCancel }: EventStreamOptions,
): Promise<void> {
  const iterator = events[Symbol.asyncIterator]()
  let isGone = false
  let goOn: (() => void) | null = null
  const onDrain = (): void => goOn?.()
  const onClose = (): void => {
    isGone = true
    onCancel?.()
    goOn?.()
  }
  connection.on('drain', onDrain)
  connection.on('close', onClose)
  // one timer for the whole stream, set back by every event: a stream may have thousands
  const ping =
    pingMs > 0
      ? setInterval(() => {
          // a reader that has not read the last one needs no other
          if (!connection.writableNeedDrain) connection.write(PING)
        }, pingMs).unref()
      : undefined
  // with the first event if it is there already, or else alone
  const head = setImmediate(() => connection.flushHeaders())
  try {
    if (connection.destroyed) onClose()
    while (!isGone) {
      const next = await iterator.next()
      clearImmediate(head)
      ping?.refresh()
      if (isGone) break
      if (next.done === true) {
        connection.off('close', onClose)
        connection.end()
        return
      }
      if (connection.write(formatEvent(next.value))) continue
      await new Promise<void>((resolve) => {
        goOn = resolve
      })
      goOn = null
    }
    await iterator.return?.()
  } catch {
    connection.destroy()
  } finally {
    clearImmediate(head)
    clearInterval(ping)
    connection.off('drain', onDrain)
    connection.off('close', onClose)
  }
}
