/**
 * The driver of PostgreSQL, `pg`: the only place that loads it, and only when a database is opened. Of its surface this is what
 * we use.
 */
import { createRequire } from 'node:module'
import type { Writable } from 'node:stream'
import type { PasswordSource, PasswordTarget } from './password-file.js'

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

export type ClientClass = new (options: ConnectionOptions) => Client

export interface PostgresDriver {
  readonly Client: ClientClass
  readonly Pool: new (options: ConnectionOptions & { readonly max: number; readonly Client: ClientClass }) => Pool
  readonly types: { getTypeParser(oid: number, format?: 'text' | 'binary'): unknown }
}

const load = createRequire(import.meta.url)

export function loadDriver(): PostgresDriver {
  return load('pg') as PostgresDriver
}

/**
 * Clients that ask `source` when the database wants a password. An option of the driver would not do: it forgets that one
 * beside an address.
 *
 * @param source null: the driver has it from the environment
 */
export function withPassword(Base: ClientClass, source: PasswordSource | null): ClientClass {
  if (source === null) return Base
  return class Asking extends Base {
    declare readonly connection: { readonly stream: { destroy(): void } }
    constructor(options: ConnectionOptions) {
      super(options)
      Object.assign(this, { password: (target: PasswordTarget) => this.ask(target) })
    }
    private async ask(target: PasswordTarget): Promise<string> {
      try {
        return await source(target)
      } catch (error) {
        // else the database waits a minute for the password, and this process for the database
        this.connection.stream.destroy()
        throw error
      }
    }
  }
}
