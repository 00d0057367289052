/** Keys, sessions, tenants, limits and stored responses on PostgreSQL: the tests of SQLite once more, as they stand. */
import { onPostgres } from '../../../support/service/database-kind.js'

onPostgres({
  tenancy: () => import('../../../integration/api/access/tenancy.test.js'),
  keys: () => import('../../../integration/api/access/keys.test.js'),
  usage: () => import('../../../integration/api/access/usage.test.js'),
  sessions: () => import('../../../integration/api/access/sessions.test.js'),
  limits: () => import('../../../integration/api/access/limits.test.js'),
  auth: () => import('../../../integration/api/auth.test.js'),
  'stored responses': () => import('../../../integration/api/inference/stored-responses.test.js'),
  'system-check': () => import('../../../integration/api/access/system-check.test.js'),
})
