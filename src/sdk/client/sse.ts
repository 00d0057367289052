/**
 * Server-sent events of an open answer, over `eventsource-parser`. Knows no endpoint.
 */
import { createParser, type EventSourceMessage } from 'eventsource-parser'
import { ProtocolError } from './errors.js'

/** Whether an answer is an event stream. */
export function isEventStream(response: Response): boolean {
  return /^text\/event-stream\b/i.test(response.headers.get('content-type') ?? '')
}

/**
 * Yields the messages of an answer in order; the body is cancelled when the caller stops early.
 *
 * @throws what the answer's body fails with: a `ConnectionError` when it breaks, the signal's reason when it was aborted
 */
export async function* readEvents(response: Response): AsyncGenerator<EventSourceMessage> {
  if (response.body === null) return
  const queue: EventSourceMessage[] = []
  const parser = createParser({ onEvent: (event) => queue.push(event) })
  const decoder = new TextDecoder()
  const reader = response.body.getReader()
  try {
    for (;;) {
      const chunk = await reader.read()
      if (chunk.done) return
      parser.feed(decoder.decode(chunk.value, { stream: true }))
      yield* queue.splice(0)
    }
  } finally {
    await reader.cancel().catch(() => undefined)
  }
}

/** Reads messages out of bytes as they pass by; `onData` is told of each one's text. */
export function createEventReader(onData: (data: string) => void): (bytes: Uint8Array) => void {
  const parser = createParser({ onEvent: (event) => onData(event.data) })
  const decoder = new TextDecoder()
  return (bytes) => parser.feed(decoder.decode(bytes, { stream: true }))
}

/** @throws {ProtocolError} for an answer in one piece where events were asked for */
export function assertStream(response: Response, source: string): void {
  if (isEventStream(response)) return
  const type = response.headers.get('content-type') ?? 'nothing'
  throw new ProtocolError(`${source} answered with ${type}, expected a stream of events`)
}
