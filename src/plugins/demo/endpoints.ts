/**
 * Endpoints of the demo: one runs at a time.
 */
import { small } from '#contract/endpoints/bodies.js'
import { endpoints } from '#contract/endpoints/endpoint.js'
import type { PluginEndpoints } from '#service/plugin.js'
import { demoStateSchema, startDemoRequestSchema } from './wire.js'

const ours = { tag: 'Training', origin: 'ours', answer: demoStateSchema } as const

const rows = endpoints({
  'POST /v1/preview/demo': {
    ...ours,
    summary: 'Run the demo, or say how far the one is that runs',
    scope: 'write',
    body: small(startDemoRequestSchema),
    refusals: [404, 409],
  },
  'GET /v1/preview/demo': {
    ...ours,
    summary: 'Say how far the demo is that this server runs or ran last',
    scope: 'read',
  },
  'DELETE /v1/preview/demo': { ...ours, summary: 'Stop the demo; its model stays', scope: 'write' },
})

export const demoEndpoints = {
  runs: [{ after: 'GET /v1/preview/training-options', rows }],
} as const satisfies PluginEndpoints
