/**
 * The core with the plugins of the package, for tests that look at all of it: endpoints, migrations, databases, services.
 */
import { INSTALLED, type PluginOptions } from '#plugins/index.js'
import { openPostgres as openServer, postgresMigrationsWith } from '#plugins/postgres/storage/open-postgres.js'
import { loadServed } from '#service/assembly/plugins.js'
import { type Installed, loadSchemaParts } from '#service/plugin.js'
import { type DatabaseOptions, openDatabase as openFile } from '#service/storage/database.js'
import { migrationsWith } from '#service/storage/migrations/index.js'
import type { RemoteDatabaseOptions } from '#service/storage/remote-database.js'
import type { TestedService, TestedServiceOptions } from '#service/test-door.js'

/** Endpoints of all. */
export const { table: TABLE, bodyOf } = await loadServed(INSTALLED.plugins)
export const { routes: ROUTES, apiRoutes: API_ROUTES, endpoints: ENDPOINTS } = TABLE

/** What plugins add to the database. */
export const PARTS = await loadSchemaParts(INSTALLED.plugins)
export const MIGRATIONS = migrationsWith(PARTS)
export const POSTGRES_MIGRATIONS = postgresMigrationsWith(PARTS)

export const openDatabase = (path: string, options: Omit<DatabaseOptions, 'parts'> = {}) =>
  openFile(path, { ...options, parts: PARTS })

export const openPostgres = (address: string, options: Omit<RemoteDatabaseOptions, 'parts'>) =>
  openServer(address, { ...options, parts: PARTS })

export async function createTestedService(
  options: TestedServiceOptions & PluginOptions,
  installed: Installed = INSTALLED,
): Promise<TestedService> {
  // all of the server, which a test of rows does not need
  return (await import('#service/test-door.js')).createTestedService(options, installed)
}
