/**
 * Every row of one database → another of the same schema, table by table, then read back and compared: how many there are of each table,
 * and a digest over all of their values in the order of their keys. The caller's transaction makes all of it visible, or nothing.
 */
import { createHash, type Hash } from 'node:crypto'
import { sql } from 'kysely'
import { ConflictError, InvalidRequestError, StorageError } from '#base/errors/errors.js'
import type { Database } from '#service/storage/database.js'
import { spelled } from '#service/storage/sql-words.js'
import { listCounters, listTables, type TableFacts } from './table-facts.js'

export interface CopiedTable {
  readonly name: string
  readonly rows: number
  /** SHA-256 over all rows, hex: equal in both. */
  readonly digest: string
}

interface CopyOptions {
  /** Both within transactions of their own: as of one moment, and at once. */
  readonly source: Database
  readonly target: Database
  /** Where blobs are from now on, which one row says: null for the data directory. */
  readonly blobStore: string | null
  readonly signal?: AbortSignal | undefined
  readonly onProgress?: (table: string, rows: number) => void
}

type Row = Readonly<Record<string, unknown>>

/** Triggers of other tables write these. */
const WRITTEN_BY_TRIGGERS = new Set(['model_counts'])

/** Rows are read so many at a time: fewer of those that hold much. */
const FIRST_ROWS = 16
const MOST_ROWS = 500
const MUCH_BYTES = 1 << 20
/** SQLite takes 32,766 values in a statement, PostgreSQL 65,535. */
const MOST_VALUES = 30_000

/**
 * Copies and compares.
 *
 * @throws {ConflictError} `schema_differs`; {InvalidRequestError} `row_not_storable`; {StorageError} `move_differs`: the transaction must not
 *   be committed
 */
export async function copyRows(options: CopyOptions): Promise<readonly CopiedTable[]> {
  const { source, target, signal, onProgress = () => undefined } = options
  const tables = await listTables(target)
  assertSameTables(await listTables(source), tables)
  const refusesNul = await isNulRefused(target)
  const copied: CopiedTable[] = []
  let total = 0
  for (const table of tables) {
    const digest = createHash('sha256')
    let count = 0
    for await (const read of readRows(source, table)) {
      signal?.throwIfAborted()
      const rows = read.map((row) => toMoved(table, row, options.blobStore))
      if (refusesNul) for (const row of rows) assertStorable(table, row)
      addRows(digest, table, rows)
      if (!WRITTEN_BY_TRIGGERS.has(table.name)) await insertRows(target, table, rows)
      count += rows.length
      total += rows.length
      onProgress(table.name, total)
    }
    copied.push({ name: table.name, rows: count, digest: digest.digest('hex') })
  }
  for (const table of tables) {
    signal?.throwIfAborted()
    assertEqual(copied.find(({ name }) => name === table.name) as CopiedTable, await digestTable(target, table))
  }
  await advanceCounters(target)
  return copied
}

/**
 * Compares what was copied before. @throws as {@link copyRows}
 */
export async function compareRows({
  source,
  target,
  blobStore,
  signal,
}: Omit<CopyOptions, 'onProgress'>): Promise<readonly CopiedTable[]> {
  const tables = await listTables(target)
  assertSameTables(await listTables(source), tables)
  const compared: CopiedTable[] = []
  for (const table of tables) {
    signal?.throwIfAborted()
    const expected = await digestTable(source, table, (row) => toMoved(table, row, blobStore))
    assertEqual(expected, await digestTable(target, table))
    compared.push(expected)
  }
  return compared
}

/** How many rows there are of each table; reads no more of them. */
export async function countRows(db: Database): Promise<readonly { readonly name: string; readonly rows: number }[]> {
  const counts: { name: string; rows: number }[] = []
  for (const { name } of await listTables(db)) {
    const { rows } = await sql<{ rows: number }>`select count(*) as rows from ${sql.table(name)}`.execute(db)
    counts.push({ name, rows: rows[0]?.rows ?? 0 })
  }
  return counts
}

/** What a table holds: for comparisons. */
async function digestTable(db: Database, table: TableFacts, change = (row: Row): Row => row): Promise<CopiedTable> {
  const digest = createHash('sha256')
  let count = 0
  for await (const rows of readRows(db, table)) {
    addRows(digest, table, rows.map(change))
    count += rows.length
  }
  return { name: table.name, rows: count, digest: digest.digest('hex') }
}

