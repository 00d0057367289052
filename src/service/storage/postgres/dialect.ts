/**
 * PostgreSQL as Kysely speaks it: SQLite's types and its clock become PostgreSQL's, texts sort by their bytes, errors are in our words, and
 * a connection that broke is not used again.
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
import { postgresSpelling } from '../sql-words.js'
import type { Pool, PooledClient } from './driver.js'
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

class Connection implements DatabaseConnection {
  readonly client: PooledClient
  isBroken = false
  isInTransaction = false

  constructor(client: PooledClient) {
    this.client = client
  }

  async executeQuery<Row>(query: CompiledQuery): Promise<QueryResult<Row>> {
    try {
      const { command, rowCount, rows } = await this.client.query<Row>(query.sql, [...query.parameters])
      const isWrite = command === 'INSERT' || command === 'UPDATE' || command === 'DELETE'
      return { rows: rows ?? [], ...(isWrite ? { numAffectedRows: BigInt(rowCount ?? 0) } : {}) }
    } catch (error) {
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

  constructor(pool: Pool) {
    this.#pool = pool
  }

  async init(): Promise<void> {}

  async acquireConnection(): Promise<Connection> {
    try {
      return new Connection(await this.#pool.connect())
    } catch (error) {
      throw toDatabaseError(error)
    }
  }

  async beginTransaction(connection: Connection, { isolationLevel }: TransactionSettings): Promise<void> {
    const isolation = isolationLevel === undefined ? '' : ` isolation level ${isolationLevel}`
    connection.isInTransaction = true
    await connection.executeQuery(CompiledQuery.raw(`start transaction${isolation}`))
  }

  async commitTransaction(connection: Connection): Promise<void> {
    try {
      await connection.executeQuery(CompiledQuery.raw('commit'))
    } catch (error) {
      throw connection.isBroken ? unknownOutcome(error) : error
    }
  }

  async rollbackTransaction(connection: Connection): Promise<void> {
    try {
      if (!connection.isBroken) await connection.executeQuery(CompiledQuery.raw('rollback'))
    } catch {
      // what made us roll back is what people need to hear; the database rolls back when the connection ends
      connection.isBroken = true
    }
  }

  async releaseConnection(connection: Connection): Promise<void> {
    connection.client.release(connection.isBroken)
  }

  async destroy(): Promise<void> {
    await this.#pool.end()
  }
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
