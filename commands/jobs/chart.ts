/**
 * `trainyard jobs chart`: what the jobs of a model did to its metrics, as curves over its steps.
 */

import { maxOf, minOf } from '#base/util/lists.js'
import { defineCommand } from '#cli/command/define-command.js'
import { argument, flag } from '#cli/command/flags.js'
import { usualMetrics } from '#cli/input/checkpoint-selection.js'
import { findModel, parseWholeModel } from '#cli/names/model-reference.js'
import { renderChart } from '#cli/terminal/chart.js'
import { UsageError } from '#cli/terminal/errors.js'
import { formatNumber } from '#cli/terminal/format.js'
import { command } from '#contract/wire/command-words.js'

/** Rows of a curve: three of them fit a terminal of 24 lines with their titles. */
const ROWS = 5

export const chartJobs = defineCommand({
  path: ['jobs', 'chart'],
  summary: 'Draw the metrics of a model over its steps',
  details:
    'One curve a metric: held-out and training reward and loss, as far as they were measured, or those of --metrics. In a pipe a row a step. train/reward of a step is of answers that the step before it gave.',
  examples: [
    ['trainyard jobs chart email-agent', 'rewards and losses'],
    ['trainyard jobs chart email-agent --metrics loss/entropy,loss/kl_div', 'chosen metrics'],
    ['trainyard jobs chart email-agent --json', 'the metrics by step, as the API returns them'],
  ],
  namespace: ['project', 'entity'],
  args: { model: argument.required('id, name, project/name or entity/project/name', { asks: 'model' }) },
  flags: { metrics: flag.text('--metrics <names>', 'metrics to draw, separated by commas') },
  exits: ['not_found'],
  next: ['trainyard models metrics <model>', 'trainyard jobs get <job>'],
  async run(context) {
    const { connect, io, output, args, flags, signal } = context
    const client = await connect()
    const model = await findModel(parseWholeModel(args.model), { ...context, client })
    const found = await client.models.metrics(model.id, { keys: flags.metrics }, { signal })
    const known = found.keys.map(({ key }) => key)
    const chosen = flags.metrics?.split(',').map((name) => name.trim()) ?? usualMetrics(known)
    const unknown = chosen.find((name) => !known.includes(name))
    if (unknown !== undefined) {
      throw new UsageError('unknown_metric', `no step of model ${model.name} has a metric "${unknown}"`, {
        param: '--metrics',
        hint: known.length === 0 ? 'a training job makes the first' : `there are ${known.join(', ')}`,
      })
    }
    const points = found.steps.map((step, at) => ({ step, at }))
    const curves = chosen.map((name) => ({
      name,
      points: points.flatMap(({ step, at }) => {
        const value = found.series[name]?.[at] ?? null
        return value === null ? [] : [{ step, value }]
      }),
    }))
    if (output.mode === 'human' && curves.length === 0) {
      output.status(`model ${model.name} has no metrics yet`)
      return output.hint(command`trainyard train rl ${model.name} --file groups.jsonl --watch`)
    }
    const { stdout } = io
    if (output.mode !== 'human' || !stdout.isTerminal) {
      const columns = [
        { header: 'step', get: ({ step }: Point) => step },
        ...chosen.map((name) => ({ header: name, get: ({ at }: Point) => found.series[name]?.[at] })),
      ]
      return output.rows(found, points, columns, ({ step }) => String(step))
    }
    const charts = curves.map(({ name, points: curve }) => {
      const values = curve.map(({ value }) => value)
      const title = `${stdout.chalk.bold(name)}  ${formatNumber(values[0] ?? 0)} to ${formatNumber(values.at(-1) ?? 0)}`
      const options = { width: stdout.width, isUnicode: stdout.isUnicode, rows: ROWS, range: rangeOf(values) }
      return `${title}\n${renderChart(curve, options)}`
    })
    output.raw(`${charts.join('\n\n')}\n`)
  },
})

/** A step and its place in the answer's lists. */
interface Point {
  readonly step: number
  readonly at: number
}

/** 0 to 1 where all values lie there, so that rewards can be compared at a glance; else from the least to the greatest. */
function rangeOf(values: readonly number[]): readonly [number, number] {
  const [low, high] = [minOf(values), maxOf(values)]
  return low >= 0 && high <= 1 ? [0, 1] : [low, high]
}
