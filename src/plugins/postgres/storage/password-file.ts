/**
 * The password of a database from a file, as PostgreSQL's own programs read it: `host:port:database:user:password` in each
 * line, `*` for any, `\:` and `\\` for these characters, `#` begins a comment. Source: PostgreSQL's manual, section "The
 * Password File".
 *
 * The driver's own reader warns of itself on standard error, where the log's lines of JSON stand, and is silent where the file
 * does not help.
 */
import { readFile, stat } from 'node:fs/promises'
import { homedir } from 'node:os'
import { join } from 'node:path'
import type { Environment } from '#base/environment.js'
import { StorageError, systemCodeOf } from '#base/errors/errors.js'

/** What a connection is made to, in the driver's words. */
export interface PasswordTarget {
  /** Or a folder of sockets. */
  readonly host: string
  readonly port: number
  readonly database: string
  readonly user: string
}

/** Asked when the database wants a password. @throws {StorageError} `database_refused` where the file has none for it */
export type PasswordSource = (target: PasswordTarget) => Promise<string>

/** @returns null where the environment has the password itself, which the driver reads */
export function createPasswordSource(environment: Environment): PasswordSource | null {
  if (environment['PGPASSWORD'] !== undefined) return null
  const path = environment['PGPASSFILE'] ?? defaultPath(environment)
  return async (target) => {
    const problem = await problemOf(path)
    const password = problem === null ? findPassword(await readFile(path, 'utf8'), target) : null
    if (password !== null) return password
    const { host, port, database, user } = target
    const why = problem ?? `has no line for ${host}:${port}:${database}:${user}`
    throw new StorageError('database_refused', `the database asks for a password, and "${path}" ${why}`, {
      hint: 'set PGPASSWORD, or name a file in PGPASSFILE that has a line host:port:database:user:password and that only its owner can read',
    })
  }
}

function defaultPath({ APPDATA }: Environment): string {
  if (process.platform === 'win32') return join(APPDATA ?? homedir(), 'postgresql', 'pgpass.conf')
  return join(homedir(), '.pgpass')
}

/** Why the file is not read; null: it is. */
async function problemOf(path: string): Promise<string | null> {
  try {
    const facts = await stat(path)
    if (!facts.isFile()) return 'is no file'
    // Windows keeps no such bits
    if (process.platform === 'win32' || (facts.mode & 0o077) === 0) return null
    return `can be read by others than its owner (mode ${(facts.mode & 0o777).toString(8)}), so it is not used`
  } catch (error) {
    return systemCodeOf(error) === 'ENOENT' ? 'does not exist' : 'cannot be read'
  }
}

/** The password of the first line that fits, or null. */
export function findPassword(text: string, { host, port, database, user }: PasswordTarget): string | null {
  const hosts = host.startsWith('/') ? [host, 'localhost'] : [host]
  for (const line of text.split(/\r?\n/)) {
    if (line.startsWith('#')) continue
    const fields = splitFields(line)
    if (fields.length < 5) continue
    const [ofHost = '', ofPort, ofDatabase, ofUser, password = ''] = fields
    const isFitting =
      (ofHost === '*' || hosts.includes(ofHost)) &&
      (ofPort === '*' || ofPort === String(port)) &&
      (ofDatabase === '*' || ofDatabase === database) &&
      (ofUser === '*' || ofUser === user)
    if (isFitting) return password
  }
  return null
}

/** Fields between colons that no backslash stands before; the last one, the password, is all that is left. */
function splitFields(line: string): readonly string[] {
  const fields = ['']
  for (let at = 0; at < line.length; at += 1) {
    const isEscape = line[at] === '\\' && /[:\\]/.test(line[at + 1] ?? '')
    if (isEscape) at += 1
    if (!isEscape && line[at] === ':' && fields.length < 5) fields.push('')
    else fields[fields.length - 1] += line[at] ?? ''
  }
  return fields
}
