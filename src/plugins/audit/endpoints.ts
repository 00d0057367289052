/**
 * The endpoint of the audit log.
 */
import { endpoints } from '#contract/endpoints/endpoint.js'
import type { PluginEndpoints } from '#service/plugin.js'
import { auditListSchema, listAuditQuerySchema } from './wire.js'

const rows = endpoints({
  'GET /v1/preview/audit': {
    tag: 'Keys and usage',
    origin: 'ours',
    summary: 'List who changed or fetched what, newest first',
    scope: 'admin',
    query: listAuditQuerySchema,
    answer: auditListSchema,
    refusals: [409],
    parameters: {
      action: 'Only of this endpoint, as `DELETE /v1/files/{file_id}`',
      key_id: 'Only what was asked with this key',
    },
  },
})

export const auditEndpoints = {
  runs: [{ after: 'POST /v1/preview/downloads', rows }],
} as const satisfies PluginEndpoints
