/**
 * Endpoints of the page: open, as the documentation is.
 */
import { endpoints } from '#contract/endpoints/endpoint.js'
import type { PluginEndpoints } from '#service/plugin.js'

const ours = { tag: 'Server', origin: 'ours', scope: 'open', answer: 'text/html' } as const

const rows = endpoints({
  'GET /ui': { ...ours, summary: 'The page for browsers' },
  'GET /ui/{+path}': { ...ours, summary: 'An address of the page, or a file of it' },
})

export const pageEndpoints = {
  runs: [{ after: 'GET /docs/{page}', rows }],
} as const satisfies PluginEndpoints
