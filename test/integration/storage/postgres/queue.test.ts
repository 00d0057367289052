/** The queue, its fences and its dispatcher on PostgreSQL: the tests of SQLite once more, as they stand. */
import { onPostgres } from '../../../support/service/database-kind.js'

onPostgres({
  queue: () => import('../../../unit/service/queue/queue.test.js'),
  fencing: () => import('../../../unit/service/queue/fencing.test.js'),
  plan: () => import('../../../unit/service/queue/plan.test.js'),
  gaps: () => import('../../../unit/service/queue/sessions/session-gaps.test.js'),
  dispatcher: () => import('../../../unit/service/queue/dispatcher.test.js'),
  scheduler: () => import('../../../unit/service/queue/scheduler.test.js'),
  'session turns': () => import('../../../unit/service/queue/sessions/session-turns.test.js'),
})
