/**
 * All migrations in order, the core's and those of plugins; the name is what the database remembers.
 */
import type { Migration } from 'kysely'
import { mergeMigrations, type SchemaPart } from '../schema-part.js'
import { up as initial } from './0001-to-0010/0001-initial.js'
import { up as jobRetries } from './0001-to-0010/0002-job-retries.js'
import { up as resumePoints } from './0001-to-0010/0003-resume-points.js'
import { up as counters } from './0001-to-0010/0004-counters.js'
import { up as logPages } from './0001-to-0010/0005-log-pages.js'
import { up as keysAndUsage } from './0001-to-0010/0006-keys-and-usage.js'
import { up as jobReports } from './0001-to-0010/0007-job-reports.js'
import { up as listIndexes } from './0011-list-indexes.js'
import { up as filterIndexes } from './0012-filter-indexes.js'
import { up as modelCounts } from './0013-model-counts.js'
import { up as blobUpkeep } from './0014-blob-upkeep.js'
import { up as resolvedOptions } from './0015-resolved-options.js'
import { up as fileProblems } from './0016-file-problems.js'
import { up as templateKwargs } from './0018-template-kwargs.js'
import { up as modelMetrics } from './0019-model-metrics.js'
import { up as sessions } from './0020-sessions.js'
import { up as blobStore } from './0022-blob-store.js'
import { up as trainingSessions } from './0027-training-sessions.js'
import { up as jobWorkers } from './0028-job-workers.js'
import { up as jobNeeds } from './0035-job-needs.js'
import { up as keptTrainingData } from './0036-kept-training-data.js'
import { up as severalServers } from './0039-several-servers.js'
import { up as usageByKey } from './0040-usage-by-key.js'
import { up as oneTime } from './0042-one-time.js'
import { up as keepRules } from './0045-keep-rules.js'
import { up as stopAndKeep } from './0046-stop-and-keep.js'
import { up as modelNotes } from './0047-model-notes.js'

/** Of the core. */
const MIGRATIONS: Readonly<Record<string, Migration>> = {
  '0001-initial': { up: initial },
  '0002-job-retries': { up: jobRetries },
  '0003-resume-points': { up: resumePoints },
  '0004-counters': { up: counters },
  '0005-log-pages': { up: logPages },
  '0006-keys-and-usage': { up: keysAndUsage },
  '0007-job-reports': { up: jobReports },
  '0011-list-indexes': { up: listIndexes },
  '0012-filter-indexes': { up: filterIndexes },
  '0013-model-counts': { up: modelCounts },
  '0014-blob-upkeep': { up: blobUpkeep },
  '0015-resolved-options': { up: resolvedOptions },
  '0016-file-problems': { up: fileProblems },
  '0018-template-kwargs': { up: templateKwargs },
  '0019-model-metrics': { up: modelMetrics },
  '0020-sessions': { up: sessions },
  '0022-blob-store': { up: blobStore },
  '0027-training-sessions': { up: trainingSessions },
  '0028-job-workers': { up: jobWorkers },
  '0035-job-needs': { up: jobNeeds },
  '0036-kept-training-data': { up: keptTrainingData },
  '0039-several-servers': { up: severalServers },
  '0040-usage-by-key': { up: usageByKey },
  '0042-one-time': { up: oneTime },
  '0045-keep-rules': { up: keepRules },
  '0046-stop-and-keep': { up: stopAndKeep },
  '0047-model-notes': { up: modelNotes },
}

/** Name → migration, applied in the order of the names. */
export function migrationsWith(parts: readonly SchemaPart[]): Readonly<Record<string, Migration>> {
  return mergeMigrations(MIGRATIONS, parts, ({ migrations }) => migrations)
}
