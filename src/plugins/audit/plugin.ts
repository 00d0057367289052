/**
 * The audit log: who made, changed, deleted, downloaded and signed in. Off unless `--audit` says where it goes.
 */
import { definePlugin } from '#service/define-plugin.js'
import { auditSettings } from './settings.js'

export const audit = definePlugin({
  name: 'audit',
  settings: auditSettings,
  endpoints: async () => (await import('./endpoints.js')).auditEndpoints,
  start: async (core) => {
    if (core.settings.audit === null) return
    await (await import('./start.js')).startAudit(core, core.settings.audit)
  },
  handlers: async (service) => (await import('./handlers.js')).auditHandlers(service),
  tables: async () => (await import('./storage/schema-part.js')).auditSchema,
  commands: {
    after: 'usage',
    rows: [
      {
        path: 'audit list',
        summary: 'List who changed or fetched what',
        load: async () => (await import('./commands/list.js')).listAudit,
      },
    ],
  },
})
