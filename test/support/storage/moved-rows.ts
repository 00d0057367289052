/**
 * What a database and a folder hold, all of it, for tests that compare two of them: read by other means than the program's own.
 */
import { createHash } from 'node:crypto'
import { readdir, readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { loadDriver } from '#plugins/postgres/storage/driver.js'
import { openSqlite } from '#service/storage/sqlite.js'

/** Table → its rows as JSON with sorted columns, sorted. Tables of the migrator are left out. */
export type Rows = Readonly<Record<string, readonly string[]>>

export function rowsOfFile(path: string): Rows {
  const sqlite = openSqlite(path, { readonly: true, fileMustExist: true })
  try {
    const names = sqlite
      .prepare("select name from sqlite_master where type = 'table' and name not like 'sqlite!_%' escape '!'")
      .pluck()
      .all() as string[]
    return toRows(names.map((name) => [name, sqlite.prepare(`select * from "${name}"`).all() as object[]]))
  } finally {
    sqlite.close()
  }
}

export async function rowsOfPostgres(address: string): Promise<Rows> {
  const client = new (loadDriver().Client)({ connectionString: address })
  await client.connect()
  try {
    const { rows } = await client.query<{ name: string }>(
      'select table_name::text as name from information_schema.tables where table_schema = current_schema()',
    )
    const tables: [string, object[]][] = []
    for (const { name } of rows) tables.push([name, (await client.query<object>(`select * from "${name}"`)).rows])
    return toRows(tables)
  } finally {
    await client.end()
  }
}

/** Every file below a folder with its digest, but not those that SQLite keeps beside a database while somebody reads. */
export async function filesOf(root: string): Promise<Readonly<Record<string, string>>> {
  const files: Record<string, string> = {}
  for (const entry of await readdir(root, { recursive: true, withFileTypes: true })) {
    if (!entry.isFile() || /-(shm|wal|journal)$/.test(entry.name)) continue
    const path = join(entry.parentPath, entry.name)
    files[path.slice(root.length + 1)] = createHash('sha256')
      .update(await readFile(path))
      .digest('hex')
  }
  return files
}

function toRows(tables: readonly (readonly [string, readonly object[]])[]): Rows {
  const kept = tables.filter(([name]) => !name.startsWith('kysely_'))
  return Object.fromEntries(kept.map(([name, rows]) => [name, rows.map(toText).sort()] as const).sort())
}

/** The driver gives 64-bit numbers as texts, so every number is one here; bytes are in hex. */
function toText(row: object): string {
  const entries = Object.entries(row).map(([name, value]): [string, unknown] => {
    if (value instanceof Uint8Array) return [name, { hex: Buffer.from(value).toString('hex') }]
    return [name, typeof value === 'number' ? String(value) : value]
  })
  return JSON.stringify(Object.fromEntries(entries.sort(([a], [b]) => (a < b ? -1 : 1))))
}
