/** The facade of W&B, webhooks, batches and recorded rollouts on PostgreSQL: the tests of SQLite once more, as they stand. */
import { onPostgres } from '../../../support/service/database-kind.js'

onPostgres({
  gateway: () => import('../../../plugins/gateway/recorder.test.js'),
  wandb: () => import('../../../integration/api/wandb/wandb.test.js'),
  tenancy: () => import('../../../integration/api/wandb/tenancy.test.js'),
  adapters: () => import('../../../integration/api/wandb/adapters.test.js'),
  webhooks: () => import('../../../integration/api/webhooks/webhooks.test.js'),
  batches: () => import('../../../integration/api/files/batches.test.js'),
  recording: () => import('../../../plugins/recording/rollouts.test.js'),
  'outbox-turns': () => import('../../../unit/plugins/webhooks/outbox-turns.test.js'),
})
