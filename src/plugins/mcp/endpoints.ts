/**
 * The endpoint of the protocol; `GET`, which older clients try for news of the server, is answered by the router: 405.
 */
import { z } from 'zod'
import { marked } from '#contract/endpoints/bodies.js'
import { endpoints } from '#contract/endpoints/endpoint.js'
import { byBody } from '#contract/wire/maxima.js'

/** A message of the protocol, which its library checks. */
const message = byBody(z.looseObject({}))

const ROWS = endpoints({
  'POST /mcp': {
    // another protocol: its messages and errors are no JSON of ours, and OpenAPI has no words for them
    tag: null,
    summary: 'Use the service as tools of the Model Context Protocol',
    origin: 'mcp',
    scope: 'read',
    body: marked(message),
    answer: message,
    stream: message,
  },
})

export const mcpEndpoints = { runs: [{ after: 'GET /v1/whoami', rows: ROWS }] } as const
