/**
 * What commands ask the server about routes, and what they need of its answers.
 */
import type { List } from '#contract/wire/list.js'
import { pageOf } from '#sdk/client/answers.js'
import type { Client } from '#sdk/client/client.js'
import { readRows } from '#sdk/client/rollouts.js'
import { type Check, listOf, mapOf, maybe, nullOr, number, objectOf, text, truth } from '#sdk/client/shape.js'
import type { CreateRouteRequest, Route, RouteSummary } from '../wire.js'

const facts = {
  id: text,
  name: text,
  path: text,
  upstream: text,
  access: text,
  sample: number,
  content: truth,
  retention_days: number,
  calls: number,
  lost_calls: number,
}
type Facts = Pick<Route, keyof typeof facts>
const route: Check<Route> = objectOf<Facts>(facts)
const quantiles = nullOr(objectOf<{ p50: number; p95: number }>({ p50: number, p95: number }))
type Recorded = RouteSummary['recorded']
const summary: Check<RouteSummary> = objectOf<Facts & Pick<RouteSummary, 'recorded'>>({
  ...facts,
  recorded: objectOf<Recorded>({
    calls: number,
    bytes: number,
    first_at: maybe(text),
    last_at: maybe(text),
    outcomes: mapOf(number),
    statuses: mapOf(number),
    content: mapOf(number),
    duration_ms: quantiles,
    first_byte_ms: quantiles,
    models: listOf(
      objectOf<Recorded['models'][number]>({
        model: maybe(text),
        calls: number,
        input_tokens: number,
        cached_tokens: number,
        output_tokens: number,
      }),
    ),
    alike: objectOf<Recorded['alike']>({
      of: number,
      shapes: number,
      largest_shape: number,
      prompts: number,
      answers: number,
    }),
  }),
})

const PATH = '/v1/preview/gateway-routes'
const pathOf = (reference: string): string => `${PATH}/${encodeURIComponent(reference)}`

export function createRouteCalls({ http, baseUrl }: Pick<Client, 'http' | 'baseUrl'>, signal: AbortSignal) {
  return {
    create: async (json: CreateRouteRequest): Promise<Route> =>
      await http.json({ method: 'POST', path: PATH, json, signal, isRepeatable: true }, route),
    list: async (query: { limit?: number | undefined; after?: string | undefined }) =>
      await http.json<List<Route>>({ method: 'GET', path: PATH, query, signal }, pageOf(route)),
    get: async (reference: string): Promise<RouteSummary> =>
      await http.json({ method: 'GET', path: pathOf(reference), signal }, summary),
    delete: async (reference: string): Promise<{ id: string }> =>
      await http.json({ method: 'DELETE', path: pathOf(reference), signal }, objectOf({ id: text })),
    /** Rows of `train sft`, as JSON Lines. */
    rows: (reference: string): AsyncGenerator<string> =>
      readRows({ http, baseUrl }, { method: 'GET', path: `${pathOf(reference)}/rows`, signal, isLong: true }),
  }
}
