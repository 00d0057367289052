/**
 * API keys made where the data lies: the first one, and a new one for the owner who lost it. Whoever may write the data
 * directory owns it, so no key is asked for.
 */
import { randomBytes } from 'node:crypto'
import { chmod, readFile, stat, writeFile } from 'node:fs/promises'
import { join, resolve } from 'node:path'
import { ConflictError, NotFoundError } from '#base/errors/errors.js'
import { type IdSource, systemIds } from '#base/util/ids.js'
import { createLifetimes, type Lifetimes } from '#base/util/lifetimes.js'
import { moveFile } from '#base/util/move-file.js'
import {
  type ApiKeyRecord,
  findApiKey,
  hasApiKeys,
  insertApiKey,
  type NewApiKey,
  newApiKey,
} from '#service/storage/api-keys.js'
import { type DataDir, openDataDir } from '#service/storage/data-dir.js'
import { type DatabaseHandle, type OpenDatabase, openDatabase } from '#service/storage/database.js'
import type { DatabaseAddress } from '#service/storage/remote-database.js'
import type { SchemaPart } from '#service/storage/schema-part.js'
import { hasTable } from '#service/storage/upkeep/catalog.js'
import { openOwnDatabase } from '#service/storage/upkeep/open-own-database.js'
import { unusedName } from '#service/storage/upkeep/ownership.js'
import { checkName } from './names.js'
import { OPERATOR_ENTITY as DEFAULT_ENTITY } from './tenant.js'

export interface LocalKey {
  /** Shown once; the database has its hash only. */
  readonly key: string
  readonly id: string
  readonly entity: string
  /** Where it was stored, because the key file was lost; null when that file holds another valid key. */
  readonly keyFile: string | null
  /** Where the key file is kept whose place it took; it holds no key of this database. */
  readonly keptFile: string | null
}

/** The first key, and where the key file of before is kept; null if there was none. */
export interface FirstKey {
  readonly key: string
  readonly keptFile: string | null
}

/**
 * Makes the first key, if there is none. The file is complete before the row exists, so a crash between loses nothing.
 *
 * @returns null if there were keys
 */
export async function ensureApiKey(db: DatabaseHandle, dataDir: DataDir, ids: IdSource): Promise<FirstKey | null> {
  if (await hasApiKeys(db)) return null
  const key = newApiKey(ids)
  const keptFile = await writeKeyFile(dataDir.apiKeyPath, key)
  await insertApiKey(db, { id: ids.uuid(), entity: DEFAULT_ENTITY }, key)
  return { key, keptFile }
}

/** Whether there are keys, and the key file is gone or holds none of them. */
export async function isKeyFileLost(db: DatabaseHandle, dataDir: Pick<DataDir, 'apiKeyPath'>): Promise<boolean> {
  return (await findLocalKey(db, dataDir)) === null && (await hasApiKeys(db))
}

/** The key in the key file; null when the file is gone or holds none that is valid. */
export async function findLocalKey(
  db: DatabaseHandle,
  { apiKeyPath }: Pick<DataDir, 'apiKeyPath'>,
): Promise<ApiKeyRecord | null> {
  const text = await readFile(apiKeyPath, 'utf8').catch(() => '')
  return findApiKey(db, text.trim())
}

interface LocalKeyPlace {
  /** Of the database that has the rows; null: a file of the directory. */
  readonly address: DatabaseAddress | null
  /** What plugins add to the database. */
  readonly parts: readonly SchemaPart[]
}

/**
 * Makes another key in a data directory, also beside a server that runs on it: the server accepts it at once.
 *
 * @param wanted its limits; by default it may do everything in the entity of the first key
 * @throws {NotFoundError} `data_dir_not_found` if no service has used that directory, or that database, yet
 */
