/**
 * Where the rows of webhooks stand. They are `contract/endpoints/webhooks.ts`, which the client and the page know, too.
 */
import { WEBHOOKS } from '#contract/endpoints/webhooks.js'
import type { PluginEndpoints } from '#service/plugin.js'

export const webhookEndpoints = {
  runs: [{ after: 'DELETE /v1/preview/models/{model_id}/marks/{mark_id}', rows: WEBHOOKS }],
  sections: [{ name: 'Webhooks', after: 'Files' }],
} as const satisfies PluginEndpoints
