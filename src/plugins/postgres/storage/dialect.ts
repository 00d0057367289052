/**
 * PostgreSQL as Kysely speaks it: SQLite's types and its clock become PostgreSQL's, texts sort by their bytes, errors are in
 * our words, and a connection that broke is not used again.
 */
import {
  type ColumnDefinitionNode,
  CompiledQuery,
  type DatabaseConnection,
  type DataTypeNode,
  type Driver,
  type Kysely,
  PostgresAdapter,
  PostgresDialect,
  PostgresIntrospector,
  PostgresQueryCompiler,
  type QueryResult,
  type RawNode,
  type TransactionSettings,
} from 'kysely'
import { postgresSpelling } from '#service/storage/sql-words.js'
import type { Pool, PooledClient, QueryAnswer } from './driver.js'
import { isConnectionLost, toDatabaseError, unknownOutcome } from './errors.js'

/** How statements and migrations spell the database's clock. */
export const CLOCK_OF_SQLITE = "cast(unixepoch('subsec') * 1000 as integer)"
/** Milliseconds since 1970, also inside a transaction that is older. */
export const CLOCK = 'trunc(extract(epoch from clock_timestamp()) * 1000)::bigint'

/** Integers have 64 bits in SQLite, and texts sort by their bytes whatever the database's own rules are. */
const TYPES: Readonly<Record<string, string>> = {
  text: 'text collate "C"',
  integer: 'bigint',
  blob: 'bytea',
  real: 'double precision',
}

/** A statement in SQLite's words for types → PostgreSQL's. */
export function toPostgresTypes(statement: string): string {
  return statement.replace(/\b(text|integer|blob|real)\b/g, (type) => TYPES[type] ?? type)
}

function toPostgresClock(text: string): string {
  return text.replace(/cast\(unixepoch\('subsec'\) \* 1000 as (integer|bigint)\)/g, CLOCK)
}

class Compiler extends PostgresQueryCompiler {
  protected override visitRaw(node: RawNode): void {
    const own = postgresSpelling(node)
    if (own !== null) this.visitNode(own)
    else super.visitRaw({ ...node, sqlFragments: node.sqlFragments.map(toPostgresClock) })
  }

  protected override visitColumnDefinition(node: ColumnDefinitionNode): void {
    const { dataType } = node
    const type = dataType.kind === 'DataTypeNode' ? TYPES[(dataType as DataTypeNode).dataType as string] : undefined
    if (type === undefined) super.visitColumnDefinition(node)
    else {
      const own: RawNode = { kind: 'RawNode', sqlFragments: [type], parameters: [] }
      super.visitColumnDefinition({ ...node, dataType: own })
    }
  }
}

const COMMIT = CompiledQuery.raw('commit')

/** The name of a statement that is prepared, or null. */
type StatementNames = (text: string) => string | null

/** Each of the pool's connections keeps its own of them, of some kilobytes. */
const MOST_NAMED = 300
/** Statements with lists have as many texts as lengths: only those that come again and again are worth a name. */
const NAMED_FROM = 10
const MOST_COUNTED = 2000

/** Statements that come often are parsed and planned once for each connection. */
function createStatementNames(): StatementNames {
  const names = new Map<string, string>()
  let counts = new Map<string, number>()
  return (text) => {
    const name = names.get(text)
    if (name !== undefined || names.size >= MOST_NAMED) return name ?? null
    const count = (counts.get(text) ?? 0) + 1
    if (counts.size >= MOST_COUNTED) counts = new Map()
    counts.set(text, count)
    if (count < NAMED_FROM) return null
    counts.delete(text)
    const given = `ty_${names.size}`
    names.set(text, given)
    return given
  }
}

class Connection implements DatabaseConnection {
  readonly client: PooledClient
  readonly #nameOf: StatementNames
  isBroken = false
  isInTransaction = false
  /**
   * A statement has failed, and nothing was undone since: PostgreSQL takes none any more, and its commit is a rollback without
   * a word.
   */
  hasFailed = false
  /**
   * What goes in front of the next statement, and need not be answered before that is sent: if it fails, so does the statement.
   */
  ahead = ''

  constructor(client: PooledClient, nameOf: StatementNames) {
    this.client = client
    this.#nameOf = nameOf
  }

