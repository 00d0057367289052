/**
 * Keeps foreign web pages out: an unknown `Host` means DNS rebinding, an unknown `Origin` means a page of another site,
 * or of another port of this host. Only pages that the operator named get CORS permissions.
 */
import { isIP } from 'node:net'
import type { MiddlewareHandler } from 'hono'
import { cors } from 'hono/cors'
import { AppError, InvalidRequestError } from '#base/errors/errors.js'
import type { AppEnvironment } from '../environment.js'

const LOOPBACK = new Set(['localhost', '127.0.0.1', '::1'])
/** How long a browser may go without asking again what a page may do, seconds. */
const PREFLIGHT_SECONDS = 600

export interface BrowserGuardOptions {
  /** Names the server may be called by; addresses are always allowed, for they cannot be rebound. */
  readonly allowedHosts: readonly string[]
  /** Pages of others whose scripts may call it: `https://app.example`, or `*`. */
  readonly allowedOrigins?: readonly string[]
  /** Where its own pages are when a proxy stands before it and changes `Host`; null: nowhere else. */
  readonly publicOrigin?: string | null
}

/** @throws {InvalidRequestError} `invalid_setting` for an allowed origin that is none */
export function browserGuard(options: BrowserGuardOptions): MiddlewareHandler<AppEnvironment> {
  const hosts = new Set([...LOOPBACK, ...options.allowedHosts.map((host) => host.toLowerCase())])
  const shared = new Set((options.allowedOrigins ?? []).map(readOrigin))
  // keys are sent by scripts that have them, never by browsers on their own, so that no answer allows credentials
  const share = cors({ origin: (origin) => origin, exposeHeaders: ['*'], maxAge: PREFLIGHT_SECONDS })

  function isServed(host: string | null): boolean {
    return host !== null && (hosts.has(host) || isIP(host) !== 0)
  }

  return async function guardBrowsers(c, next) {
    const host = c.req.header('host') ?? new URL(c.req.url).host
    const name = hostName(`http://${host}`)
    if (!isServed(name)) {
      const shown = host.slice(0, 200)
      throw new AppError('permission', 'forbidden_host', `Host "${shown}" is not served here`, {
        hint: `call the server by its address, or start it with --allowed-host ${name ?? 'NAME'}`,
      })
    }
    const origin = c.req.header('origin')
    const isOwn =
      origin === undefined ||
      origin === options.publicOrigin ||
      isOwnPage(origin, host, c.req.header('x-forwarded-proto'))
    if (!isOwn && (shared.has('*') || shared.has(origin))) return await share(c, next)
    // what a cache keeps of an answer to one page is not for another
    if (shared.size > 0) c.header('vary', 'Origin', { append: true })
    if (!isOwn) {
      const shown = origin.slice(0, 200)
      throw new AppError('permission', 'forbidden_origin', `Origin "${shown}" may not call this server`, {
        hint: `if that page is yours, start the server with --allowed-origin ${shown}`,
      })
    }
    await next()
  }
}

/** An origin as browsers send it. */
function readOrigin(text: string): string {
  if (text === '*') return text
  const url = URL.canParse(text) ? new URL(text) : null
  // a slash at the end is a habit; a path or a user would never match
  if (url !== null && url.origin !== 'null' && url.href === `${url.origin}/`) return url.origin
  throw new InvalidRequestError(
    'invalid_setting',
    `allowedOrigins takes scheme, host and port of web pages, got "${text.slice(0, 200)}"`,
    {
      param: 'allowedOrigins',
      hint: 'for example https://app.example or http://localhost:3000, without a path; * for all pages',
    },
  )
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
