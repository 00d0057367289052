/**
 * Where the row of looking through blobs stands. It is `contract/endpoints/server.ts`, which the client knows, too.
 */
import { VERIFY } from '#contract/endpoints/server.js'
import type { PluginEndpoints } from '#service/plugin.js'

export const verifyEndpoints = {
  runs: [{ after: 'GET /v1/preview/events', rows: VERIFY }],
} as const satisfies PluginEndpoints
