/**
 * Limits of one connection: one request at a time, a bounded number waiting behind it, and a client that reads its
 * answers.
 *
 * Node starts all requests that a client sends ahead (pipelining) at once, though answers go out in order, and it does
 * not tell a waiting answer that its connection has closed. So here a request starts when the one before it is
 * answered, and waiting requests are dropped with their connection. Knows nothing of routes.
 */
import type { IncomingMessage, Server, ServerResponse } from 'node:http'
import type { Socket } from 'node:net'
import { answerToUnreadable } from './unreadable.js'

export interface ConnectionLimits {
  /** Open connections; a further one takes the place of one that is idle, or is closed. */
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

export type RequestHandler = (incoming: IncomingMessage, outgoing: ServerResponse) => unknown

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

/** One connection's requests. */
interface Line {
  readonly socket: Socket
  running: Exchange | null
  readonly waiting: Exchange[]
  isPaused: boolean
  unreadSinceMs: number | null
}

/**
 * Hands the server's requests to `handle`, one of each connection at a time, and holds its connections to the limits.
 *
 * @param onCut told of each connection that is ended
 * @returns stops looking for unread bytes
 */
export function governConnections(
  server: Server,
  handle: RequestHandler,
  { limits, onCut }: { readonly limits: ConnectionLimits; readonly onCut: (reason: CutReason) => void },
): () => void {
  const { maxConnections, maxPipelinedRequests, maxUnreadBytes, unreadMs = UNREAD_MS } = limits
  const lines = new Map<Socket, Line>()
  /** Longest idle first. */
  const idle = new Set<Line>()
  const busy = new Set<Line>()
  let waitingCount = 0

  function cut(socket: Socket, reason: CutReason): void {
    onCut(reason)
    socket.destroy()
  }

  function open(socket: Socket): void {
    if (lines.size >= maxConnections) {
      const [oldest] = idle
      cut(oldest?.socket ?? socket, 'too_many_connections')
      if (oldest === undefined) return
      forget(oldest)
    }
    const line: Line = { socket, running: null, waiting: [], isPaused: false, unreadSinceMs: null }
    lines.set(socket, line)
    idle.add(line)
    socket.once('close', () => forget(line))
  }

  function forget(line: Line): void {
    lines.delete(line.socket)
    idle.delete(line)
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
    line.running = exchange
    idle.delete(line)
    busy.add(line)
    exchange.outgoing.once('close', () => {
      // others take their turn between two requests of a connection
      if (line.waiting.length > 0) setImmediate(goOn, line)
      else rest(line)
    })
    if (isExpectationUnknown(exchange.incoming)) {
      exchange.outgoing.writeHead(417, { connection: 'close' }).end()
      return
    }
    handle(exchange.incoming, exchange.outgoing)
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
    if (lines.has(line.socket)) idle.add(line)
  }

  function sweep(): void {
    const nowMs = performance.now()
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

function isExpectationUnknown({ headers }: IncomingMessage): boolean {
  return headers.expect !== undefined && !/(?:^|\W)100-continue(?:$|\W)/i.test(headers.expect)
}
