/**
 * `trainyard models metrics`: the curves of a model, also of steps whose checkpoints were deleted.
 */

import { defineCommand } from '#cli/command/define-command.js'
import { argument, flag } from '#cli/command/flags.js'
import { usualMetrics } from '#cli/input/checkpoint-selection.js'
import { findModel, parseWholeModel } from '#cli/names/model-reference.js'
import type { Column } from '#cli/terminal/table.js'
import type { ModelMetrics } from '#contract/wire/model-metrics.js'

/** Position of a step in the answer's lists. */
type Row = number

export const modelMetrics = defineCommand({
  path: ['models', 'metrics'],
  summary: 'Show the metrics of a model by step',
  details: 'Steps stay when their checkpoints are deleted. Step 0 is the base model.',
  examples: [
    ['trainyard models metrics email-agent', 'the usual ones'],
    ['trainyard models metrics email-agent --metrics train/reward,val/reward > curve.tsv', 'chosen ones, as a file'],
    ['trainyard models metrics email-agent --from-step 100 --json', 'every metric, as the API returns it'],
  ],
  namespace: ['project', 'entity'],
  args: { model: argument.required('id, name, project/name or entity/project/name', { asks: 'model' }) },
  flags: {
    metrics: flag.text('--metrics <names>', 'metrics to show, separated by commas'),
    fromStep: flag.integer(0)('--from-step <n>', 'lowest step'),
    toStep: flag.integer(0)('--to-step <n>', 'highest step'),
    points: flag.integer(4, 2000)('--points <n>', 'most points of a metric, 4 to 2000; peaks stay', { default: 500 }),
  },
  exits: ['not_found'],
  next: ['trainyard checkpoints list <model>'],
  async run(context) {
    const { connect, output, args, flags, signal } = context
    const client = await connect()
    const model = await findModel(parseWholeModel(args.model), { ...context, client })
    const found = await client.models.metrics(
      model.id,
      { keys: flags.metrics, from_step: flags.fromStep, to_step: flags.toStep, points: flags.points },
      { signal },
    )
    const names = found.keys.map(({ key }) => key)
    const asked = flags.metrics?.split(',').map((name) => name.trim())
    for (const name of asked ?? []) {
      if (!names.includes(name))
        output.warning(`no step of these has "${name}"; there are: ${names.join(', ') || 'none'}`)
    }
    const rows = found.steps.map((_, row) => row)
    output.rows(found, rows, toColumns(found, asked ?? usualMetrics(names)), (row) => String(found.steps[row]))
    if (rows.length === 0 && output.mode === 'human') output.status(`model ${model.name} has no metrics yet`)
  },
})

function toColumns({ steps, times, series }: ModelMetrics, names: readonly string[]): readonly Column<Row>[] {
  return [
    { header: 'step', kind: 'number', get: (row) => steps[row] },
    ...names.map(
      (name, i): Column<Row> => ({
        header: name,
        kind: 'number',
        get: (row) => series[name]?.[row] ?? undefined,
        rank: i,
      }),
    ),
    { header: 'time', kind: 'time', get: (row) => times[row], rank: 99 },
  ]
}
