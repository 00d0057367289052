/**
 * The driver of PostgreSQL, `pg`: the only place that loads it, and only when a database is opened. Of its surface this is what we use.
 */
import { createRequire } from 'node:module'
import type { Writable } from 'node:stream'

export interface QueryAnswer<Row> {
  readonly command: string
  readonly rowCount: number | null
  readonly rows: Row[]
}

export interface Statement {
  readonly text: string
  readonly values: readonly unknown[]
  /** Prepared under it on each connection, once. */
  readonly name?: string
}

export interface Client {
  connect(): Promise<unknown>
  query<Row>(statement: string | Statement, parameters?: readonly unknown[]): Promise<QueryAnswer<Row>>
  end(): Promise<void>
  on(event: 'error', listener: (error: Error) => void): unknown
  on(
    event: 'notification',
    listener: (notice: { readonly channel: string; readonly payload?: string }) => void,
  ): unknown
  once(event: 'end', listener: () => void): unknown
}

/** A client that goes back to its pool. */
export interface PooledClient extends Pick<Client, 'query'> {
  readonly connection: { readonly stream: Pick<Writable, 'cork' | 'uncork'> }
  /** @param isBroken it is ended instead */
  release(isBroken?: boolean): void
}

export interface Pool {
  connect(): Promise<PooledClient>
  end(): Promise<void>
  on(event: 'error', listener: (error: Error) => void): unknown
  /** Each connection that is made. */
  on(event: 'connect', listener: (client: Client) => void): unknown
}

export interface ConnectionOptions {
  readonly connectionString: string
  readonly application_name?: string
  readonly connectionTimeoutMillis?: number
  readonly keepAlive?: boolean
  readonly query_timeout?: number
  /** Statements are sent without waiting for the answers to those before them. */
  readonly pipeline?: boolean
  /** Settings of the session, as on `postgres`'s command line. */
  readonly options?: string
  readonly types?: { getTypeParser(oid: number, format?: 'text' | 'binary'): unknown }
}

export interface PostgresDriver {
  readonly Client: new (options: ConnectionOptions) => Client
  readonly Pool: new (options: ConnectionOptions & { readonly max: number }) => Pool
  readonly types: { getTypeParser(oid: number, format?: 'text' | 'binary'): unknown }
}

const load = createRequire(import.meta.url)

export function loadDriver(): PostgresDriver {
  return load('pg') as PostgresDriver
}
