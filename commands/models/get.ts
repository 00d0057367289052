/**
 * `trainyard models get`: one model, its latest step and its best checkpoint.
 */

import { defineCommand } from '#cli/command/define-command.js'
import { argument } from '#cli/command/flags.js'
import { DEFAULT_METRIC, findBest } from '#cli/input/checkpoint-selection.js'
import { findModel, parseWholeModel } from '#cli/names/model-reference.js'
import { formatBytes, formatNumber, formatRelativeTime, plural } from '#cli/terminal/format.js'
import { collectPages } from '#sdk/client/pages.js'

export const getModel = defineCommand({
  path: ['models', 'get'],
  summary: 'Show one model with its latest step',
  examples: [
    ['trainyard models get email-agent', 'by name, in the configured project'],
    ['trainyard models get games/chess --json', 'by project and name, as the API returns it'],
  ],
  namespace: ['project', 'entity'],
  args: { model: argument.required('id, name, project/name or entity/project/name', { asks: 'model' }) },
  flags: {},
  exits: ['not_found'],
  next: ['trainyard checkpoints list <model>', 'trainyard chat <model>'],
  async run(context) {
    const { connect, output, clock, args, signal } = context
    const client = await connect()
    const model = await findModel(
      parseWholeModel(args.model, { hint: 'trainyard checkpoints list <model> shows its steps' }),
      { ...context, client },
    )
    if (output.mode !== 'human') return output.record(model, model.id, [])
    const { data } = await collectPages((query) => client.checkpoints.list(model.id, query, { signal }))
    const sizeBytes = data.reduce((sum, checkpoint) => sum + checkpoint.size_bytes, 0)
    const hasMetric = data.some((checkpoint) => checkpoint.metrics[DEFAULT_METRIC] !== undefined)
    const best = hasMetric ? findBest(data, DEFAULT_METRIC) : null
    output.record(model, model.id, [
      ['Name', model.name],
      ['Project', `${model.project} (entity ${model.entity})`],
      ['ID', model.id],
      ['Base model', model.base_model],
      ['Step', `${model.step}   (${plural(data.length, 'checkpoint')}, ${formatBytes(sizeBytes)})`],
      ...(best === null
        ? []
        : [
            [
              'Best',
              `step ${best.step}   ${DEFAULT_METRIC} ${formatNumber(best.metrics[DEFAULT_METRIC] ?? 0)}`,
            ] as const,
          ]),
      ['Created', output.isTerminal ? formatRelativeTime(model.created_at, clock.nowMs()) : model.created_at],
    ])
  },
})
