/** What stops, ends or is full on PostgreSQL: the tests of SQLite once more, as they stand. Kills are in `faults.test.ts` beside this. */
import { onPostgres } from '../../../support/service/database-kind.js'

onPostgres({
  'stopped-processes': () => import('../../../integration/faults/stopped-processes.test.js'),
  publishing: () => import('../../../integration/faults/publishing.test.js'),
  deleting: () => import('../../../integration/faults/deleting.test.js'),
  shutdown: () => import('../../../integration/faults/shutdown.test.js'),
})
