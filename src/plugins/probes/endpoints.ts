/**
 * Where the rows of watched prompts stand. They are `contract/endpoints/probes.ts`, which the client and the page know, too.
 */
import { PROBES } from '#contract/endpoints/probes.js'
import type { PluginEndpoints } from '#service/plugin.js'

export const probeEndpoints = {
  runs: [{ after: 'GET /v1/preview/models/{model_id}/log/{log_id}/groups', rows: PROBES }],
} as const satisfies PluginEndpoints