  async #send<Row>({ sql: text, parameters }: CompiledQuery): Promise<QueryAnswer<Row>> {
    const values = [...parameters]
    // those of transactions have no plan to keep, and are one message without a name instead of four
    const name = parameters.length === 0 ? null : this.#nameOf(text)
    const statement = name === null ? { text, values } : { name, text, values }
    if (this.ahead === '') return this.client.query<Row>(statement)
    const { stream } = this.client.connection
    // both in one write: each costs as much as the statement's own text does
    stream.cork()
    const before = this.client.query(this.ahead)
    const answer = this.client.query<Row>(statement)
    stream.uncork()
    this.ahead = ''
    return (await Promise.all([answer, before]))[0]
  }

  async executeQuery<Row>(query: CompiledQuery): Promise<QueryResult<Row>> {
    try {
      const { command, rowCount, rows } = await this.#send<Row>(query)
      // nothing that we saw failed, and yet nothing was kept
      if (query === COMMIT && command !== 'COMMIT') throw wentOn()
      const isWrite = command === 'INSERT' || command === 'UPDATE' || command === 'DELETE'
      return { rows: rows ?? [], ...(isWrite ? { numAffectedRows: BigInt(rowCount ?? 0) } : {}) }
    } catch (error) {
      this.hasFailed = true
      if (!isConnectionLost(error)) throw toDatabaseError(error)
      this.isBroken = true
      // without a commit of a transaction nothing is changed; a write of its own is its own commit
      const isRead = query.query.kind === 'SelectQueryNode' || /^\s*select\b/i.test(query.sql)
      throw !isRead && !this.isInTransaction ? unknownOutcome(error) : toDatabaseError(error)
    }
  }

  // biome-ignore lint/correctness/useYield: nothing here reads rows one by one
  async *streamQuery<Row>(): AsyncIterableIterator<QueryResult<Row>> {
    throw new Error('rows are not streamed')
  }
}

class PoolDriver implements Driver {
  readonly #pool: Pool
  readonly #nameOf = createStatementNames()

  constructor(pool: Pool) {
    this.#pool = pool
  }

  async init(): Promise<void> {}

  async acquireConnection(): Promise<Connection> {
    try {
      return new Connection(await this.#pool.connect(), this.#nameOf)
    } catch (error) {
      throw toDatabaseError(error)
    }
  }

  async beginTransaction(connection: Connection, { isolationLevel }: TransactionSettings): Promise<void> {
    const isolation = isolationLevel === undefined ? '' : ` isolation level ${isolationLevel}`
    // not of this transaction, but of what the connection was used for before
    connection.hasFailed = false
    connection.isInTransaction = true
    try {
      await connection.executeQuery(CompiledQuery.raw(`start transaction${isolation}`))
    } catch (error) {
      connection.isInTransaction = false
      throw error
    }
  }

  async commitTransaction(connection: Connection): Promise<void> {
    if (connection.isBroken) throw lostBeforeCommit()
    if (connection.hasFailed) throw wentOn()
    try {
      await connection.executeQuery(COMMIT)
      connection.isInTransaction = false
    } catch (error) {
      throw connection.isBroken ? unknownOutcome(error) : error
    }
  }

  async rollbackTransaction(connection: Connection): Promise<void> {
    connection.ahead = ''
    try {
      if (!connection.isBroken) await connection.executeQuery(CompiledQuery.raw('rollback'))
    } catch {
      // what made us roll back is what people need to hear; the database rolls back when the connection ends
      connection.isBroken = true
    }
    connection.isInTransaction = false
  }

  async savepoint(connection: Connection, name: string): Promise<void> {
    connection.ahead += `savepoint ${name};`
  }

  async releaseSavepoint(connection: Connection, name: string): Promise<void> {
    if (connection.hasFailed) throw wentOn()
    connection.ahead += `release savepoint ${name};`
  }

  async rollbackToSavepoint(connection: Connection, name: string): Promise<void> {
    // there is nothing to go back to: the whole transaction is undone
    if (connection.isBroken) throw lostBeforeCommit()
    // without a statement behind it the savepoint was not made yet
    connection.ahead += `rollback to savepoint ${name}; release savepoint ${name};`
    connection.hasFailed = false
  }

  async releaseConnection(connection: Connection): Promise<void> {
    connection.client.release(connection.isBroken)
  }

  async destroy(): Promise<void> {
    await this.#pool.end()
  }
}

/** No commit has left this process: nothing is changed. */
const lostBeforeCommit = (): unknown => toDatabaseError(new Error('Connection terminated'))

function wentOn(): Error {
  return new Error('a statement of a transaction failed, and the transaction went on as if it had not')
}

/** The dialect over a pool, which ends with it. */
export class PoolDialect extends PostgresDialect {
  readonly #pool: Pool

  constructor(pool: Pool) {
    super({ pool: () => Promise.reject(new Error('the pool is the driver’s')) })
    this.#pool = pool
  }

  override createDriver(): Driver {
    return new PoolDriver(this.#pool)
  }

  override createQueryCompiler(): PostgresQueryCompiler {
    return new Compiler()
  }

  override createAdapter(): PostgresAdapter {
    return new PostgresAdapter()
  }

  override createIntrospector(db: Kysely<unknown>): PostgresIntrospector {
    return new PostgresIntrospector(db)
  }
}
