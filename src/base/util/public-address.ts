/**
 * Which IP addresses are the public internet's. Source: IANA's registries of special-purpose addresses (RFC 6890 and updates).
 *
 * And how to connect to an address that was checked, whatever its name says by then.
 */
import type { RequestOptions } from 'node:https'
import { BlockList, isIP } from 'node:net'

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

/** Whether an IP address belongs to the public internet; false for what is no address. A zone (`%eth0`) is passed over. */
export function isPublicAddress(address: string): boolean {
  const plain = address.replace(/%.*$/, '')
  if (isIP(plain) === 4) return !special.check(plain, 'ipv4')
  // also refuses IPv4-mapped addresses
  return isIP(plain) === 6 && handedOut.check(plain, 'ipv6') && !special.check(plain, 'ipv6')
}

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
