/**
 * Limits of connections: one request at a time, a bounded number waiting behind it, a client that reads its answers, and who
 * gives way when there are too many (`connection-places.ts`).
 *
 * Node starts all requests that a client sends ahead (pipelining) at once, though answers go out in order, and it does
 * not tell a waiting answer that its connection has closed. So here a request starts when the one before it is
 * answered, and waiting requests are dropped with their connection. Knows nothing of routes.
 */
import type { IncomingMessage, Server, ServerResponse } from 'node:http'
import type { Socket } from 'node:net'
import { createPlaces, type Place } from './connection-places.js'
import { networkOf } from './network.js'
import { createOpenBodies } from './open-bodies.js'
import { answerToUnreadable } from './unreadable.js'

export interface ConnectionLimits {
  /** Open connections; a further one takes the place of another (`connection-places.ts`), or is closed. */
  readonly maxConnections: number
  /** Requests of one connection that may wait behind the one that runs; with more the connection is cut. */
  readonly maxPipelinedRequests: number
  /** Bytes of answers that clients have not read, all connections together; beyond it those that were unread longest are cut. */
  readonly maxUnreadBytes: number
  /** How long a client may take nothing of what waits for it, milliseconds. Default `UNREAD_MS`. */
  readonly unreadMs?: number
}

/** Why a connection was ended by the server. */
export type CutReason =
  | 'too_many_connections'
  | 'too_many_pipelined_requests'
  | 'answer_not_read'
  | 'too_many_unread_bytes'

/** What a request may say of its connection. */
export interface ConnectionHandle {
  /** The request has shown a key of this entity. @returns false where connections of others would have no room any more */
  prove(entity: string): boolean
}

export type RequestHandler = (
  incoming: IncomingMessage,
  outgoing: ServerResponse,
  connection: ConnectionHandle,
) => unknown

/** Who sends requests: `public-address.ts`. */
export interface Senders {
  /** Address of whoever sent a request. */
  senderOf(incoming: IncomingMessage): string | null
  /** Whether requests of many come from there. */
  isProxy(address: string): boolean
}

const DIRECT: Senders = { senderOf: ({ socket }) => socket.remoteAddress ?? null, isProxy: () => false }

export interface GovernOptions {
  readonly limits: ConnectionLimits
  /** Told of connections that are ended: of the first for a reason at once, of others each second. */
  readonly onCut: (reason: CutReason, count: number) => void
  /** Default: addresses of the connections, and no proxies. */
  readonly senders?: Senders
  /** Whether a request's key will be looked at: at an open route one is none, whatever a header says. Default: always. */
  readonly asksForKey?: (incoming: IncomingMessage) => boolean
}

/** A person may have stopped a program that reads a stream to look at it. */
export const UNREAD_MS = 300_000
/** How often is looked for bytes that nobody reads. */
const SWEEP_MS = 1000
/** With so many waiting a connection is not read until they have run; until then its end is seen at once. What one read brought waits as well. */
const PAUSE_AT = 128
/** Waiting requests of all connections, as multiples of what one may have: each takes some kilobytes. */
const WAITING_SHARES = 16

interface Exchange {
  readonly incoming: IncomingMessage
  readonly outgoing: ServerResponse
}

/** With a key: a body that is slower than this for a second stands still. */
const STALLED_BYTES = 8192

/** One connection's requests. */
interface Line extends Place {
  readonly socket: Socket
  running: Exchange | null
  readonly waiting: Exchange[]
  isPaused: boolean
  unreadSinceMs: number | null
  /** Bytes that had come when it was looked at last; what has just begun is not slow. */
  bytesSeen: number
}

/**
 * Hands the server's requests to `handle`, one of each connection at a time, and holds its connections to the limits.
 *
 * @returns stops looking for unread bytes
 */
