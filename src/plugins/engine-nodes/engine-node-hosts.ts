/**
 * Where engine nodes may be that are not the operator's: a node names its own address, and the server connects to it, so a tenant
 * could look into the operator's network by it. Only hosts that the operator names are connected to, at the address that was
 * checked.
 */
import { BlockList, isIP } from 'node:net'
import { InvalidRequestError } from '#base/errors/errors.js'
import type { NameService } from '#service/operations/address-rules.js'

export interface EngineNodeHosts {
  /**
   * The address to connect to; null: none that is allowed, or the name has none, which a stranger is not told apart.
   *
   * @param key who asks: names are looked up in turns by it
   */
  addressOf(url: URL, key: string): Promise<string | null>
}

/** A resolver that says nothing is waited for so long. */
const LOOK_UP_MS = 5000

/**
 * @param hosts names or addresses, optionally with `:port`, and networks as `10.1.0.0/16`
 * @throws {InvalidRequestError} `invalid_engine_node_host` for what is none of these
 */
export function createEngineNodeHosts(hosts: readonly string[], lookUp: NameService): EngineNodeHosts {
  const names = new Set<string>()
  const networks = new BlockList()
  for (const host of hosts) {
    if (host.includes('/')) addNetwork(networks, host)
    else names.add(checkedName(host))
  }
  return {
    addressOf: async (url, key) => {
      const hostname = plain(url.hostname)
      const port = url.port === '' ? (url.protocol === 'http:' ? '80' : '443') : url.port
      const isNamed = names.has(hostname) || names.has(`${url.hostname}:${port}`) || names.has(`${hostname}:${port}`)
      // a name that nobody named is not even looked up where no network is
      if (!isNamed && !hosts.some((host) => host.includes('/'))) return null
      const found = isIP(hostname) > 0 ? [hostname] : await resolve(lookUp, hostname, key)
      const isAllowed = (address: string): boolean =>
        isNamed || networks.check(address, isIP(address) === 6 ? 'ipv6' : 'ipv4')
      const [first] = found
      return first !== undefined && found.every(isAllowed) ? first : null
    },
  }
}

async function resolve(lookUp: NameService, host: string, key: string): Promise<readonly string[]> {
  try {
    return (await lookUp(host, key, AbortSignal.timeout(LOOK_UP_MS))).map(({ address }) => address)
  } catch {
    return []
  }
}

function addNetwork(networks: BlockList, text: string): void {
  const [address = '', bits = ''] = text.split('/')
  const family = isIP(address)
  const most = family === 4 ? 32 : 128
  if (family === 0 || !/^\d{1,3}$/.test(bits) || Number(bits) > most) throw wrong(text)
  networks.addSubnet(address, Number(bits), family === 4 ? 'ipv4' : 'ipv6')
}

function checkedName(text: string): string {
  const bare = text.toLowerCase()
  if (isIP(bare) > 0) return bare
  if (!URL.canParse(`http://${bare}`) || /[/?#@]/.test(bare)) throw wrong(text)
  return bare
}

/** Without an address's brackets and the dots that end a full name. */
const plain = (hostname: string): string => hostname.replace(/^\[|\]$/g, '').replace(/\.+$/, '')

function wrong(text: string): InvalidRequestError {
  return new InvalidRequestError(
    'invalid_engine_node_host',
    `--engine-node-host must be a name, an address or a network, got "${text.slice(0, 200)}"`,
    { hint: 'for example gpu1.internal, gpu1.internal:8700, 10.1.2.3 or 10.1.0.0/16' },
  )
}