export async function createLocalKey(
  path: string,
  wanted: Partial<Omit<NewApiKey, 'id'>>,
  { address, parts }: LocalKeyPlace,
): Promise<LocalKey> {
  if (wanted.project != null) checkName('project', wanted.project)
  const root = resolve(path)
  const lifetimes = createLifetimes()
  try {
    const database = address === null ? await openFileOf(root, parts, lifetimes) : await openBeside(address)
    lifetimes.add('database', () => database.close())
    const apiKeyPath = join(root, 'api-key')
    const key = newApiKey(systemIds)
    // a machine that only reaches the database keeps no key file
    const hasDirectory = (await stat(root).catch(() => null)) !== null
    const isLost =
      (hasDirectory && (await isKeyFileLost(database.db, { apiKeyPath }))) || !(await hasApiKeys(database.db))
    const entity = wanted.entity ?? DEFAULT_ENTITY
    const id = systemIds.uuid()
    // the key file lets the command line do everything in the entity of the first key: no lesser key takes its place
    const isWhole =
      entity === DEFAULT_ENTITY && (wanted.scope ?? 'admin') === 'admin' && (wanted.project ?? null) === null
    const keyFile = isLost && isWhole && (wanted.expiresInMs ?? null) === null ? apiKeyPath : null
    const keptFile = keyFile === null ? null : await writeKeyFile(keyFile, key)
    await insertApiKey(database.db, { ...wanted, id, entity }, key)
    return { id, key, entity, keyFile, keptFile }
  } finally {
    await lifetimes.end()
  }
}

/** @throws {NotFoundError} `data_dir_not_found` */
async function openFileOf(root: string, parts: readonly SchemaPart[], lifetimes: Lifetimes): Promise<OpenDatabase> {
  const databasePath = join(root, 'trainyard.sqlite3')
  if ((await stat(databasePath).catch(() => null)) === null) {
    throw new NotFoundError('data_dir_not_found', `"${root}" is not the data directory of a service`, {
      hint: 'name it with --data-dir, and run this as a user who may read it; `trainyard serve` makes one with its first key',
    })
  }
  const dataDir = await lockIfFree(root)
  // whether it belongs to the directory is looked at as a start does; a server that works with it has looked
  if (dataDir === null) {
    return withKeys(await openDatabase(databasePath, { isMigrating: false }), {
      message: `the server of "${root}" keeps its rows in another place`,
      hint: 'name its database with --database postgres://…',
    })
  }
  lifetimes.add('data directory', () => dataDir.unlock())
  return openOwnDatabase(dataDir, { parts })
}

/** @throws {NotFoundError} `data_dir_not_found` for a database without our tables */
async function openBeside(address: DatabaseAddress): Promise<OpenDatabase> {
  return withKeys(await address.open({ maxConnections: 2, isBeside: true }), {
    message: 'no service has used that database yet',
    hint: '`trainyard serve` makes its tables, with the first key',
  })
}

async function withKeys(
  database: OpenDatabase,
  without: { readonly message: string; readonly hint: string },
): Promise<OpenDatabase> {
  if (await hasTable(database.db, 'api_keys')) return database
  await database.close()
  throw new NotFoundError('data_dir_not_found', without.message, { hint: without.hint })
}

/** Null while a server holds it: its tables are as this version wants them, and one row beside it harms nothing. */
async function lockIfFree(root: string): Promise<DataDir | null> {
  try {
    return await openDataDir(root)
  } catch (error) {
    if (error instanceof ConflictError) return null
    throw error
  }
}

/**
 * Without a line break at the end: scripts read the file as it is. A key that is there may be one that another database knows, so its
 * file gets another name.
 *
 * @returns that name; null if there was none
 */
async function writeKeyFile(path: string, key: string): Promise<string | null> {
  const temporary = `${path}.${randomBytes(4).toString('hex')}.tmp`
  await writeFile(temporary, key, { mode: 0o600, flush: true })
  await chmod(temporary, 0o600)
  const before = (await readFile(path, 'utf8').catch(() => '')).trim()
  const keptFile = before === '' ? null : await unusedName(`${path}.kept`)
  if (keptFile !== null) await moveFile(path, keptFile)
  await moveFile(temporary, path)
  return keptFile
}