export function governConnections(
  server: Server,
  handle: RequestHandler,
  { limits, onCut, senders = DIRECT, asksForKey = () => true }: GovernOptions,
): () => void {
  const { maxConnections, maxPipelinedRequests, maxUnreadBytes, unreadMs = UNREAD_MS } = limits
  const lines = new Map<Socket, Line>()
  const busy = new Set<Line>()
  const places = createPlaces<Line>({ maxPlaces: maxConnections, isWaiting })
  const openBodies = createOpenBodies()
  const cuts = createCutCounts(onCut)
  let waitingCount = 0

  function cut(socket: Socket, reason: CutReason): void {
    cuts.note(reason)
    socket.destroy()
  }

  function open(socket: Socket): void {
    if (lines.size >= maxConnections) {
      const next = places.next()
      cut(next?.socket ?? socket, 'too_many_connections')
      if (next === undefined) return
      forget(next)
    }
    const address = socket.remoteAddress ?? ''
    const line: Line = {
      socket,
      running: null,
      waiting: [],
      isPaused: false,
      unreadSinceMs: null,
      bytesSeen: Number.NEGATIVE_INFINITY,
      network: networkOf(address),
      entity: null,
      isProxy: senders.isProxy(address),
    }
    lines.set(socket, line)
    places.open(line)
    socket.once('close', () => forget(line))
  }

  function forget(line: Line): void {
    lines.delete(line.socket)
    places.close(line)
    busy.delete(line)
    waitingCount -= line.waiting.length
    line.waiting.length = 0
  }

  function take(incoming: IncomingMessage, outgoing: ServerResponse): void {
    const line = lines.get(incoming.socket)
    // cut, and the parser has not heard of it yet
    if (line === undefined) return
    if (line.running === null) {
      start(line, { incoming, outgoing })
      return
    }
    line.waiting.push({ incoming, outgoing })
    waitingCount += 1
    if (line.waiting.length > maxPipelinedRequests || waitingCount > WAITING_SHARES * maxPipelinedRequests) {
      cut(line.socket, 'too_many_pipelined_requests')
      forget(line)
    } else if (line.waiting.length >= PAUSE_AT && !line.isPaused) {
      line.isPaused = true
      // behind the parser, which asks for more at the end of every request
      process.nextTick(() => {
        if (line.isPaused) line.socket.pause()
      })
    }
  }

  function start(line: Line, exchange: Exchange): void {
    const { incoming, outgoing } = exchange
    const network = networkOf(senders.senderOf(incoming) ?? '')
    line.running = exchange
    line.bytesSeen = Number.NEGATIVE_INFINITY
    const hasKey = bringsKey(incoming) && asksForKey(incoming)
    places.begin(line, network, hasKey)
    busy.add(line)
    const open: { leave?: () => void } = {}
    outgoing.once('close', () => {
      open.leave?.()
      // others take their turn between two requests of a connection
      if (line.waiting.length > 0) setImmediate(goOn, line)
      else rest(line)
    })
    if (isExpectationUnknown(incoming)) return void outgoing.writeHead(417, { connection: 'close' }).end()
    const begin = (leave?: () => void): void => {
      const prove = (entity: string): boolean => {
        leave?.()
        return line.running !== exchange || places.prove(line, entity)
      }
      handle(incoming, outgoing, { prove })
    }
    // a key that is wrong is refused before the body is read
    if (!isBodyComing(line) || hasKey) begin()
    else open.leave = openBodies.enter(network, { begin, isGone: () => line.socket.destroyed })
  }

  function goOn(line: Line): void {
    const next = line.waiting.shift()
    if (next === undefined) {
      rest(line)
      return
    }
    waitingCount -= 1
    if (line.waiting.length === 0 && line.isPaused) {
      line.isPaused = false
      line.socket.resume()
    }
    start(line, next)
  }

  function rest(line: Line): void {
    line.running = null
    line.unreadSinceMs = null
    busy.delete(line)
    places.rest(line)
  }

  function sweep(): void {
    const nowMs = performance.now()
    for (const line of busy) {
      const { bytesRead } = line.socket
      const isSlow = bytesRead - line.bytesSeen < STALLED_BYTES && isBodyComing(line)
      line.bytesSeen = bytesRead
      places.setStalled(line, isSlow || line.unreadSinceMs !== null)
    }
    cutUnread(nowMs)
    cuts.report()
  }

  function cutUnread(nowMs: number): void {
    let unreadBytes = 0
    const unread: { readonly line: Line; readonly sinceMs: number; readonly bytes: number }[] = []
    for (const line of busy) {
      const bytes = line.running?.outgoing.writableLength ?? 0
      if (bytes === 0) {
        line.unreadSinceMs = null
        continue
      }
      if (line.unreadSinceMs === null) watchReader(line)
      line.unreadSinceMs ??= nowMs
      unreadBytes += bytes
      unread.push({ line, sinceMs: line.unreadSinceMs, bytes })
    }
    if (unreadBytes <= maxUnreadBytes) return
    for (const { line, bytes } of unread.sort((a, b) => a.sinceMs - b.sinceMs)) {
      cut(line.socket, 'too_many_unread_bytes')
      unreadBytes -= bytes
      if (unreadBytes <= maxUnreadBytes) return
    }
  }

  /** Node counts every byte that the system takes as a sign of life, also of one large write. */
  function watchReader(line: Line): void {
    const outgoing = line.running?.outgoing
    if (outgoing === undefined) return
    outgoing.removeAllListeners('timeout')
    outgoing.on('timeout', () => {
      if (outgoing.writableLength > 0) cut(line.socket, 'answer_not_read')
    })
    line.socket.setTimeout(unreadMs)
  }

  server.on('connection', open)
  server.on('request', take)
  // without listeners Node answers these by itself, before the key is looked at
  server.on('checkContinue', take)
  server.on('checkExpectation', take)
  server.on('clientError', (error, socket) => {
    // behind an answer that has begun it would be read as a part of that
    const isAnswering = lines.get(socket as Socket)?.running?.outgoing.headersSent === true
    if (isAnswering || !socket.writable) socket.destroy(error)
    else socket.end(answerToUnreadable(error), () => socket.destroy())
  })
  const timer = setInterval(sweep, SWEEP_MS).unref()
  return () => clearInterval(timer)
}

/** Whether nothing can be done for a connection before its client has. */
function isWaiting(line: Line): boolean {
  const { running } = line
  return running === null || isBodyComing(line) || running.outgoing.writableLength > 0
}

function isBodyComing({ running }: Line): boolean {
  if (running === null || running.incoming.complete) return false
  const { headers } = running.incoming
  return headers['transfer-encoding'] !== undefined || Number(headers['content-length'] ?? 0) > 0
}

/** Whether a request says whose it is. */
function bringsKey({ headers }: IncomingMessage): boolean {
  return headers.authorization !== undefined || headers['x-api-key'] !== undefined
}

/** A flood of connections is no flood of log lines. */
function createCutCounts(onCut: GovernOptions['onCut']) {
  /** Those of this second that were not told yet. */
  const counts = new Map<CutReason, number>()
  return {
    note: (reason: CutReason): void => {
      const count = counts.get(reason)
      if (count === undefined) onCut(reason, 1)
      counts.set(reason, (count ?? -1) + 1)
    },
    report: (): void => {
      for (const [reason, count] of counts) if (count > 0) onCut(reason, count)
      counts.clear()
    },
  }
}

function isExpectationUnknown({ headers }: IncomingMessage): boolean {
  return headers.expect !== undefined && !/(?:^|\W)100-continue(?:$|\W)/i.test(headers.expect)
}
