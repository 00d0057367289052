/**
 * Routes of the gateway in the API: what makes one, what is shown of it, and of its calls.
 */
import { z } from 'zod'
import { laxBoolean, laxInteger, laxNumber } from '#contract/wire/lax.js'
import { listSchema } from '#contract/wire/list.js'

export const createRouteRequestSchema = z.object({
  name: z
    .string()
    .regex(/^[a-z0-9][a-z0-9._-]{0,63}$/i, 'must be 1 to 64 letters, digits, dots, hyphens or underscores')
    .meta({ description: 'As it stands in the address: `/gateway/<name>/v1`' }),
  upstream: z
    .string()
    .max(2000)
    .meta({ description: 'Address that stands in place of `/gateway/<name>/v1`; `/v1` where it has no path' }),
  project: z.string().max(256).nullish(),
  access: z.enum(['key', 'local']).default('key').meta({
    description: '`key`: with a key of this server; `local`: programs of the machine without one, too',
  }),
  key_variable: z
    .string()
    .max(200)
    .nullish()
    .meta({ description: 'Variable with the upstream’s key, that `--gateway-key` allows' }),
  sample: laxNumber({ min: 0, max: 1 }).default(1).meta({ description: 'Share of calls that are recorded' }),
  content: laxBoolean().default(true).meta({ description: 'false: counts alone are kept' }),
  retention_days: laxNumber({ min: 0.01, max: 3650 }).default(30),
  max_call_bytes: laxInteger({ min: 1000, max: 16 * 1024 ** 2 }).default(1024 ** 2),
  max_bytes: laxInteger({ min: 1000, max: 1024 ** 4 }).default(1024 ** 3),
  mask_patterns: z.array(z.string().min(1).max(500)).max(50).default([]),
})
export type CreateRouteRequest = z.input<typeof createRouteRequestSchema>

export const routeSchema = z.object({
  id: z.string(),
  object: z.literal('gateway.route'),
  name: z.string(),
  project: z.string().nullable(),
  path: z.string(),
  upstream: z.string(),
  access: z.enum(['key', 'local']),
  key_variable: z.string().nullable(),
  sample: z.number(),
  content: z.boolean(),
  retention_days: z.number(),
  max_call_bytes: z.number(),
  max_bytes: z.number(),
  mask_patterns: z.array(z.string()),
  calls: z.number(),
  lost_calls: z.number(),
  created_at: z.string(),
})
export type Route = z.infer<typeof routeSchema>
export const routeListSchema = listSchema(routeSchema)

const counts = z.record(z.string(), z.number())
const quantiles = z.object({ p50: z.number(), p95: z.number() }).nullable()
export const routeSummarySchema = routeSchema.extend({
  recorded: z.object({
    calls: z.number(),
    bytes: z.number(),
    first_at: z.string().nullable(),
    last_at: z.string().nullable(),
    outcomes: counts,
    statuses: counts,
    content: counts,
    duration_ms: quantiles,
    first_byte_ms: quantiles,
    models: z.array(
      z.object({
        model: z.string().nullable(),
        calls: z.number(),
        input_tokens: z.number(),
        cached_tokens: z.number(),
        output_tokens: z.number(),
      }),
    ),
    alike: z.object({
      of: z.number(),
      shapes: z.number(),
      largest_shape: z.number(),
      prompts: z.number(),
      answers: z.number(),
    }),
  }),
})
export type RouteSummary = z.infer<typeof routeSummarySchema>

export const deletedRouteSchema = z.object({
  id: z.string(),
  object: z.literal('gateway.route'),
  deleted: z.literal(true),
})
