/**
 * Where the rows of the documentation stand. They are `contract/endpoints/server.ts`, behind which other plugins' rows stand, too.
 */
import { DOCS } from '#contract/endpoints/server.js'
import type { PluginEndpoints } from '#service/plugin.js'

export const docsEndpoints = { runs: [{ after: 'GET /', rows: DOCS }] } as const satisfies PluginEndpoints
