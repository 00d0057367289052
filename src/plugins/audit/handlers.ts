/**
 * The audit log, read by keys of scope admin: what concerns their entity, or their project.
 */
import { ConflictError } from '#base/errors/errors.js'
import { DEFAULT_PAGE_LIMIT, toList } from '#contract/wire/list.js'
import type { PluginHandlers, PluginService } from '#service/plugin.js'
import type { auditEndpoints } from './endpoints.js'
import type { auditSettings } from './settings.js'
import { listAuditEvents } from './storage/audit-events.js'

export function auditHandlers({
  context: { db },
  settings,
}: PluginService<unknown, typeof auditSettings>): PluginHandlers<typeof auditEndpoints> {
  return {
    'GET /v1/preview/audit': async ({ principal, query }) => {
      const { limit = DEFAULT_PAGE_LIMIT, after, action, key_id: keyId } = query()
      if (settings.audit === null) {
        throw new ConflictError('audit_off', 'this server keeps no audit log', {
          hint: 'start it with --audit database, or --audit <file> for JSON lines as well',
        })
      }
      const page = await listAuditEvents(db, { tenant: principal, action, keyId }, { limit, after })
      return toList(page.items, page.hasMore)
    },
  }
}
