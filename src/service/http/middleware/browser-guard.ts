/**
 * Keeps web pages out: a `Host` that is not ours is DNS rebinding, an `Origin` that is not ours is a foreign page, be it on this host. CORS
 * stays closed: no answer carries permissions.
 */
import { isIP } from 'node:net'
import type { MiddlewareHandler } from 'hono'
import { AppError } from '#base/errors/errors.js'
import type { AppEnvironment } from '../environment.js'

const LOOPBACK = new Set(['localhost', '127.0.0.1', '::1'])

/**
 * @param allowedHosts names the server may be called by; addresses are always allowed, for they cannot be rebound
 * @param publicOrigin where its own pages are when a proxy stands before it and changes `Host`; null: nowhere else
 */
export function browserGuard(
  allowedHosts: readonly string[],
  publicOrigin: string | null = null,
): MiddlewareHandler<AppEnvironment> {
  const allowed = new Set([...LOOPBACK, ...allowedHosts.map((host) => host.toLowerCase())])

  function isAllowed(host: string | null): boolean {
    return host !== null && (allowed.has(host) || isIP(host) !== 0)
  }

  return async function guardBrowsers(c, next) {
    const host = c.req.header('host') ?? new URL(c.req.url).host
    const name = hostName(`http://${host}`)
    if (!isAllowed(name)) {
      const shown = host.slice(0, 200)
      throw new AppError('permission', 'forbidden_host', `Host "${shown}" is not served here`, {
        hint: `call the server by its address, or start it with --allowed-host ${name ?? 'NAME'}`,
      })
    }
    const origin = c.req.header('origin')
    const isOwn =
      origin === undefined || origin === publicOrigin || isOwnPage(origin, host, c.req.header('x-forwarded-proto'))
    if (!isOwn) {
      throw new AppError('permission', 'forbidden_origin', `Origin "${origin.slice(0, 200)}" may not call this server`)
    }
    await next()
  }
}

/**
 * Whether a page came from this server: its scheme, host and port are those of the request. The port that `Host` leaves out follows from the
 * page's scheme, for a proxy may speak TLS; which one it speaks it may say.
 */
function isOwnPage(origin: string, host: string, forwardedProtocol: string | undefined): boolean {
  const page = URL.canParse(origin) ? new URL(origin) : null
  if (page === null || (page.protocol !== 'http:' && page.protocol !== 'https:')) return false
  const own = `${page.protocol}//${host}`
  const isScheme = forwardedProtocol === undefined || `${forwardedProtocol.toLowerCase()}:` === page.protocol
  return isScheme && URL.canParse(own) && new URL(own).host === page.host
}

/** The host of a URL without port and brackets, lower case; null if it is none. */
function hostName(url: string): string | null {
  try {
    return new URL(url).hostname.replace(/^\[|\]$/g, '').toLowerCase()
  } catch {
    return null
  }
}
