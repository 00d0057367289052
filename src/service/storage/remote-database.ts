/**
 * A database at an address, in place of a file of the data directory: what the core asks of it besides what it asks of any.
 * Plugins open them.
 */
import type { Kysely } from 'kysely'
import type { AppError } from '#base/errors/errors.js'
import type { AddressKind } from './addresses.js'
import type { BlobGuard } from './blobs/remote-blobs.js'
import type { OpenDatabase } from './database.js'
import type { Schema } from './schema.js'
import type { SchemaPart } from './schema-part.js'

export interface RemoteDatabaseOptions {
  /** What plugins add to it. Default: nothing */
  readonly parts?: readonly SchemaPart[]
  /** Connections at most, besides the one that holds the lock. */
  readonly maxConnections: number
  /** Other servers may work with it at the same time, if they say so too. Absent: this one is alone. */
  readonly sharing?: {
    /** Of this server, to be seen by the others. */
    readonly id: string
    /** What they say ({@link SharedDatabase.notify}); null: something may have been missed. */
    readonly onNotice: (payload: string | null) => void
  }
  /** Beside a server that works with it: no lock is taken, and the tables stay as they are. Default false */
  readonly isBeside?: boolean
  /** Looks at the database before its tables change; what it throws leaves them as they are. */
  readonly beforeMigrating?: (db: Kysely<Schema>) => Promise<void>
  /** Hears of connections that broke while nobody used them, and of the lock's. */
  readonly onTrouble?: (error: unknown) => void
  /** Another server has the lock, which was lost with its connection: this one must not go on. Told once. */
  readonly onTakenOver?: (error: AppError) => void
}

export interface RemoteDatabase extends OpenDatabase {
  readonly shared: SharedDatabase
}

/** What several servers that work with one database do by it. */
export interface SharedDatabase {
  /** Says something to all servers, this one included, when everything before it is committed. */
  notify(payload: string): Promise<void>
  /** Whether a server has its connection: one that was killed has none from that moment on. */
  isConnected(serverId: string): Promise<boolean>
  /** Does what one server at a time does. @returns null, with nothing done, while another does it */
  onDuty<T>(duty: string, action: () => Promise<T>): Promise<T | null>
  /** Duty of one server for as long as it lives, because it remembers what it did. */
  lastingDuty(duty: string): LastingDuty
  /** Does what servers do one after the other when they start: what the first of them makes the next one finds. */
  inTurnOfStarts<T>(action: () => Promise<T>): Promise<T>
  /** Does what no two servers do at once with a blob, of a few blobs at a time. */
  createBlobGuard(): BlobGuard
}

/** What one server does for as long as it lives, because it remembers what it did. */
export interface LastingDuty {
  /** @returns null, with nothing done, while another server has the duty */
  run<T>(action: () => Promise<T>): Promise<T | null>
  /** Gives it up. */
  release(): Promise<void>
}

/** An address that was read. */
export interface DatabaseAddress {
  /** For people: no secret, and the same for two addresses of one database. */
  readonly name: string
  /**
   * Opens and migrates it.
   *
   * @throws {AppError} `database_unavailable`; {ConflictError} `database_in_use` while another server works with it that does
   *   not share it, or has older tables; {StorageError} `database_refused`, `database_newer`, `migration_failed`
   */
  open(options: RemoteDatabaseOptions): Promise<RemoteDatabase>
  /** Of all migrations that a database of this program has. */
  migrationNames(parts: readonly SchemaPart[]): readonly string[]
}

export type DatabaseKind = AddressKind<DatabaseAddress>
