/**
 * Which addresses this server may send to: public ones over https, and hosts that its administrator named.
 *
 * A name is resolved once for a delivery, every address it has is checked, and the connection goes to the checked address, so
 * that a name that changes in between (DNS rebinding) leads nowhere else. Ranges: IANA's registries of special-purpose addresses.
 */
import { lookup } from 'node:dns/promises'
import { BlockList, isIP } from 'node:net'
import { InvalidRequestError } from '#base/errors.js'

const SPECIAL_V4 = [
  '0.0.0.0/8',
  '10.0.0.0/8',
  '100.64.0.0/10',
  '127.0.0.0/8',
  '169.254.0.0/16',
  '172.16.0.0/12',
  '192.0.0.0/24',
  '192.0.2.0/24',
  '192.88.99.0/24',
  '192.168.0.0/16',
  '198.18.0.0/15',
  '198.51.100.0/24',
  '203.0.113.0/24',
  '224.0.0.0/4',
  '240.0.0.0/4',
]
/** Only 2000::/3 is handed out; within it these are special. Everything outside of it is refused. */
const SPECIAL_V6 = ['2001::/23', '2001:db8::/32', '2002::/16', '3fff::/20']

const special = new BlockList()
for (const range of SPECIAL_V4) addRange(range, 'ipv4')
for (const range of SPECIAL_V6) addRange(range, 'ipv6')
const handedOut = new BlockList()
handedOut.addSubnet('2000::', 3, 'ipv6')

function addRange(range: string, family: 'ipv4' | 'ipv6'): void {
  const [address = '', bits] = range.split('/')
  special.addSubnet(address, Number(bits), family)
}

/** Whether an address is one of the public internet. */
export function isPublicAddress(address: string): boolean {
  if (isIP(address) === 4) return !special.check(address, 'ipv4')
  return isIP(address) === 6 && handedOut.check(address, 'ipv6') && !special.check(address, 'ipv6')
}

export interface AddressRules {
  /** Refuses what can be told without asking anybody. @throws {InvalidRequestError} `webhook_refused` */
  check(url: string): URL
  /** The address to connect to. @throws {InvalidRequestError} `webhook_refused`; what the resolver throws */
  resolve(url: URL): Promise<string>
}

/** @param allowedHosts names or addresses, optionally with `:port`, that may be anywhere and plain http */
export function createAddressRules(allowedHosts: readonly string[]): AddressRules {
  const allowed = new Set(allowedHosts.map((host) => host.toLowerCase()))
  const isAllowed = (url: URL) => allowed.has(url.host) || allowed.has(url.hostname.replace(/^\[|\]$/g, ''))
  return {
    check: (text) => {
      const url = URL.canParse(text) ? new URL(text) : null
      if (url === null || (url.protocol !== 'https:' && url.protocol !== 'http:'))
        throw refused('must be an https: address')
      if (url.username !== '' || url.password !== '') throw refused('must not hold a user name or password')
      if (isAllowed(url)) return url
      if (url.protocol !== 'https:') throw refused('must be an https: address')
      const host = url.hostname.replace(/^\[|\]$/g, '')
      const isLocalName = host === 'localhost' || /\.(?:localhost|local|internal)\.?$/.test(host) || !/[.:]/.test(host)
      if (isLocalName || (isIP(host) !== 0 && !isPublicAddress(host)))
        throw refused('must not point into a private network')
      return url
    },
    resolve: async (url) => {
      const host = url.hostname.replace(/^\[|\]$/g, '')
      const found = isIP(host) === 0 ? await lookup(host, { all: true }) : [{ address: host }]
      const [first] = found
      if (first === undefined) throw refused(`has a host without an address`)
      if (!isAllowed(url) && !found.every(({ address }) => isPublicAddress(address)))
        throw refused('points into a private network')
      return first.address
    },
  }
}

function refused(reason: string): InvalidRequestError {
  return new InvalidRequestError('webhook_refused', `url ${reason}`, {
    param: 'url',
    hint: 'the administrator may allow a host: trainyard serve --webhook-host <host>',
  })
}
