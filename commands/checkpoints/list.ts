/**
 * `trainyard checkpoints list`: steps of a model with their metrics.
 */

import { defineCommand } from '#cli/command/define-command.js'
import { argument, flag } from '#cli/command/flags.js'
import { askedNamespace, nextPageCommand, pageFlags } from '#cli/command/page-flags.js'
import { usualMetrics } from '#cli/input/checkpoint-selection.js'
import { findModel, parseWholeModel } from '#cli/names/model-reference.js'
import type { Column } from '#cli/terminal/table.js'
import type { Checkpoint } from '#contract/wire/checkpoints.js'
import { quoteWord } from '#contract/wire/command-words.js'
import { collectPages } from '#sdk/client/pages.js'

export const listCheckpoints = defineCommand({
  path: ['checkpoints', 'list'],
  summary: 'List the checkpoints of a model',
  examples: [
    ['trainyard checkpoints list email-agent --order desc', 'newest first'],
    ['trainyard checkpoints list email-agent --metrics val/reward,loss/train', 'chosen metrics as columns'],
    ['trainyard checkpoints list email-agent -q', 'ids only'],
  ],
  namespace: ['project', 'entity'],
  args: { model: argument.required('id, name, project/name or entity/project/name', { asks: 'model' }) },
  flags: {
    order: flag.choice(['asc', 'desc'])('--order <asc|desc>', 'by step', { default: 'asc' }),
    metrics: flag.text('--metrics <names>', 'metrics to show, separated by commas'),
    ...pageFlags,
  },
  exits: ['not_found'],
  next: ['trainyard checkpoints download <model> --step best'],
  async run(context) {
    const { connect, config, output, args, flags, signal } = context
    const client = await connect()
    const model = await findModel(parseWholeModel(args.model), { ...context, client })
    const { limit, after, order } = flags
    const { project, entity } = askedNamespace(config)
    const page = flags.all
      ? await collectPages((query) => client.checkpoints.list(model.id, { order, ...query }, { signal }), { after })
      : await client.checkpoints.list(model.id, { order, limit, after }, { signal })
    output.list(page, toColumns(page.data, flags.metrics), {
      isWide: flags.wide,
      nextCommand: nextPageCommand(`checkpoints list ${quoteWord(args.model)}`, page, {
        '--order': order,
        '--metrics': flags.metrics,
        '--limit': limit,
        '--project': project,
        '--entity': entity,
      }),
      empty: `model ${model.name} has no checkpoint yet`,
    })
  },
})

/** What chats with a checkpoint set in the template; empty for nothing. */
function kwargsOf({ chat_template_kwargs: kwargs = {} }: Checkpoint): string {
  return Object.keys(kwargs ?? {}).length === 0 ? '' : JSON.stringify(kwargs)
}

function toColumns(checkpoints: readonly Checkpoint[], names: string | undefined): readonly Column<Checkpoint>[] {
  const chosen =
    names?.split(',').map((name) => name.trim()) ??
    usualMetrics(checkpoints.flatMap((checkpoint) => Object.keys(checkpoint.metrics)))
  return [
    { header: 'step', kind: 'number', get: (checkpoint) => checkpoint.step },
    ...chosen.map(
      (name, i): Column<Checkpoint> => ({ header: name, kind: 'number', get: ({ metrics }) => metrics[name], rank: i }),
    ),
    { header: 'size', kind: 'bytes', get: (checkpoint) => checkpoint.size_bytes, rank: 100 },
    { header: 'created', kind: 'time', get: (checkpoint) => checkpoint.created_at, rank: 99 },
    { header: 'id', kind: 'id', get: (checkpoint) => checkpoint.id },
    ...(checkpoints.some((checkpoint) => kwargsOf(checkpoint) !== '')
      ? [{ header: 'template kwargs', canShrink: true, rank: 98, get: kwargsOf }]
      : []),
  ]
}
