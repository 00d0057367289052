/**
 * Plugins whose tables a database has and that this start does not know. Migrations of plugins that are no part of this
 * package are named `plugin/what`, so that what one left is told from what a newer version wrote.
 */
import { type Kysely, type Migration, sql } from 'kysely'
import { StorageError } from '#base/errors/errors.js'
import type { Schema } from './schema.js'
import type { SchemaPart } from './schema-part.js'

/** The plugin that a migration is named after; null for one of this package. */
function pluginOf(migration: string): string | null {
  const end = migration.indexOf('/')
  return end < 0 ? null : migration.slice(0, end)
}

/** Names of migrations of plugins that `known` does not have. */
async function listForgotten(db: Kysely<Schema>, known: (name: string) => boolean): Promise<readonly string[]> {
  const tables = await db.introspection.getTables({ withInternalKyselyTables: true })
  if (!tables.some(({ name }) => name === 'kysely_migration')) return []
  const { rows } = await sql<{ name: string }>`select name from kysely_migration order by name`.execute(db)
  return rows.map(({ name }) => name).filter((name) => pluginOf(name) !== null && !known(name))
}

/** What plugins that were removed had done: it stays done. */
export async function forgottenMigrations(
  db: Kysely<Schema>,
  migrations: Readonly<Record<string, Migration>>,
): Promise<Readonly<Record<string, Migration>>> {
  const names = await listForgotten(db, (name) => Object.hasOwn(migrations, name))
  return Object.fromEntries(names.map((name) => [name, { up: async () => undefined }]))
}

/** Plugins that were removed and have tables. */
export async function listRemovedPlugins(db: Kysely<Schema>, parts: readonly SchemaPart[]): Promise<readonly string[]> {
  const known = new Set(parts.flatMap((part) => Object.keys({ ...part.migrations, ...part.postgresMigrations })))
  const names = await listForgotten(db, (name) => known.has(name))
  return [...new Set(names.map((name) => pluginOf(name) ?? name))]
}

/** @param name of the database @param migration that is not known */
export function unknownMigration(name: string, migration: string): StorageError {
  const plugin = pluginOf(migration)
  if (plugin !== null) {
    return new StorageError('plugin_missing', `${name} has tables of the plugin "${plugin}", which is not loaded`, {
      hint: 'name its file in "plugins" of the configuration file, or in TRAINYARD_PLUGINS',
    })
  }
  return new StorageError('database_newer', `${name} has a newer schema (${migration}) than this program knows`, {
    hint: 'use the version of the program that wrote it, or a later one',
  })
}
