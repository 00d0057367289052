/**
 * Where the rows of engine nodes stand. They are `contract/endpoints/engine-nodes.ts`, which the client knows, too.
 */
import { ENGINE_NODE, ENGINE_NODE_LIST } from '#contract/endpoints/engine-nodes.js'
import type { PluginEndpoints } from '#service/plugin.js'

export const engineNodeEndpoints = {
  runs: [
    { after: 'GET /docs/pictures/{file}', rows: ENGINE_NODE_LIST },
    { after: 'POST /internal/worker/sessions/{session_id}/turn', rows: ENGINE_NODE },
  ],
} as const satisfies PluginEndpoints
