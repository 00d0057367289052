/**
 * Which database the tests of a file run on: SQLite, or a PostgreSQL server of the file's own. `onPostgres` runs the tests of other
 * files once more, as they stand, on the second.
 */
import { afterAll, beforeAll, describe, test } from 'vitest'
import type { OpenDatabase } from '#service/storage/database.js'
import { hasPostgres, type LocalPostgres, NO_POSTGRES, startPostgres } from '../local-postgres.js'
import { openDatabase, openPostgres } from './with-plugins.js'

let isChosen = false
let server: LocalPostgres | null = null
/** The address of one that has its tables, and nothing in them: what others are copies of, as making the tables takes ten times as long. */
let withTables: Promise<string> | null = null
const ofDirectories = new Map<string, string>()

/** The address of a PostgreSQL database with its tables; null where the file's tests run on SQLite. */
export async function testDatabaseAddress(): Promise<string | null> {
  if (server === null) return null
  withTables ??= makeTables(server)
  return server.createDatabase(await withTables)
}

async function makeTables({ createDatabase }: LocalPostgres): Promise<string> {
  const address = await createDatabase()
  const { close } = await openPostgres(address, { maxConnections: 1 })
  await close()
  return address
}

/** That of the data directory, which a server that is started on it again finds as the one before left it; null as above. */
export async function testDatabaseOf(dataDir: string): Promise<string | null> {
  if (server === null) return null
  const known = ofDirectories.get(dataDir) ?? (await testDatabaseAddress())
  if (known === null) return null
  ofDirectories.set(dataDir, known)
  return known
}

/** An empty database, in memory if it is SQLite. */
export async function openTestDatabase(): Promise<OpenDatabase> {
  const address = await testDatabaseAddress()
  return address === null ? openDatabase(':memory:') : openPostgres(address, { maxConnections: 4 })
}

/** True in tests that run on PostgreSQL, for those that are about files of SQLite. */
export const isOnPostgres = (): boolean => isChosen

/**
 * Runs the tests of files on PostgreSQL, each file's in a block of its own, or its hooks would be those of all.
 *
 * @param files what imports each, by a name for the block
 */
export function onPostgres(files: Readonly<Record<string, () => Promise<unknown>>>): void {
  if (!hasPostgres()) {
    test.skip(`on PostgreSQL: ${NO_POSTGRES}`)
    return
  }
  isChosen = true
  beforeAll(async () => {
    server = await startPostgres()
  })
  afterAll(async () => {
    await server?.stop()
    server = null
    withTables = null
  })
  for (const [name, load] of Object.entries(files)) {
    describe(`on PostgreSQL, ${name}`, async () => {
      await load()
    })
  }
}
