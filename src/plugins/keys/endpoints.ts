/**
 * Where the rows of keys and of usage stand. They are `contract/endpoints/access.ts`, which the client knows, too.
 */
import { KEYS, USAGE } from '#contract/endpoints/access.js'
import type { PluginEndpoints } from '#service/plugin.js'

export const keyEndpoints = {
  runs: [
    { after: 'DELETE /v1/files/{file_id}', rows: KEYS },
    { after: 'POST /v1/preview/downloads', rows: USAGE },
  ],
} as const satisfies PluginEndpoints
