/**
 * Limits of connections: one request at a time, a bounded number waiting behind it, a client that reads its answers, and who
 * gives way when there are too many (`connection-places.ts`).
 *
 * Node starts all requests that a client sends ahead (pipelining) at once, though answers go out in order, and it does
 * not tell a waiting answer that its connection has closed. So here a request starts when the one before it is
 * answered, and waiting requests are dropped with their connection. Knows nothing of routes.
 */
import { type IncomingMessage, type Server, type ServerResponse, STATUS_CODES } from 'node:http'
import type { Socket } from 'node:net'
import { createPlaces, type Place, type Places } from './connection-places.js'
import { networkOf } from './network.js'
import { createOpenBodies } from './open-bodies.js'

/**
 * What a client is told whose request cannot be read: no route has seen it, so it is answered on the socket, in the words of all errors.
 */
interface Said {
  readonly status: number
  readonly code: string
  readonly message: string
  readonly hint: string
}

/** By the code of Node's error. */
const SAID: Readonly<Record<string, Said>> = {
  HPE_HEADER_OVERFLOW: {
    status: 431,
    code: 'headers_too_large',
    message: 'the address and the headers are longer than 16 KB together',
    hint: 'send shorter ones, or what is long in the body',
  },
  ERR_HTTP_REQUEST_TIMEOUT: {
    status: 408,
    code: 'request_timeout',
    message: 'the headers came too slowly',
    hint: 'send the request again',
  },
}

const UNREADABLE: Said = {
  status: 400,
  code: 'invalid_http',
  message: 'this is no HTTP/1.1 request',
  hint: 'send plain HTTP: without TLS, which a proxy before this server ends, and without HTTP/2',
}

/** @returns a whole answer, after which the connection ends */
function answerToUnreadable(error: NodeJS.ErrnoException): string {
  const { status, code, message, hint } = SAID[error.code ?? ''] ?? UNREADABLE
  const body = JSON.stringify({
    detail: message,
    error: { message, type: 'invalid_request_error', param: null, code, hint },
  })
  const head = [
    `HTTP/1.1 ${status} ${STATUS_CODES[status]}`,
    'content-type: application/json',
    `content-length: ${Buffer.byteLength(body)}`,
    'connection: close',
  ]
  return `${head.join('\r\n')}\r\n\r\n${body}`
}

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
export function governConnections(server: Server, handle: RequestHandler, options: GovernOptions): () => void {
  const connections = new Connections(server, handle, options)
  return () => connections.stop()
}

class Connections {
  readonly #handle: RequestHandler
  readonly #options: GovernOptions
  readonly #limits: ConnectionLimits
  readonly #senders: Senders
  readonly #lines = new Map<Socket, Line>()
  readonly #busy = new Set<Line>()
  readonly #places: Places<Line>
  readonly #openBodies = createOpenBodies()
  readonly #cuts: ReturnType<typeof createCutCounts>
  #waitingCount = 0
  readonly #timer = setInterval(() => this.#sweep(), SWEEP_MS).unref()

