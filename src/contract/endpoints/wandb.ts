/**
 * Endpoints of W&B's client. It sends its key as the password of HTTP Basic, and bytes to addresses that were signed for it.
 */
import { z } from 'zod'
import { fileStreamRequestSchema, graphqlRequestSchema, graphqlResponseSchema } from '../wire/compatible/wandb.js'
import { runLines, small } from './bodies.js'
import { endpoints } from './endpoint.js'

const wandb = { tag: 'wandb client', origin: 'W&B' } as const
/** The token proves the address, whoever sends it. */
const signed = { ...wandb, scope: 'open', query: z.object({ token: z.string() }), refusals: [404, 405] } as const

export const WANDB = endpoints({
  'POST /graphql': {
    ...wandb,
    summary: 'Answer the queries and mutations of the wandb client',
    // whether a document changes something is seen when it is read
    scope: 'read',
    takesPassword: true,
    body: small(graphqlRequestSchema),
    answer: graphqlResponseSchema,
  },
  'POST /files/{entity}/{project}/{run}/file_stream': {
    ...wandb,
    summary: 'Store lines of a run',
    scope: 'write',
    takesPassword: true,
    body: runLines(fileStreamRequestSchema),
    answer: z.object({ limits: z.object({}) }),
  },
  'PUT /wandb/storage': {
    ...signed,
    summary: 'Store bytes at a signed address',
    body: 'application/octet-stream',
    answer: z.object({}),
  },
  'GET /wandb/storage': {
    ...signed,
    summary: 'Fetch bytes from a signed address',
    answer: 'application/octet-stream',
  },
})
