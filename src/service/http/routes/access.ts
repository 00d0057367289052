/**
 * Whose key this is.
 */
import type { AppOptions } from '../environment.js'
import { handlers } from '../handlers.js'

export function accessHandlers({ version }: Pick<AppOptions, 'version'>) {
  return handlers({
    'GET /v1/whoami': ({ principal }) => ({
      entity: principal.entity,
      project: principal.project,
      scope: principal.scope,
      key_id: principal.keyId,
      key_prefix: principal.keyPrefix,
      session_id: principal.sessionId,
      version,
    }),
  })
}