/** In the order of the key, which both databases sort by its bytes. */
async function* readRows(db: Database, { name, primaryKey }: TableFacts): AsyncGenerator<readonly Row[]> {
  if (primaryKey.length === 0) throw new Error(`table ${name} has no primary key`)
  const key = sql.join(primaryKey.map((column) => sql.ref(column)))
  let limit = FIRST_ROWS
  let last: Row | undefined
  for (;;) {
    const rows: readonly Row[] = await readBehind(last)
    if (rows.length > 0) yield rows
    if (rows.length < limit) return
    last = rows.at(-1)
    const bytes = rows.reduce((sum, row) => sum + sizeOf(row), 0)
    limit = bytes > MUCH_BYTES ? Math.max(1, limit >> 1) : Math.min(MOST_ROWS, limit * 2)
  }

  async function readBehind(row: Row | undefined): Promise<readonly Row[]> {
    const behind =
      row === undefined ? sql`` : sql`where (${key}) > (${sql.join(primaryKey.map((column) => row[column]))})`
    const read = sql<Row>`select * from ${sql.table(name)} ${behind} order by ${key} limit ${limit}`
    return (await read.execute(db)).rows
  }
}

async function insertRows(db: Database, { name, columns }: TableFacts, rows: readonly Row[]): Promise<void> {
  const most = Math.max(1, Math.floor(MOST_VALUES / columns.length))
  const names = sql.join(columns.map((column) => sql.ref(column)))
  for (let start = 0; start < rows.length; start += most) {
    const values = rows
      .slice(start, start + most)
      .map((row) => sql`(${sql.join(columns.map((column) => row[column] ?? null))})`)
    await sql`insert into ${sql.table(name)} (${names}) values ${sql.join(values)}`.execute(db)
  }
}

function addRows(digest: Hash, { columns }: TableFacts, rows: readonly Row[]): void {
  for (const row of rows) digest.update(`${JSON.stringify(columns.map((column) => toComparable(row[column])))}\n`)
}

/** Bytes are told from texts. */
function toComparable(value: unknown): unknown {
  return value instanceof Uint8Array ? { hex: Buffer.from(value).toString('hex') } : (value ?? null)
}

function sizeOf(row: Row): number {
  let bytes = 0
  for (const value of Object.values(row)) {
    if (typeof value === 'string' || value instanceof Uint8Array) bytes += value.length
  }
  return bytes
}

/** The one row that says something else in another place. */
function toMoved({ name }: TableFacts, row: Row, blobStore: string | null): Row {
  return name === 'database_identity' ? { ...row, blob_store: blobStore } : row
}

async function isNulRefused(db: Database): Promise<boolean> {
  const { rows } = await spelled<{ isRefused: number }>({
    sqlite: sql`select 0 as "isRefused"`,
    postgres: sql`select 1 as "isRefused"`,
  }).execute(db)
  return rows[0]?.isRefused === 1
}

function assertStorable({ name, columns, primaryKey }: TableFacts, row: Row): void {
  const column = columns.find((each) => {
    const value = row[each]
    return typeof value === 'string' && value.includes('\0')
  })
  if (column === undefined) return
  const key = primaryKey.map((each) => `${each} ${JSON.stringify(row[each])}`).join(', ')
  const problem = `${column} of ${name} (${key}) holds the character U+0000, which PostgreSQL cannot store`
  throw new InvalidRequestError('row_not_storable', problem, {
    hint: 'nothing was moved; change or delete it in the source, then move again',
  })
}

function assertSameTables(source: readonly TableFacts[], target: readonly TableFacts[]): void {
  const words = (tables: readonly TableFacts[]): readonly string[] =>
    tables.flatMap(({ name, columns }) => columns.map((column) => `${name}.${column}`)).sort()
  const [left, right] = [words(source), words(target)]
  const only = [...left.filter((each) => !right.includes(each)), ...right.filter((each) => !left.includes(each))]
  if (only.length === 0) return
  throw new ConflictError('schema_differs', `the tables of source and target differ: ${only.slice(0, 5).join(', ')}`, {
    hint: 'start this version of the program on the source once, stop it, then move',
  })
}

function assertEqual(source: CopiedTable, target: CopiedTable): void {
  if (source.rows === target.rows && source.digest === target.digest) return
  const [own, other] = [source, target].map(({ rows, digest }) => `${rows} rows with digest ${digest.slice(0, 12)}`)
  throw new StorageError('move_differs', `${source.name} has ${own} in the source and ${other} in the target`, {
    hint: 'nothing was moved; this is a fault of the program or of the database: report it',
  })
}

async function advanceCounters(db: Database): Promise<void> {
  for (const { table, name } of await listCounters(db)) {
    await sql`select setval(pg_get_serial_sequence(${table}, ${name}),
      (select coalesce(max(${sql.ref(name)}), 0) + 1 from ${sql.table(table)}), false)`.execute(db)
  }
}