  constructor(server: Server, handle: RequestHandler, options: GovernOptions) {
    this.#handle = handle
    this.#options = options
    this.#limits = options.limits
    this.#senders = options.senders ?? DIRECT
    this.#places = createPlaces<Line>({ maxPlaces: this.#limits.maxConnections, isWaiting })
    this.#cuts = createCutCounts(options.onCut)
    server.on('connection', (socket) => this.#open(socket))
    server.on('request', (incoming, outgoing) => this.#take(incoming, outgoing))
    // without listeners Node answers these by itself, before the key is looked at
    server.on('checkContinue', (incoming, outgoing) => this.#take(incoming, outgoing))
    server.on('checkExpectation', (incoming, outgoing) => this.#take(incoming, outgoing))
    server.on('clientError', (error, socket) => {
      // behind an answer that has begun it would be read as a part of that
      const isAnswering = this.#lines.get(socket as Socket)?.running?.outgoing.headersSent === true
      if (isAnswering || !socket.writable) socket.destroy(error)
      else socket.end(answerToUnreadable(error), () => socket.destroy())
    })
  }

  stop(): void {
    clearInterval(this.#timer)
  }

  #cut(socket: Socket, reason: CutReason): void {
    this.#cuts.note(reason)
    socket.destroy()
  }

  #open(socket: Socket): void {
    if (this.#lines.size >= this.#limits.maxConnections) {
      const next = this.#places.next()
      this.#cut(next?.socket ?? socket, 'too_many_connections')
      if (next === undefined) return
      this.#forget(next)
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
      isProxy: this.#senders.isProxy(address),
    }
    this.#lines.set(socket, line)
    this.#places.open(line)
    socket.once('close', () => this.#forget(line))
  }

  #forget(line: Line): void {
    this.#lines.delete(line.socket)
    this.#places.close(line)
    this.#busy.delete(line)
    this.#waitingCount -= line.waiting.length
    line.waiting.length = 0
  }

  #take(incoming: IncomingMessage, outgoing: ServerResponse): void {
    const line = this.#lines.get(incoming.socket)
    // cut, and the parser has not heard of it yet
    if (line === undefined) return
    if (line.running === null) {
      this.#start(line, { incoming, outgoing })
      return
    }
    line.waiting.push({ incoming, outgoing })
    this.#waitingCount += 1
    if (
      line.waiting.length > this.#limits.maxPipelinedRequests ||
      this.#waitingCount > WAITING_SHARES * this.#limits.maxPipelinedRequests
    ) {
      this.#cut(line.socket, 'too_many_pipelined_requests')
      this.#forget(line)
    } else if (line.waiting.length >= PAUSE_AT && !line.isPaused) {
      line.isPaused = true
      // behind the parser, which asks for more at the end of every request
      process.nextTick(() => {
        if (line.isPaused) line.socket.pause()
      })
    }
  }

  #start(line: Line, exchange: Exchange): void {
    const { incoming, outgoing } = exchange
    const network = networkOf(this.#senders.senderOf(incoming) ?? '')
    line.running = exchange
    line.bytesSeen = Number.NEGATIVE_INFINITY
    const hasKey = bringsKey(incoming) && (this.#options.asksForKey?.(incoming) ?? true)
    this.#places.begin(line, network, hasKey)
    this.#busy.add(line)
    const open: { leave?: () => void } = {}
    outgoing.once('close', () => {
      open.leave?.()
      // others take their turn between two requests of a connection
      if (line.waiting.length > 0) setImmediate(() => this.#goOn(line))
      else this.#rest(line)
    })
    if (isExpectationUnknown(incoming)) return void outgoing.writeHead(417, { connection: 'close' }).end()
    const begin = (leave?: () => void): void => {
      const prove = (entity: string): boolean => {
        leave?.()
        return line.running !== exchange || this.#places.prove(line, entity)
      }
      this.#handle(incoming, outgoing, { prove })
    }
    // a key that is wrong is refused before the body is read
    if (!isBodyComing(line) || hasKey) begin()
    else open.leave = this.#openBodies.enter(network, { begin, isGone: () => line.socket.destroyed })
  }

  #goOn(line: Line): void {
    const next = line.waiting.shift()
    if (next === undefined) {
      this.#rest(line)
      return
    }
    this.#waitingCount -= 1
    if (line.waiting.length === 0 && line.isPaused) {
      line.isPaused = false
      line.socket.resume()
    }
    this.#start(line, next)
  }

  #rest(line: Line): void {
    line.running = null
    line.unreadSinceMs = null
    this.#busy.delete(line)
    this.#places.rest(line)
  }

  #sweep(): void {
    const nowMs = performance.now()
    for (const line of this.#busy) {
      const { bytesRead } = line.socket
      const isSlow = bytesRead - line.bytesSeen < STALLED_BYTES && isBodyComing(line)
      line.bytesSeen = bytesRead
      this.#places.setStalled(line, isSlow || line.unreadSinceMs !== null)
    }
    this.#cutUnread(nowMs)
    this.#cuts.report()
  }

  #cutUnread(nowMs: number): void {
    let unreadBytes = 0
    const unread: { readonly line: Line; readonly sinceMs: number; readonly bytes: number }[] = []
    for (const line of this.#busy) {
      const bytes = line.running?.outgoing.writableLength ?? 0
      if (bytes === 0) {
        line.unreadSinceMs = null
        continue
      }
      if (line.unreadSinceMs === null) this.#watchReader(line)
      line.unreadSinceMs ??= nowMs
      unreadBytes += bytes
      unread.push({ line, sinceMs: line.unreadSinceMs, bytes })
    }
    if (unreadBytes <= this.#limits.maxUnreadBytes) return
    for (const { line, bytes } of unread.sort((a, b) => a.sinceMs - b.sinceMs)) {
      this.#cut(line.socket, 'too_many_unread_bytes')
      unreadBytes -= bytes
      if (unreadBytes <= this.#limits.maxUnreadBytes) return
    }
  }

  /** Node counts every byte that the system takes as a sign of life, also of one large write. */
  #watchReader(line: Line): void {
    const outgoing = line.running?.outgoing
    if (outgoing === undefined) return
    outgoing.removeAllListeners('timeout')
    outgoing.on('timeout', () => {
      if (outgoing.writableLength > 0) this.#cut(line.socket, 'answer_not_read')
    })
    line.socket.setTimeout(this.#limits.unreadMs ?? UNREAD_MS)
  }
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
  return headers.authorization !== undefined || ['x-api-key', 'api-key'].some((name) => headers[name] !== undefined)
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
