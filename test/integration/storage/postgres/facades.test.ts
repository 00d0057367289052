/** The facade of W&B and the webhooks on PostgreSQL: the tests of SQLite once more, as they stand. */
import { onPostgres } from '../../../support/service/database-kind.js'

onPostgres({
  wandb: () => import('../../../integration/api/wandb/wandb.test.js'),
  tenancy: () => import('../../../integration/api/wandb/tenancy.test.js'),
  adapters: () => import('../../../integration/api/wandb/adapters.test.js'),
  webhooks: () => import('../../../integration/api/webhooks/webhooks.test.js'),
  'outbox-turns': () => import('../../../unit/plugins/webhooks/outbox-turns.test.js'),
})
