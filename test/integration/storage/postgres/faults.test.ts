/** Killed processes and faults on PostgreSQL: the tests of SQLite once more, as they stand. */
import { onPostgres } from '../../../support/service/database-kind.js'

onPostgres({
  kills: () => import('../../../integration/api/kills.test.js'),
  faults: () => import('../../../integration/api/faults.test.js'),
})
