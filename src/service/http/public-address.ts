/**
 * Under which address clients reach this server: links in answers begin with it. `--public-url` says it; else a proxy that is trusted may
 * (`X-Forwarded-Proto`, `-Host`, `-Prefix`); else it is the address that the request names. Knows no route.
 */
import type { IncomingMessage } from 'node:http'
import { BlockList, isIP } from 'node:net'
import type { Context } from 'hono'
import { InvalidRequestError } from '#base/errors/errors.js'

export interface PublicAddressOptions {
  /** `https://host/prefix`; null: it follows from each request. */
  readonly publicUrl: string | null
  /** Addresses, or networks as `10.0.0.0/8`, whose `X-Forwarded-*` count. */
  readonly trustedProxies: readonly string[]
}

export interface PublicAddress {
  /** Of the server as whoever sent this request reaches it, without a slash at its end: `https://host/prefix`. */
  of(c: Context): string
  /**
   * Address of whoever sent this request: behind trusted proxies the last one of `X-Forwarded-For` that is no such proxy. Null where
   * there is no connection, as in a test without a port.
   */
  clientOf(c: Context): string | null
  /** The same of Node's request. */
  senderOf(incoming: IncomingMessage): string | null
  /** Whether an address is one of a trusted proxy. */
  isProxy(address: string): boolean
  /** Names by which `--public-url` calls the server. */
  readonly hosts: readonly string[]
  /** Origin of `--public-url`, whose pages are the server's own; null without one. */
  readonly origin: string | null
  /** A request's path without the prefix, for proxies that do not take it off; of another address of an endpoint its path. */
  pathWithin(path: string): string
}

/** @throws {InvalidRequestError} `invalid_setting` for what is no http address, or no address or network */
export function createPublicAddress(
  { publicUrl, trustedProxies }: PublicAddressOptions,
  pathOf: (address: string) => string = (address) => address,
): PublicAddress {
  const fixed = publicUrl === null ? null : readPublicUrl(publicUrl)
  const trusted = readProxies(trustedProxies)
  const prefix = fixed === null ? '' : fixed.pathname

  function senderOf({ socket, headers }: IncomingMessage): string | null {
    const peer = socket.remoteAddress ?? null
    if (!isTrusted(trusted, peer)) return peer
    // each proxy adds whom it heard: what stands further left is what a client says of itself
    const said = [headers['x-forwarded-for'] ?? ''].flat().join(',').split(',')
    const client = said.map((address) => address.trim()).findLast((address) => !isTrusted(trusted, address))
    return client !== undefined && isIP(client) !== 0 ? client : peer
  }

  return {
    hosts: fixed === null ? [] : [fixed.hostname.replace(/^\[|\]$/g, '')],
    origin: fixed === null ? null : fixed.origin,
    of: (c) => {
      if (fixed !== null) return fixed.origin + fixed.pathname
      const asked = new URL(c.req.url)
      return isTrusted(trusted, peerOf(c)) ? forwardedAddress(c, asked) : asked.origin
    },
    clientOf: (c) => {
      const incoming = incomingOf(c)
      return incoming === undefined ? null : senderOf(incoming)
    },
    senderOf,
    isProxy: (address) => isTrusted(trusted, address),
    pathWithin: (path) => {
      const rest = prefix !== '' && path.startsWith(prefix) ? path.slice(prefix.length) : path
      return pathOf(rest === '' ? '/' : rest.startsWith('/') ? rest : path)
    },
  }
}

interface FixedAddress {
  readonly origin: string
  readonly hostname: string
  /** Without a slash at its end; empty where there is no prefix. */
  readonly pathname: string
}

function readPublicUrl(text: string): FixedAddress {
  const url = URL.canParse(text) ? new URL(text) : null
  const isAddress = url !== null && /^https?:$/.test(url.protocol)
  if (!isAddress || url.search !== '' || url.hash !== '' || url.username !== '' || url.password !== '') {
    throw new InvalidRequestError(
      'invalid_setting',
      `publicUrl must be an http address without a query and without a user, got "${text.slice(0, 200)}"`,
      { param: 'publicUrl', hint: 'give the address that clients use, for example https://train.example/trainyard' },
    )
  }
  return { origin: url.origin, hostname: url.hostname, pathname: url.pathname.replace(/\/+$/, '') }
}

function readProxies(entries: readonly string[]): BlockList {
  const list = new BlockList()
  for (const entry of entries) {
    const [address = '', bits, ...rest] = entry.split('/')
    const version = isIP(address)
    const most = version === 6 ? 128 : 32
    const prefix = bits === undefined ? most : /^\d{1,3}$/.test(bits) ? Number(bits) : Number.NaN
    if (version === 0 || rest.length > 0 || !(prefix <= most)) {
      throw new InvalidRequestError(
        'invalid_setting',
        `trustedProxies takes addresses and networks, got "${entry.slice(0, 200)}"`,
        { param: 'trustedProxies', hint: 'give 10.0.0.7 or 10.0.0.0/8, a name cannot be checked' },
      )
    }
    list.addSubnet(address, prefix, version === 6 ? 'ipv6' : 'ipv4')
  }
  return list
}

/** Undefined without a connection. */
function incomingOf(c: Context): IncomingMessage | undefined {
  return ((c.env ?? {}) as { readonly incoming?: IncomingMessage }).incoming
}

/** The address at the other end of the connection. */
function peerOf(c: Context): string | null {
  return incomingOf(c)?.socket.remoteAddress ?? null
}

function isTrusted(list: BlockList, peer: string | null): boolean {
  if (peer === null) return false
  // an IPv4 client of a socket for both kinds
  const address = peer.replace(/^::ffff:(?=\d+\.)/, '')
  const version = isIP(address)
  return version !== 0 && list.check(address, version === 6 ? 'ipv6' : 'ipv4')
}

/** What a trusted proxy says of the request; what it says wrongly or not at all is the request's own. */
function forwardedAddress(c: Context, asked: URL): string {
  const said = (name: string): string | null => c.req.header(`x-forwarded-${name}`)?.split(',')[0]?.trim() ?? null
  const protocol = said('proto')?.toLowerCase() ?? asked.protocol.slice(0, -1)
  const base = `${/^https?$/.test(protocol) ? protocol : 'http'}://${said('host') ?? asked.host}`
  const origin = URL.canParse(base) ? new URL(base).origin : asked.origin
  const prefix = said('prefix')?.replace(/\/+$/, '') ?? ''
  return /^(?:\/[\w.~%-]+)*$/.test(prefix) ? origin + prefix : origin
}
