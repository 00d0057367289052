/**
 * A request to an address that was checked, whatever the name in the URL says by now: DNS rebinding leads nowhere else.
 */
import type { RequestOptions } from 'node:https'

/** Options of a request to `url` by an IP address; null: as its name is resolved. */
export function requestOptionsAt(url: URL, address: string | null): RequestOptions {
  const hostname = url.hostname.replace(/^\[|\]$/g, '')
  return {
    protocol: url.protocol,
    host: address ?? hostname,
    ...(url.port === '' ? {} : { port: Number(url.port) }),
    path: url.pathname + url.search,
    // a certificate names the name
    ...(url.protocol === 'https:' && address !== null ? { servername: hostname } : {}),
    headers: { host: url.host },
  }
}
