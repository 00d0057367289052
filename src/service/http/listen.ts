/**
 * The TCP server: start, and drain with a deadline.
 */
import { createServer, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { getRequestListener } from '@hono/node-server'
import { AppError } from '#base/errors/errors.js'
import { createDeferred } from '#base/util/deferred.js'
import { SERVICE_DEFAULTS } from '#contract/settings/service.js'
import {
  type ConnectionHandle,
  type ConnectionLimits,
  type GovernOptions,
  governConnections,
} from './connections/connections.js'
import type { App } from './environment.js'

export interface ListenOptions {
  readonly host: string
  readonly port: number
  /** Default: those of a service without settings. */
  readonly limits?: ConnectionLimits
  /** Told of connections that the limits end. */
  readonly onCut?: GovernOptions['onCut']
  /** Who sends requests. Default: whoever is at the other end of a connection. */
  readonly senders?: GovernOptions['senders']
  /** Whether the key of a request will be looked at. Default: always. */
  readonly asksForKey?: GovernOptions['asksForKey']
}

export interface Listening {
  /** `http://host:port`, with the real port. */
  readonly url: string
  readonly port: number
  /**
   * Waits for requests in flight, then lets the port go: those that come meanwhile are answered by the application, which refuses
   * them. At the deadline `atDeadline` ends what is left in order; what does not go then is cut a moment later.
   */
  close(deadlineMs: number, atDeadline?: () => void): Promise<void>
}

/** How long the last bytes of ended requests may take to be sent. */
const LAST_WORDS_MS = 1000

/**
 * @param prepare what must not happen before the port is this server's, and must be done before a request is answered: those that
 *   come in the meantime wait. When it fails the port is let go
 * @throws {AppError} `port_in_use` or `cannot_listen`; whatever `prepare` throws
 */
export async function listen(
  app: App,
  options: ListenOptions,
  prepare: () => Promise<void> = async () => undefined,
): Promise<Listening> {
  const prepared = createDeferred<void>()
  let answer: App['fetch'] = async (...request) => {
    await prepared.promise
    return app.fetch(...request)
  }
  // what lacks a host is answered by the application, in its turn like all others
  const server = createServer({ requireHostHeader: false })
  const connections = new WeakMap<object, ConnectionHandle>()
  const requests = countOpen()
  const answerNode = getRequestListener(
    (request, env) => answer(request, { ...env, connection: connections.get(env.incoming) }),
    { overrideGlobalObjects: false },
  )
  const stopWatching = governConnections(
    server,
    (incoming, outgoing, connection) => {
      connections.set(incoming, connection)
      requests.note(outgoing)
      return answerNode(incoming, outgoing)
    },
    {
      limits: options.limits ?? SERVICE_DEFAULTS,
      onCut: options.onCut ?? (() => undefined),
      ...(options.senders === undefined ? {} : { senders: options.senders }),
      ...(options.asksForKey === undefined ? {} : { asksForKey: options.asksForKey }),
    },
  )
  // bodies have their own pace limit (body.ts); an upload of gigabytes may take longer than Node's five minutes
  server.requestTimeout = 0
  server.headersTimeout = 20_000
  server.keepAliveTimeout = 65_000
  await new Promise<void>((resolve, reject) => {
    server.once('error', (cause: NodeJS.ErrnoException) => reject(toListenError(cause, options)))
    // as many as may be open may come at once: what finds no room waits a second before it asks again
    const { maxConnections } = options.limits ?? SERVICE_DEFAULTS
    server.listen({ port: options.port, host: options.host, backlog: maxConnections }, resolve)
  }).catch((error: unknown) => {
    stopWatching()
    throw error
  })
  try {
    await prepare()
  } catch (error) {
    stopWatching()
    server.close()
    server.closeAllConnections()
    throw error
  }
  answer = app.fetch
  prepared.resolve()
  const { port } = server.address() as AddressInfo
  const host = options.host.includes(':') ? `[${options.host}]` : options.host
  return {
    port,
    url: `http://${host}:${port}`,
    close: async (deadlineMs, atDeadline) => {
      const closed = createDeferred<void>()
      let isOpen = true
      const stopAccepting = (): void => {
        if (isOpen) server.close(() => closed.resolve())
        isOpen = false
      }
      let timer = setTimeout(() => {
        atDeadline?.()
        timer = setTimeout(() => {
          // first: a connection that came behind the cut would be waited for
          stopAccepting()
          server.closeAllConnections()
        }, LAST_WORDS_MS)
      }, deadlineMs)
      await requests.drained()
      stopAccepting()
      // Otherwise a connection whose last request has just ended would be kept open until the deadline.
      const sweep = setInterval(() => server.closeIdleConnections(), 50)
      await closed.promise
      stopWatching()
      clearInterval(sweep)
      clearTimeout(timer)
    },
  }
}

/** Requests that are being answered, but for those that come once somebody waits for their end. */
function countOpen() {
  const open = new Set<ServerResponse>()
  const drained = createDeferred<void>()
  let isDraining = false
  return {
    note: (outgoing: ServerResponse): void => {
      if (isDraining) return
      open.add(outgoing)
      outgoing.once('close', () => {
        open.delete(outgoing)
        if (isDraining && open.size === 0) drained.resolve()
      })
    },
    drained: (): Promise<void> => {
      isDraining = true
      if (open.size === 0) drained.resolve()
      return drained.promise
    },
  }
}

function toListenError(cause: NodeJS.ErrnoException, address: Pick<ListenOptions, 'host' | 'port'>): AppError {
  if (cause.code === 'EADDRINUSE') {
    return new AppError('internal', 'port_in_use', `port ${address.port} is in use`, {
      hint: 'choose another --port; 0 takes any free one',
      cause,
    })
  }
  return new AppError(
    'internal',
    'cannot_listen',
    `cannot listen on ${address.host}:${address.port}: ${cause.message}`,
    {
      hint: 'choose another --host or --port',
      cause,
    },
  )
}
