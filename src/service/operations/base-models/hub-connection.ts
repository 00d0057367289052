/**
 * Guarded GET requests to a model hub and to where it redirects.
 *
 * The hub's address is the operator's (`HF_ENDPOINT`) and trusted. What it redirects to is not: only its own origin, or a host
 * whose every address is public, checked on the address that is connected to, so that no name can be made to point inward
 * after the check. The token goes to the hub's origin alone. Nothing here runs unless somebody adds a model of a hub.
 */
import { lookup } from 'node:dns'
import { type IncomingMessage, request as requestHttp } from 'node:http'
import { request as requestHttps } from 'node:https'
import { isIP, type LookupFunction } from 'node:net'
import { AppError } from '#base/errors/errors.js'
import { isPublicAddress } from '#base/util/public-address.js'

export interface HubConnection {
  /**
   * Sends a GET, follows redirects, and returns the open answer, whatever its status.
   *
   * @throws {AppError} `hub_unreachable`; `hub_address_refused` for a redirect into the private network
   */
  open(path: string, options: HubRequest): Promise<IncomingMessage>
}

export interface HubRequest {
  readonly signal: AbortSignal
  readonly headers?: Readonly<Record<string, string>>
}

export interface HubOptions {
  /** For example `https://huggingface.co`; a path prefix is kept. */
  readonly endpoint: string
  readonly token: string | null
  readonly userAgent: string
}

const MAX_REDIRECTS = 5
/** Longest silence: of a connection, before an answer, and between two pieces of it. */
const SILENCE_MS = 30_000

export function createHubConnection(options: HubOptions): HubConnection {
  const endpoint = options.endpoint.replace(/\/+$/, '')
  const { origin, protocol } = new URL(endpoint)

  function get(url: URL, { signal, headers }: HubRequest): Promise<IncomingMessage> {
    const isHub = url.origin === origin
    if (!isHub) checkTarget(url, protocol)
    const authorization = isHub && options.token !== null ? { authorization: `Bearer ${options.token}` } : {}
    return new Promise((resolve, reject) => {
      const send = url.protocol === 'https:' ? requestHttps : requestHttp
      const request = send(url, {
        signal,
        timeout: SILENCE_MS,
        headers: { 'user-agent': options.userAgent, 'accept-encoding': 'identity', ...headers, ...authorization },
        ...(isHub ? {} : { lookup: lookupPublic }),
      })
      request.on('timeout', () => request.destroy(new Error(`no answer for ${SILENCE_MS / 1000} s`)))
      request.on('response', resolve)
      request.on('error', reject)
      request.end()
    })
  }

  return {
    async open(path, request) {
      let url = new URL(endpoint + path)
      try {
        for (let count = 0; count <= MAX_REDIRECTS; count += 1) {
          const answer = await get(url, request)
          const { location } = answer.headers
          const isRedirect = [301, 302, 303, 307, 308].includes(answer.statusCode ?? 0)
          if (!isRedirect || location === undefined) return answer
          answer.resume()
          if (!URL.canParse(location, url.href)) throw refused(location, 'is no address')
          url = new URL(location, url)
        }
      } catch (cause) {
        request.signal.throwIfAborted()
        if (cause instanceof AppError) throw cause
        const reason = cause instanceof Error ? cause.message || String(Reflect.get(cause, 'code')) : String(cause)
        throw new AppError('unavailable', 'hub_unreachable', `the hub at ${url.origin} cannot be reached: ${reason}`, {
          hint: 'add it again to go on where it stopped; HF_ENDPOINT of the server names another hub',
          cause,
        })
      }
      throw refused(url.href, `comes after ${MAX_REDIRECTS} redirects`)
    },
  }
}

function refused(address: string, problem: string): AppError {
  return new AppError(
    'unavailable',
    'hub_address_refused',
    `the hub redirects to "${address.slice(0, 200)}", which ${problem}`,
  )
}

/** A secure hub does not send us to an open line, nor anybody to a literal private address. */
function checkTarget(url: URL, hubProtocol: string): void {
  const isAllowed = url.protocol === 'https:' || (url.protocol === 'http:' && hubProtocol === 'http:')
  if (!isAllowed) throw refused(url.origin, 'is not an https address')
  const host = url.hostname.replace(/^\[|\]$/g, '')
  if (isIP(host) !== 0 && !isPublicAddress(host)) throw refused(url.origin, 'is not a public address')
}

const lookupPublic: LookupFunction = (hostname, options, callback) => {
  lookup(hostname, { ...options, all: true }, (error, addresses) => {
    if (error !== null) return callback(error, [])
    const isPublic = addresses.every(({ address }) => isPublicAddress(address))
    if (!isPublic || addresses[0] === undefined) {
      return callback(refused(hostname, 'is not a public address'), [])
    }
    if (options.all === true) callback(null, addresses)
    else callback(null, addresses[0].address, addresses[0].family)
  })
}
