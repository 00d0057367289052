/**
 * An address of a PostgreSQL database → what opens it.
 */
import type { DatabaseAddress } from '#service/storage/remote-database.js'
import { parsePostgresAddress } from './address.js'
import { postgresMigrationsWith } from './migrations.js'
import { openPostgres } from './open-postgres.js'

/** @throws {InvalidRequestError} `invalid_setting` */
export async function readDatabaseAddress(text: string): Promise<DatabaseAddress> {
  return {
    name: parsePostgresAddress(text).name,
    open: (options) => openPostgres(text, options),
    migrationNames: (parts) => Object.keys(postgresMigrationsWith(parts)),
  }
}
