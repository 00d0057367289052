/**
 * Which addresses this server may connect to for somebody else: public ones over https, and hosts that its administrator named.
 *
 * A name is resolved once for a connection, every address it has is checked, and the connection goes to the checked address, so
 * that a name that changes in between (DNS rebinding) leads nowhere else. A name without an address and one of a private network are
 * refused in the same words: otherwise strangers could ask which inner names there are.
 */

import { lookup as lookUpName } from 'node:dns/promises'
import { isIP } from 'node:net'
import { AppError, InvalidRequestError } from '#base/errors/errors.js'
import { isPublicAddress } from '#base/util/public-address.js'
import { createTurns, type Turns } from '#base/util/turns.js'
import { command } from '#contract/wire/command-words.js'

export interface AddressRules {
  /** Refuses what can be told without asking anybody. @throws {InvalidRequestError} the refusal */
  check(url: string): URL
  /**
   * The address to connect to.
   *
   * @param key who wants to connect: names are looked up in turns by it
   * @param signal ends the wait for a turn
   * @throws {InvalidRequestError} the refusal; what the resolver throws; {AppError} `queue_full`
   */
  resolve(url: URL, key: string, signal: AbortSignal): Promise<string>
}

/** All addresses of a name, as the system knows them. */
export type LookUp = (host: string) => Promise<readonly { readonly address: string }[]>

/** Looks names up, in turns by key. */
export type NameService = (host: string, key: string, signal: AbortSignal) => ReturnType<LookUp>

/**
 * Of a process. The system's resolver has two threads (half of libuv's four), each held for as long as a name server that says nothing is
 * waited for: names of one key's take one of them.
 *
 * @param lookUp default: the system's
 */
export function createNameService(lookUp: LookUp = (host) => lookUpName(host, { all: true })): NameService {
  const turns: Turns = createTurns({ what: 'names to look up', mostWaiting: 256, mostOfOneKey: 32, spare: 1 })
  return (host, key, signal) => turns.take(key, signal, () => lookUp(host))
}

/** How a refusal reads. */
export interface Refusal {
  readonly code: string
  /** Field that makes the answer a 422; null for a 400. */
  readonly param: string | null
  /** What is refused. */
  readonly subject: string
  /** The flag of `serve` that allows a host. */
  readonly flag: string
  /** What to do without the administrator. */
  readonly instead?: string
}

/**
 * @param allowedHosts names or addresses, optionally with `:port`, that may be anywhere and plain http
 * @param lookUp shared by all rules of a process
 */
export function createAddressRules(
  allowedHosts: readonly string[],
  { code, param, subject, flag, instead }: Refusal,
  lookUp: NameService = createNameService(),
): AddressRules {
  /** @param host allowing it would help; absent: nothing would, the address is wrong whatever its host */
  const refused = (reason: string, host?: string): InvalidRequestError => {
    const allow =
      host === undefined ? [] : [`the administrator may allow the host: ${command`trainyard serve ${flag} ${host}`}`]
    const hint = [...(instead === undefined ? [] : [instead]), ...allow].join('; ')
    return new InvalidRequestError(code, `${subject} ${reason}`, {
      ...(param === null ? {} : { param }),
      ...(hint === '' ? {} : { hint }),
    })
  }
  const allowed = new Set(allowedHosts.map((host) => host.toLowerCase()))
  // a URL leaves out the port that its protocol means anyway, an administrator may say it
  const isAllowed = ({ hostname, port, protocol }: URL) => {
    const known = `${hostname}:${port === '' ? (protocol === 'http:' ? 80 : 443) : port}`
    return [known, hostname, plainHost(hostname)].some((name) => allowed.has(name))
  }
  return {
    check: (text) => {
      const url = URL.canParse(text) ? new URL(text) : null
      if (url === null) throw refused('must be an https: address')
      if (url.protocol !== 'https:' && url.protocol !== 'http:')
        throw refused(`must be an https: address, got ${url.protocol}`)
      if (url.username !== '' || url.password !== '') throw refused('must not hold a user name or password')
      if (isAllowed(url)) return url
      if (url.protocol !== 'https:') throw refused('must be an https: address, got http:', url.host)
      const host = plainHost(url.hostname)
      const isLocalName = /(?:^|\.)(?:localhost|local|internal)$/.test(host) || !/[.:]/.test(host)
      if (isLocalName || (isIP(host) !== 0 && !isPublicAddress(host)))
        throw refused('must not point into a private network', url.host)
      return url
    },
    resolve: async (url, key, signal) => {
      const host = plainHost(url.hostname)
      const isTrusted = isAllowed(url)
      const found =
        isIP(host) === 0 ? await findAddresses(() => lookUp(host, key, signal), isTrusted, signal) : [{ address: host }]
      const [first] = found
      if (first === undefined || (!isTrusted && !found.every(({ address }) => isPublicAddress(address))))
        throw refused('has a host without an address in the public network', url.host)
      return first.address
    },
  }
}

/** Of a host that nobody allowed, what the resolver says of its failure stays here. */
async function findAddresses(
  ask: () => ReturnType<LookUp>,
  isTrusted: boolean,
  signal: AbortSignal,
): ReturnType<LookUp> {
  try {
    return await ask()
  } catch (error) {
    // a full queue and an end of waiting say nothing of the name
    if (isTrusted || error instanceof AppError || signal.aborted) throw error
    return []
  }
}

/** Without an address's brackets and the dots that end a full name: `localhost.` is `localhost`. */
function plainHost(hostname: string): string {
  return hostname.replace(/^\[|\]$/g, '').replace(/\.+$/, '')
}
