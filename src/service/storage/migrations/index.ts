/**
 * All migrations in order, the core's and those of plugins; the name is what the database remembers.
 */
import type { Migration } from 'kysely'
import { mergeMigrations, type SchemaPart } from '../schema-part.js'

/** Read when it runs, which each does once in the life of a database. */
function loaded(load: () => Promise<Pick<Migration, 'up'>>): Migration {
  return { up: async (db) => (await load()).up(db) }
}

/** Of the core. */
const MIGRATIONS: Readonly<Record<string, Migration>> = {
  '0001-initial': loaded(() => import('./0001-to-0010/0001-initial.js')),
  '0002-job-retries': loaded(() => import('./0001-to-0010/0002-job-retries.js')),
  '0003-resume-points': loaded(() => import('./0001-to-0010/0003-resume-points.js')),
  '0004-counters': loaded(() => import('./0001-to-0010/0004-counters.js')),
  '0005-log-pages': loaded(() => import('./0001-to-0010/0005-log-pages.js')),
  '0006-keys-and-usage': loaded(() => import('./0001-to-0010/0006-keys-and-usage.js')),
  '0007-job-reports': loaded(() => import('./0001-to-0010/0007-job-reports.js')),
  '0011-list-indexes': loaded(() => import('./0011-list-indexes.js')),
  '0012-filter-indexes': loaded(() => import('./0012-filter-indexes.js')),
  '0013-model-counts': loaded(() => import('./0013-model-counts.js')),
  '0014-blob-upkeep': loaded(() => import('./0014-blob-upkeep.js')),
  '0015-resolved-options': loaded(() => import('./0015-resolved-options.js')),
  '0016-file-problems': loaded(() => import('./0016-file-problems.js')),
  '0018-template-kwargs': loaded(() => import('./0018-template-kwargs.js')),
  '0019-model-metrics': loaded(() => import('./0019-model-metrics.js')),
  '0020-sessions': loaded(() => import('./0020-sessions.js')),
  '0022-blob-store': loaded(() => import('./0022-blob-store.js')),
  '0027-training-sessions': loaded(() => import('./0027-training-sessions.js')),
  '0028-job-workers': loaded(() => import('./0028-job-workers.js')),
  '0035-job-needs': loaded(() => import('./0035-job-needs.js')),
  '0036-kept-training-data': loaded(() => import('./0036-kept-training-data.js')),
  '0039-several-servers': loaded(() => import('./0039-several-servers.js')),
  '0040-usage-by-key': loaded(() => import('./0040-usage-by-key.js')),
  '0042-one-time': loaded(() => import('./0042-one-time.js')),
  '0045-keep-rules': loaded(() => import('./0045-keep-rules.js')),
  '0046-stop-and-keep': loaded(() => import('./0046-stop-and-keep.js')),
  '0047-model-notes': loaded(() => import('./0047-model-notes.js')),
}

/** Name → migration, applied in the order of the names. */
export function migrationsWith(parts: readonly SchemaPart[]): Readonly<Record<string, Migration>> {
  return mergeMigrations(MIGRATIONS, parts, ({ migrations }) => migrations)
}
