/**
 * Streams of events: read one by one; a stream that breaks is opened again after the last event.
 */

import { createParser } from 'eventsource-parser'
import { ApiError, readError } from './api-error.js'

/** Waits before a stream is opened again; up to a quarter more, so that many browsers do not come at once. */
const BACKOFF_MS = [1000, 2000, 5000, 15_000, 30_000]

export interface StreamWatcher {
  /** @returns true for the last event: the stream is not opened again */
  readonly onEvent: (data: string) => boolean
  /** Whether the stream is open now. */
  readonly onLive: (isLive: boolean) => void
  /** The request was refused: there is nothing to wait for. */
  readonly onError: (error: ApiError) => void
}

/** Sends the request of a stream. */
type Send = (headers: Readonly<Record<string, string>>, signal: AbortSignal) => Promise<Response>

/** Follows until the last event, a refusal, or the signal. Never rejects. */
export async function followStream(send: Send, watcher: StreamWatcher, signal: AbortSignal): Promise<void> {
  let lastId: string | null = null
  let failures = 0
  while (!signal.aborted) {
    try {
      const headers: Record<string, string> = { accept: 'text/event-stream' }
      if (lastId !== null) headers['last-event-id'] = lastId
      const response = await send(headers, signal)
      if (!response.ok) throw await readError(response)
      watcher.onLive(true)
      let isEnded = false
      await readEvents(response, (data, id) => {
        failures = 0
        lastId = id ?? lastId
        if (watcher.onEvent(data)) isEnded = true
      })
      if (isEnded) return
    } catch (error) {
      if (signal.aborted) return
      const isRefused = error instanceof ApiError && error.status >= 400 && error.status < 500 && error.status !== 429
      if (isRefused) return watcher.onError(error)
    }
    watcher.onLive(false)
    await pause(BACKOFF_MS[Math.min(failures, BACKOFF_MS.length - 1)] ?? 0, signal)
    failures += 1
  }
}

/** Calls for the data and the id of each event of a stream, until it ends. */
export async function readEvents(
  response: Response,
  onData: (data: string, id: string | undefined) => void,
): Promise<void> {
  const parser = createParser({ onEvent: ({ data, id }) => onData(data, id) })
  const decoder = new TextDecoder()
  const reader = response.body?.getReader()
  if (reader === undefined) return
  for (;;) {
    const { done, value } = await reader.read()
    if (done) return
    parser.feed(decoder.decode(value, { stream: true }))
  }
}

function pause(ms: number, signal: AbortSignal): Promise<void> {
  const [share = 0] = crypto.getRandomValues(new Uint8Array(1))
  return new Promise((resolve) => {
    const timer = setTimeout(resolve, ms * (1 + share / 1024))
    signal.addEventListener('abort', () => {
      clearTimeout(timer)
      resolve()
    })
  })
}
