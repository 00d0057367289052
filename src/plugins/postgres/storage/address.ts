/**
 * The address of a database: `postgres://user@host:5432/name`, or with a folder of sockets
 * `postgres://user@/name?host=/run/postgresql`. Passwords are in no setting: they would show in lists of processes and
 * settings. PostgreSQL's own client takes PGPASSWORD or PGPASSFILE.
 */
import { InvalidRequestError } from '#base/errors/errors.js'

export interface PostgresAddress {
  /** For the driver. */
  readonly url: string
  /** For people: without what follows `?`. */
  readonly name: string
}

const EXAMPLE = 'postgres://trainyard@db.internal:5432/trainyard'

/** @param text begins with a scheme of the plugin @throws {InvalidRequestError} `invalid_setting` */
export function parsePostgresAddress(text: string): PostgresAddress {
  // a folder of sockets has no host before the path, which URL takes for a broken address
  const parsable = text.replace(/^(postgres(?:ql)?:\/\/[^/@]*@?)\//, '$1socket/')
  if (!URL.canParse(parsable)) throw invalid(`database must be an address like ${EXAMPLE}, and this one cannot be read`)
  const url = new URL(parsable)
  if (url.password !== '' || url.searchParams.has('password')) {
    throw invalid('database must not hold a password', 'set PGPASSWORD, or name a file with it in PGPASSFILE')
  }
  if (url.pathname.length < 2) throw invalid(`database must name a database after the host, as in ${EXAMPLE}`)
  return { url: text, name: text.replace(/\?.*$/s, '') }
}

function invalid(message: string, hint?: string): InvalidRequestError {
  return new InvalidRequestError('invalid_setting', message, {
    param: 'database',
    ...(hint === undefined ? {} : { hint }),
  })
}
