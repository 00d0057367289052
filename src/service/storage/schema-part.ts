/**
 * What a plugin adds to the database: tables, how they came to be, and what upkeep has to know of them. An open database knows
 * the parts it was opened with, so that what asks for rows of all tables (the sweeper, a backup, a move) needs no list of its
 * own.
 */
import type { Kysely, Migration } from 'kysely'
import type { BlobColumn } from './migrations/0014-blob-upkeep.js'
import type { Schema } from './schema.js'

export interface TableFacts {
  /** Columns that name blobs; each has triggers that note what it lets go (`createBlobTriggers`). */
  readonly blobs?: readonly string[]
  /** Lists of it go by the ids of its column `id`. Default false */
  readonly isListedById?: boolean
}

/** Tables as SQLite's migrations up to `0028-job-workers` leave them. */
export interface FirstTables {
  /** In SQLite's words for types; `now_ms` is the database's clock. Each statement ends with a semicolon and a line end. */
  readonly statements: string
  /** Columns that name blobs, in the order of their triggers. */
  readonly blobs?: readonly BlobColumn[]
}

/** What has ended, and how, in words of a plugin that other plugins may know. */
export interface Announcement {
  /** A UUIDv7 of its own. */
  readonly eventId: string
  /** `batch.completed` */
  readonly type: string
  readonly entity: string
  /** Null: of no project. */
  readonly project: string | null
  /** Of what has ended. */
  readonly id: string
}

export interface SchemaPart {
  /** Every table, by its name. */
  readonly tables: Readonly<Record<string, TableFacts>>
  /** Name → migration. One of a name that the core has too runs behind the core's, as one step. */
  readonly migrations: Readonly<Record<string, Migration>>
  /** The same for PostgreSQL, of those that need words of its own. */
  readonly postgresMigrations: Readonly<Record<string, Migration>>
  /** Where it has migrations that are older than `0029`: what PostgreSQL begins with instead. */
  readonly firstTables?: FirstTables
  /** Steps of a model that it names: no rule deletes their checkpoints. */
  namedSteps?(db: Kysely<Schema>, modelId: string): Promise<readonly number[]>
  /** A job began or ended: what its event's row is followed by, in the same transaction. */
  noteEvent?(db: Kysely<Schema>, eventId: string, jobId: string): Promise<void>
  /** A step of a model was made: in the same transaction. */
  noteStep?(db: Kysely<Schema>, modelId: string, step: number): Promise<void>
  /** Something of a plugin's has ended, of which somebody may want to hear: in the same transaction. */
  announce?(db: Kysely<Schema>, announcement: Announcement): Promise<void>
  /** The wall clock was set back by so much: what waits for a time waits as long as it did. */
  moveWaits?(db: Kysely<Schema>, byMs: number): Promise<void>
}

/** By what a database and its transactions share. */
const partsOfAdapter = new WeakMap<object, readonly SchemaPart[]>()

/** Notes what else a database holds. @returns the database */
export function withParts(db: Kysely<Schema>, parts: readonly SchemaPart[]): Kysely<Schema> {
  partsOfAdapter.set(db.getExecutor().adapter, parts)
  return db
}

/** What else a database, or an open transaction of it, holds. */
export function partsOf(db: Kysely<Schema>): readonly SchemaPart[] {
  return partsOfAdapter.get(db.getExecutor().adapter) ?? []
}

/** Tells all parts. */
export async function announce(db: Kysely<Schema>, announcement: Announcement): Promise<void> {
  for (const part of partsOf(db)) await part.announce?.(db, announcement)
}

/** Migrations of the core with those of the parts, in the order of their names. */
export function mergeMigrations(
  own: Readonly<Record<string, Migration>>,
  parts: readonly SchemaPart[],
  migrationsOf: (part: SchemaPart) => Readonly<Record<string, Migration>>,
): Readonly<Record<string, Migration>> {
  const added = parts.map(migrationsOf)
  const names = [own, ...added].flatMap((each) => Object.keys(each))
  return Object.fromEntries([...new Set(names)].sort().map((name) => [name, inTurn([own, ...added], name)]))
}

function inTurn(all: readonly Readonly<Record<string, Migration>>[], name: string): Migration {
  const steps = all.flatMap((each) => each[name] ?? [])
  return {
    up: async (db) => {
      for (const step of steps) await step.up(db)
    },
  }
}
