/**
 * `trainyard models list`: the models of the service.
 */

import { defineCommand } from '#cli/command/define-command.js'
import { flag } from '#cli/command/flags.js'
import { askedNamespace, hintConfiguredProject, nextPageCommand, pageFlags } from '#cli/command/page-flags.js'
import type { Column } from '#cli/terminal/table.js'
import { MODEL_ORDERS } from '#contract/wire/model-orders.js'
import type { ListedModel } from '#contract/wire/models.js'
import { collectPages } from '#sdk/client/pages.js'

const columns: readonly Column<ListedModel>[] = [
  { header: 'name', kind: 'name', get: (model) => model.name },
  { header: 'project', get: (model) => model.project, canShrink: true },
  { header: 'base model', get: (model) => model.base_model, canShrink: true, rank: 2 },
  { header: 'step', kind: 'number', get: (model) => model.step },
  { header: 'created', kind: 'time', get: (model) => model.created_at, rank: 1 },
  { header: 'id', kind: 'id', get: (model) => model.id },
]

/** Beside them with --summary. */
const summaryColumns: readonly Column<ListedModel>[] = [
  ...['val/reward', 'train/reward'].map(
    (name, i): Column<ListedModel> => ({
      header: name,
      kind: 'number',
      get: ({ summary }) => summary?.metrics[name]?.last,
      rank: 3 + i,
    }),
  ),
  { header: 'job', get: ({ summary }) => summary?.running_job?.status ?? '' },
  { header: 'checkpoints', kind: 'number', get: ({ summary }) => summary?.checkpoints, rank: 6 },
  { header: 'size', kind: 'bytes', get: ({ summary }) => summary?.size_bytes, rank: 7 },
  { header: 'last active', kind: 'time', get: ({ summary }) => summary?.last_active_at },
]

export const listModels = defineCommand({
  path: ['models', 'list'],
  summary: 'List models',
  details: 'Of every project, whichever is configured; --project shows one.',
  examples: [
    ['trainyard models list', 'the first page, newest last'],
    ['trainyard models list --sort -last_active --summary', 'what was worked on last, and how it goes'],
    ['trainyard models list --all -q', 'the ids of all models'],
  ],
  namespace: ['project', 'entity'],
  args: {},
  flags: {
    baseModel: flag.text('--base-model <name>', 'only models of this base model'),
    name: flag.text('--name <name>', 'only models of this name'),
    query: flag.text('--query <text>', 'only models whose name holds this text'),
    sort: flag.choice(MODEL_ORDERS)('--sort <order>', `one of ${MODEL_ORDERS.join(', ')}`, { default: 'created' }),
    summary: flag.switch('--summary', 'with rewards, the job that runs, checkpoints and last activity'),
    ...pageFlags,
  },
  next: ['trainyard models get <model>'],
  async run({ connect, config, output, flags, signal }) {
    const client = await connect()
    const { limit, after } = flags
    const filter = {
      base_model: flags.baseModel,
      name: flags.name,
      query: flags.query,
      sort: flags.sort,
      ...(flags.summary ? { include: 'summary' as const } : {}),
      ...askedNamespace(config),
    }
    const page = flags.all
      ? await collectPages((query) => client.models.list({ ...filter, ...query }, { signal }), { after })
      : await client.models.list({ ...filter, limit, after }, { signal })
    const shown = flags.summary ? [...columns.filter(({ header }) => header !== 'created'), ...summaryColumns] : columns
    output.list(page, shown, {
      isWide: flags.wide,
      nextCommand: nextPageCommand('models list', page, {
        '--limit': limit,
        '--base-model': flags.baseModel,
        '--name': flags.name,
        '--query': flags.query,
        '--sort': flags.sort === 'created' ? undefined : flags.sort,
        '--project': filter.project,
        '--entity': filter.entity,
      }),
      empty: 'no models yet; trainyard models create <name> --base-model <name> makes one',
    })
    hintConfiguredProject(config, output)
  },
})
