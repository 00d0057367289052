/**
 * Rows and blobs that do not lie in the data directory have an address, and who opens it is found by its scheme: the core has
 * none, plugins bring them (`databases` and `blobStores` of a manifest).
 */
import type { Environment } from '#base/environment.js'
import { InvalidRequestError } from '#base/errors/errors.js'

/** Who opens addresses of some schemes. */
export interface AddressKind<T> {
  /** What stands before `://`. */
  readonly schemes: readonly string[]
  /** One address, as errors show it. */
  readonly example: string
  /**
   * Reads the address, and opens nothing yet. Loads what opens it.
   *
   * @throws {InvalidRequestError} `invalid_setting`
   */
  read(address: string, environment: Environment): Promise<T>
}

/** The part of an address before `://`; null if there is none. */
const SCHEME = /^([a-z][a-z0-9+.-]{0,30}):\/\//

/**
 * Asks for who opens an address.
 *
 * @param setting the key of what holds it
 * @throws {InvalidRequestError} `invalid_setting` for a scheme that nobody opens, and what `read` throws
 */
export async function readAddress<T>(
  setting: 'database' | 'blob-store',
  address: string,
  kinds: readonly AddressKind<T>[],
  environment: Environment,
): Promise<T> {
  const scheme = SCHEME.exec(address)?.[1] ?? null
  const kind = kinds.find(({ schemes }) => scheme !== null && schemes.includes(scheme))
  if (kind !== undefined) return kind.read(address, environment)
  const examples = kinds.map(({ example }) => example)
  // the text is not repeated: it may hold a key or a password
  const got = scheme === null ? 'got a text without a scheme' : `got scheme "${scheme}"`
  throw new InvalidRequestError(
    'invalid_setting',
    examples.length === 0
      ? `${setting} must be absent: no plugin is loaded that opens addresses, ${got}`
      : `${setting} must be an address like ${examples.join(' or ')}, ${got}`,
    { param: setting, ...(examples.length === 0 ? {} : { hint: `for example --${setting} '${examples[0]}'` }) },
  )
}
