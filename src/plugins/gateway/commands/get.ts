/**
 * `trainyard routes get`: what the recorded calls of a route come to, and cost.
 */
import { isJsonObject, type JsonValue } from '#base/util/json.js'
import { defineCommand } from '#cli/command/define-command.js'
import { argument, flag } from '#cli/command/flags.js'
import { readJsonObject } from '#cli/input/input-file.js'
import { UsageError } from '#cli/terminal/errors.js'
import { plural } from '#cli/terminal/format.js'
import type { RouteSummary } from '../wire.js'
import { createRouteCalls } from './calls.js'

/** Of a million tokens. */
interface Price {
  readonly input: number
  readonly cached: number
  readonly output: number
}

export const getRouteCommand = defineCommand({
  path: ['routes', 'get'],
  summary: 'Show how many calls of a route there are, what they cost, and how alike they are',
  details:
    'Prices are yours to give: a JSON file of models, each with the price of a million input, cached and output tokens: {"gpt-5-mini": {"input": 0.25, "cached": 0.025, "output": 2}}. The longest name that a model’s begins with counts; cached is input’s where it is left out. Costs are of recorded calls.',
  examples: [
    ['trainyard routes get tickets', 'by its name'],
    ['trainyard routes get tickets --prices prices.json --json', 'with costs by model'],
  ],
  args: { route: argument.required('name or id of a route') },
  flags: { prices: flag.text('--prices <file>', 'JSON file with prices of a million tokens by model') },
  exits: ['not_found'],
  next: ['trainyard routes export <name> --out rows.jsonl'],
  async run({ connect, io, output, args, flags, signal }) {
    const prices = flags.prices === undefined ? null : readPrices(await readJsonObject(flags.prices, io))
    const route = await createRouteCalls(await connect(), signal).get(args.route)
    const costs = prices === null ? null : costsOf(route, prices)
    const { recorded } = route
    const { alike } = recorded
    const counted = (counts: Readonly<Record<string, number>>): string =>
      Object.entries(counts)
        .map(([name, count]) => `${count} ${name}`)
        .join(', ')
    output.record({ ...route, ...(costs === null ? {} : { costs }) }, route.id, [
      ['name', route.name],
      ['address', route.path],
      ['upstream', route.upstream],
      ['calls', `${route.calls}, of them ${recorded.calls} recorded and ${route.lost_calls} lost for the record`],
      ['outcomes', counted(recorded.outcomes)],
      ['content', counted(recorded.content)],
      ...(recorded.duration_ms === null
        ? []
        : [
            [
              'time',
              `p50 ${recorded.duration_ms.p50.toFixed(0)} ms, p95 ${recorded.duration_ms.p95.toFixed(0)} ms`,
            ] as const,
          ]),
      [
        'alike',
        `${plural(alike.shapes, 'shape')} of prompts, the largest has ${alike.largest_shape} of ${alike.of} calls; ${alike.prompts} different prompts, ${alike.answers} different answers`,
      ],
      ...recorded.models.map(
        ({ model, calls, input_tokens: input, cached_tokens: cached, output_tokens: out }) =>
          [
            model ?? 'no model',
            `${plural(calls, 'call')}, ${input} input tokens (${cached} cached), ${out} output tokens`,
          ] as const,
      ),
      ...(costs === null
        ? []
        : [
            [
              'cost',
              `${costs.total.toFixed(4)}${costs.unpriced.length === 0 ? '' : `, without ${costs.unpriced.join(', ')}`}`,
            ] as const,
          ]),
    ])
  },
})

function readPrices(table: Readonly<Record<string, JsonValue>>): ReadonlyMap<string, Price> {
  return new Map(
    Object.entries(table).map(([model, price]) => {
      const { input, output, cached = input, ...others } = isJsonObject(price) ? price : {}
      const isPrice = [input, output, cached].every((value) => typeof value === 'number' && value >= 0)
      if (!isPrice || Object.keys(others).length > 0) {
        throw new UsageError(
          'invalid_value',
          `--prices: "${model}" must have the numbers input, output and perhaps cached, got ${JSON.stringify(price)}`,
          {
            param: '--prices',
            hint: 'for a million tokens: {"gpt-5-mini": {"input": 0.25, "cached": 0.025, "output": 2}}',
          },
        )
      }
      return [model, { input: Number(input), output: Number(output), cached: Number(cached) }]
    }),
  )
}

function costsOf({ recorded }: RouteSummary, prices: ReadonlyMap<string, Price>) {
  const byLength = [...prices].sort(([a], [b]) => b.length - a.length)
  const unpriced: string[] = []
  const models: Record<string, number> = {}
  for (const { model, input_tokens: input, cached_tokens: cached, output_tokens: out } of recorded.models) {
    const found = byLength.find(([name]) => model?.startsWith(name) === true)?.[1]
    if (found === undefined) unpriced.push(model ?? 'no model')
    else models[model ?? ''] = ((input - cached) * found.input + cached * found.cached + out * found.output) / 1e6
  }
  return { total: Object.values(models).reduce((sum, cost) => sum + cost, 0), models, unpriced }
}
