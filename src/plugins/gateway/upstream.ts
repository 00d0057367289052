/**
 * Sends a call to its upstream and hands the answer back as it comes: bytes as they are, also compressed ones, and headers that
 * matter.
 */
import { type IncomingMessage, type OutgoingHttpHeaders, Agent as PlainAgent, request as plainRequest } from 'node:http'
import { Agent as SecureAgent, request as secureRequest } from 'node:https'
import { isIP } from 'node:net'
import { AppError } from '#base/errors/errors.js'
import type { AddressRules } from '#service/operations/address-rules.js'

interface UpstreamCall {
  readonly url: URL
  readonly method: string
  readonly headers: OutgoingHttpHeaders
  readonly body: Uint8Array | null
  /** Who asks: names are looked up in turns by it. */
  readonly entity: string
  /** Aborted when the client has gone. */
  readonly signal: AbortSignal
}

export interface Upstream {
  /** @throws {AppError} `upstream_unreachable`, `cancelled`; {InvalidRequestError} where the address may not be asked */
  send(call: UpstreamCall): Promise<IncomingMessage>
  /** Ends connections that wait for the next call. */
  close(): void
}

export function createUpstream(rules: AddressRules): Upstream {
  const options = { keepAlive: true, maxFreeSockets: 64 }
  const agents = { 'http:': new PlainAgent(options), 'https:': new SecureAgent(options) }

  function sendOnce({ url, method, headers, body, entity, signal }: UpstreamCall): Promise<IncomingMessage> {
    return new Promise((resolve, reject) => {
      const isSecure = url.protocol === 'https:'
      const request = (isSecure ? secureRequest : plainRequest)(url, {
        ...{ method, headers, signal },
        agent: agents[isSecure ? 'https:' : 'http:'],
        // asked for a new connection alone, and by the address that was checked
        lookup: (_host, wanted, done) => {
          rules.resolve(url, entity, signal).then(
            (address) => {
              const family = isIP(address)
              if (wanted.all === true) done(null, [{ address, family }])
              else done(null, address, family)
            },
            (error: unknown) => done(error as NodeJS.ErrnoException, '', 0),
          )
        },
      })
      request.on('response', resolve)
      request.on('error', (error: NodeJS.ErrnoException) => {
        const isStale = request.reusedSocket && error.code === 'ECONNRESET'
        reject(isStale ? new StaleConnection(error) : error)
      })
      request.setNoDelay(true)
      request.end(body ?? undefined)
    })
  }

  return {
    send: async (call) => {
      rules.check(call.url.href)
      for (;;) {
        try {
          return await sendOnce(call)
        } catch (error) {
          if (error instanceof StaleConnection) continue
          if (error instanceof AppError) throw error
          if (call.signal.aborted) throw new AppError('cancelled', 'cancelled', 'the client closed the connection')
          throw new AppError('unavailable', 'upstream_unreachable', `${call.url.origin} cannot be reached`, {
            cause: error,
            hint: `is the upstream's address right? The connection says ${(error as NodeJS.ErrnoException).code ?? 'no more'}`,
          })
        }
      }
    },
    close: () => {
      for (const agent of Object.values(agents)) agent.destroy()
    },
  }
}

/** A connection that was kept, and that the upstream had ended before it saw the call: nothing was asked yet. */
class StaleConnection extends Error {
  constructor(cause: Error) {
    super('a kept connection had ended', { cause })
  }
}

/** Of one connection only, or about where the call came from. */
const HOP = [
  'connection',
  'keep-alive',
  'proxy-authenticate',
  'proxy-authorization',
  'proxy-connection',
  'te',
  'trailer',
  'transfer-encoding',
  'upgrade',
] as const
const NOT_SENT: ReadonlySet<string> = new Set([
  ...HOP,
  'host',
  'content-length',
  'expect',
  // a browser's, for this server's page
  'cookie',
  'forwarded',
  'x-forwarded-for',
  'x-forwarded-host',
  'x-forwarded-proto',
  'x-real-ip',
  'x-trainyard-key',
])
/** What would act on this server's own pages, or on what a browser may read of it. */
const NOT_ANSWERED =
  /^(?:set-cookie2?|clear-site-data|service-worker-allowed|strict-transport-security|alt-svc|access-control-.*|content-security-policy.*|x-frame-options|refresh|location)$/
/** Compressions that a record can read. */
const READ_ENCODINGS = /^(?:gzip|x-gzip|deflate|br|identity)$/

/** Headers of a call as they go on. */
export function headersToSend(given: Headers): Record<string, string> {
  const sent: Record<string, string> = {}
  for (const [name, value] of given) if (!NOT_SENT.has(name)) sent[name] = value
  const encodings = (sent['accept-encoding'] ?? '').split(',').map((each) => each.trim())
  const read = encodings.filter((each) => READ_ENCODINGS.test(each.split(';')[0]?.trim().toLowerCase() ?? ''))
  sent['accept-encoding'] = read.length === 0 ? 'identity' : read.join(', ')
  return sent
}

/** Headers of an answer as they are handed back. */
export function headersToAnswer({ rawHeaders }: Pick<IncomingMessage, 'rawHeaders'>): Record<string, string> {
  const answered: Record<string, string> = {}
  for (let i = 0; i + 1 < rawHeaders.length; i += 2) {
    const name = (rawHeaders[i] ?? '').toLowerCase()
    if ((HOP as readonly string[]).includes(name) || NOT_ANSWERED.test(name)) continue
    const before = answered[name]
    answered[name] = before === undefined ? (rawHeaders[i + 1] ?? '') : `${before}, ${rawHeaders[i + 1]}`
  }
  // whatever it holds is no page of this server
  return { ...answered, 'content-security-policy': 'sandbox', 'x-content-type-options': 'nosniff' }
}
