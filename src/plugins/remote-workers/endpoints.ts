/**
 * What a worker asks for before it has a job; what it asks for then are endpoints of the core.
 */
import { WORKER_CLAIMS } from '#contract/endpoints/worker-claims.js'
import type { PluginEndpoints } from '#service/plugin.js'

export const remoteWorkerEndpoints = {
  runs: [{ after: 'GET /docs/pictures/{file}', rows: WORKER_CLAIMS }],
} as const satisfies PluginEndpoints
