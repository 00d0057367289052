/** Lists, their pages and summaries on PostgreSQL: the tests of SQLite once more, as they stand. */
import { onPostgres } from '../../../support/service/database-kind.js'

onPostgres({
  audit: () => import('../../../integration/api/access/audit.test.js'),
  paging: () => import('../../../integration/api/lists/paging.test.js'),
  summaries: () => import('../../../integration/api/models/summaries.test.js'),
  metrics: () => import('../../../integration/api/models/metrics.test.js'),
  activity: () => import('../../../integration/api/models/activity.test.js'),
  'fine-tuning-lists': () => import('../../../integration/api/training/fine-tuning-lists.test.js'),
  'uploaded-rows': () => import('../../../integration/api/training/uploaded-rows.test.js'),
})
