/** Jobs, their workers' routes, resuming and idempotency on PostgreSQL: the tests of SQLite once more, as they stand. */
import { onPostgres } from '../../../support/service/database-kind.js'

onPostgres({
  'training-jobs': () => import('../../../integration/api/training-jobs.test.js'),
  'worker-routes': () => import('../../../integration/api/worker-routes.test.js'),
  resume: () => import('../../../integration/api/resume.test.js'),
  idempotency: () => import('../../../integration/api/access/idempotency.test.js'),
})
