/**
 * PostgreSQL on this machine (Debian's `postgresql`, see .ci/run): a server of its own for one test file, as an unprivileged user, on
 * a socket in a temporary folder, without waiting for the disk. It ends with the file.
 */
import { type ChildProcess, execFile as execFileOf, spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { chownSync, existsSync, readdirSync } from 'node:fs'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { promisify } from 'node:util'
import { loadDriver } from '#plugins/postgres/storage/driver.js'
import { until } from './until.js'

const DEBIAN = '/usr/lib/postgresql'
/** Fails with what the program said. */
const execFile = promisify(execFileOf)
const BIN = existsSync(DEBIAN)
  ? (readdirSync(DEBIAN)
      .map((version) => path.join(DEBIAN, version, 'bin'))
      .filter((folder) => existsSync(path.join(folder, 'initdb')))
      .at(-1) ?? null)
  : null

/** The database refuses to run as root: it gets the user of Debian's package, or nobody. */
function unprivileged(): { uid?: number; gid?: number } {
  if (process.getuid?.() !== 0) return {}
  const id = (flag: string): number => {
    const { stdout } = spawnSync('id', [flag, 'postgres'], { encoding: 'utf8' })
    return /^\d+/.test(stdout) ? Number(stdout) : 65_534
  }
  return { uid: id('-u'), gid: id('-g') }
}

export const hasPostgres = (): boolean => BIN !== null && hasDriver()

function hasDriver(): boolean {
  try {
    loadDriver()
    return true
  } catch {
    return false
  }
}

/** What tests say that are skipped. */
export const NO_POSTGRES = 'PostgreSQL is not installed (apt-get install postgresql), or its driver (npm ci)'

export interface LocalPostgres {
  /** A database, empty or as that of an address is, which nobody may be connected to. @returns its address */
  createDatabase(like?: string): Promise<string>
  /** Runs statements in a database. */
  query<Row extends object>(address: string, statement: string): Promise<Row[]>
  /** The path on which it listens. */
  readonly socket: string
  /** Ends every connection at once, as a crash does, and starts no new one until `start`. */
  kill(): Promise<void>
  start(): Promise<void>
  stop(): Promise<void>
}

export async function startPostgres(settings: Readonly<Record<string, string>> = {}): Promise<LocalPostgres> {
  if (BIN === null) throw new Error(NO_POSTGRES)
  const bin = BIN
  const folder = await mkdtemp(path.join(tmpdir(), 'trainyard-pg-'))
  const user = unprivileged()
  if (user.uid !== undefined && user.gid !== undefined) chownSync(folder, user.uid, user.gid)
  const data = path.join(folder, 'data')
  await execFile(
    path.join(bin, 'initdb'),
    ['-D', data, '-U', 'tests', '-A', 'trust', '-E', 'UTF8', '--no-sync', '--locale=C.UTF-8'],
    { ...user, cwd: folder },
  )
  const options = {
    fsync: 'off',
    synchronous_commit: 'off',
    full_page_writes: 'off',
    max_connections: '60',
    ...settings,
  }
  const flags = Object.entries({ listen_addresses: '', unix_socket_directories: folder, ...options })
  let server: ChildProcess | null = null
  let count = 0

  const addressOf = (name: string): string => `postgres://tests@/${name}?host=${folder}`

  async function query<Row extends object>(address: string, statement: string): Promise<Row[]> {
    const client = new (loadDriver().Client)({ connectionString: address })
    client.on('error', () => undefined)
    await client.connect()
    try {
      return (await client.query<Row>(statement)).rows
    } finally {
      await client.end()
    }
  }

  async function start(): Promise<void> {
    const args = ['-D', data, ...flags.flatMap(([name, value]) => ['-c', `${name}=${value}`])]
    server = spawn(path.join(bin, 'postgres'), args, { ...user, cwd: folder, stdio: 'ignore' })
    const isUp = () =>
      query(addressOf('postgres'), 'select 1').then(
        () => true,
        () => null,
      )
    await until(isUp, 'PostgreSQL answers', 60_000)
  }

  async function end(signal: NodeJS.Signals): Promise<void> {
    if (server === null || server.exitCode !== null || server.signalCode !== null) return
    const ended = once(server, 'exit')
    server.kill(signal)
    await ended
  }

  await start()
  return {
    createDatabase: async (like) => {
      count += 1
      const name = `test_${process.pid}_${count}`
      // a locale whose order is not that of bytes would show a column that has no collation of its own
      const template = like === undefined ? '' : ` template ${/@\/(\w+)/.exec(like)?.[1]}`
      await query(addressOf('postgres'), `create database ${name}${template}`)
      return addressOf(name)
    },
    query,
    socket: path.join(folder, '.s.PGSQL.5432'),
    start,
    // an immediate shutdown: no goodbye to anybody, and a recovery at the next start
    kill: () => end('SIGQUIT'),
    stop: async () => {
      await end('SIGQUIT')
      await rm(folder, { recursive: true, force: true, maxRetries: 20 })
    },
  }
}
