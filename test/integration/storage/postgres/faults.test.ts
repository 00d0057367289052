/** Killed, stopped and full-handed processes on PostgreSQL: the tests of SQLite once more, as they stand. */
import { onPostgres } from '../../../support/service/database-kind.js'

onPostgres({
  kills: () => import('../../../integration/api/kills.test.js'),
  faults: () => import('../../../integration/api/faults.test.js'),
  'stopped-processes': () => import('../../../integration/faults/stopped-processes.test.js'),
  publishing: () => import('../../../integration/faults/publishing.test.js'),
  deleting: () => import('../../../integration/faults/deleting.test.js'),
  shutdown: () => import('../../../integration/faults/shutdown.test.js'),
})
