/**
 * One stream of news for all windows of a browser that the same key is signed in with: a browser opens six connections to a
 * server and no more. Runs in a shared worker, where there is none in the window itself; knows no component, no address and no
 * storage.
 */
import type { Activity } from '#contract/wire/activity.js'
import { elapsedMs, nowMs } from './clock.js'
import { ALIVE_MS, type FromWindow, type ToWindow } from './feed-words.js'
import { followStream } from './streams.js'

const SILENT_MS = 3 * ALIVE_MS + 5000
/** A stream that took longer to open may have missed what came behind the first answers. */
const LATE_MS = 1000

interface Listener {
  readonly send: (message: ToWindow) => void
  bearer: string
  /** A refused credential is not tried again. */
  isRefused: boolean
  heardMs: number
}

interface Stream {
  readonly listeners: Set<Listener>
  readonly cancel: AbortController
  live: true | string | null
}

const streams = new Map<string, Stream>()
let sweeper: ReturnType<typeof setInterval> | undefined

/** Serves a window over its port until it leaves. */
export function serveFeed(port: MessagePort): void {
  const send = (message: ToWindow): void => port.postMessage(message)
  let own: { readonly key: string; readonly listener: Listener } | null = null
  port.onmessage = ({ data }: MessageEvent<FromWindow>) => {
    const key = data.type === 'listen' ? `${data.who} ${data.url}` : null
    if (own !== null && own.key !== key) {
      leave(own.key, own.listener)
      own = null
    }
    if (data.type !== 'listen' || key === null) return
    own ??= { key, listener: { send, bearer: data.bearer, isRefused: false, heardMs: 0 } }
    if (own.listener.bearer !== data.bearer) {
      own.listener.bearer = data.bearer
      own.listener.isRefused = false
    }
    own.listener.heardMs = elapsedMs()
    join(key, own.listener, data.url)
  }
}

function join(key: string, listener: Listener, url: string): void {
  sweeper ??= setInterval(sweep, ALIVE_MS)
  const known = streams.get(key)
  if (known !== undefined) {
    if (known.listeners.has(listener)) return
    known.listeners.add(listener)
    if (known.live !== null) listener.send({ type: 'live', live: known.live })
    return
  }
  const stream: Stream = { listeners: new Set([listener]), cancel: new AbortController(), live: null }
  streams.set(key, stream)
  void follow(key, stream, url)
}

function leave(key: string, listener: Listener): void {
  const stream = streams.get(key)
  if (stream === undefined) return
  stream.listeners.delete(listener)
  if (stream.listeners.size > 0) return
  stream.cancel.abort()
  streams.delete(key)
}

/** Windows that were closed without a word. */
function sweep(): void {
  for (const [key, { listeners }] of [...streams]) {
    for (const listener of [...listeners]) if (elapsedMs() - listener.heardMs > SILENT_MS) leave(key, listener)
  }
  if (streams.size > 0) return
  clearInterval(sweeper)
  sweeper = undefined
}

async function follow(key: string, stream: Stream, url: string): Promise<void> {
  const { listeners, cancel } = stream
  const tell = (message: ToWindow): void => {
    for (const { send } of [...listeners]) send(message)
  }
  const tellLive = (isOpen: boolean): void => {
    stream.live = isOpen ? true : new Date(nowMs()).toISOString()
    tell({ type: 'live', live: stream.live })
  }
  const beganMs = elapsedMs()
  let used: Listener | undefined
  await followStream(
    (headers, signal) => {
      used = [...listeners].find(({ isRefused }) => !isRefused)
      return fetch(url, {
        headers: { ...headers, authorization: `Bearer ${used?.bearer ?? ''}` },
        signal,
        credentials: 'omit',
        cache: 'no-store',
      })
    },
    {
      onEvent: (data) => {
        const event = JSON.parse(data) as Activity
        if (event.type === 'reset' || (event.type === 'ready' && elapsedMs() - beganMs > LATE_MS))
          tell({ type: 'missed' })
        else if (event.type !== 'ready') tell({ type: 'event', event })
        return false
      },
      onLive: tellLive,
      onError: () => {
        if (used !== undefined) used.isRefused = true
        tellLive(false)
      },
    },
    cancel.signal,
  )
  if (cancel.signal.aborted || streams.get(key) !== stream) return
  // refused: another window of the same key may hold a session that is still good
  if ([...listeners].some(({ isRefused }) => !isRefused)) await follow(key, stream, url)
  else streams.delete(key)
}
