/**
 * What the audit log hears of: whatever changes something, whatever hands out a file, and how browsers sign in and out. Not what models are
 * asked, what runs say of themselves many times a minute, or what workers do: those are counted elsewhere.
 */
import type { Route } from '#contract/endpoints/table.js'
import { sendsFile } from '#service/http/middleware/auth.js'

/** A browser's session begins and ends with a key of any scope, and by a code with none. */
const SESSIONS = '/v1/preview/sessions'

/** Said by a run that goes on, over and over: what it is, is noted where it begins. */
const OF_RUNS: ReadonlySet<string> = new Set([
  'POST /api/v1/forward_backward',
  'POST /api/v1/optim_step',
  'POST /api/v1/session_heartbeat',
  'POST /files/{entity}/{project}/{run}/file_stream',
  'POST /v1/preview/models/{model_id}/log',
  'POST /v1/preview/rollouts',
  'POST /v1/preview/rollouts/{rollout_id}/finish',
  'POST /v1/uploads/{upload_id}/parts',
])

export function isAudited(route: Route): boolean {
  if (sendsFile(route)) return true
  if (route.method === 'GET') return false
  if (route.path === SESSIONS || route.path.startsWith(`${SESSIONS}/`)) return true
  const changes = route.scope === 'write' || route.scope === 'admin'
  return changes && route.isAdmitted !== true && !OF_RUNS.has(route.key)
}
