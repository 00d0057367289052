/**
 * `trainyard models list`: the models of the service.
 */

import { defineCommand } from '#cli/command/define-command.js'
import { flag } from '#cli/command/flags.js'
import { askedNamespace, hintConfiguredProject, nextPageCommand, pageFlags } from '#cli/command/page-flags.js'
import type { Column } from '#cli/terminal/table.js'
import type { Model } from '#contract/wire/models.js'
import { collectPages } from '#sdk/client/pages.js'

const columns: readonly Column<Model>[] = [
  { header: 'name', kind: 'name', get: (model) => model.name },
  { header: 'project', get: (model) => model.project, canShrink: true },
  { header: 'base model', get: (model) => model.base_model, canShrink: true, rank: 2 },
  { header: 'step', kind: 'number', get: (model) => model.step },
  { header: 'created', kind: 'time', get: (model) => model.created_at, rank: 1 },
  { header: 'id', kind: 'id', get: (model) => model.id },
]

export const listModels = defineCommand({
  path: ['models', 'list'],
  summary: 'List models',
  details: 'Of every project, whichever is configured; --project shows one.',
  examples: [
    ['trainyard models list', 'the first page, newest last'],
    ['trainyard models list --all -q', 'the ids of all models'],
  ],
  namespace: ['project', 'entity'],
  args: {},
  flags: {
    baseModel: flag.text('--base-model <name>', 'only models of this base model'),
    name: flag.text('--name <name>', 'only models of this name'),
    ...pageFlags,
  },
  next: ['trainyard models get <model>'],
  async run({ connect, config, output, flags, signal }) {
    const client = await connect()
    const { limit, after } = flags
    const filter = { base_model: flags.baseModel, name: flags.name, ...askedNamespace(config) }
    const page = flags.all
      ? await collectPages((query) => client.models.list({ ...filter, ...query }, { signal }), { after })
      : await client.models.list({ ...filter, limit, after }, { signal })
    output.list(page, columns, {
      isWide: flags.wide,
      nextCommand: nextPageCommand('models list', page, {
        '--limit': limit,
        '--base-model': flags.baseModel,
        '--name': flags.name,
        '--project': filter.project,
        '--entity': filter.entity,
      }),
      empty: 'no models yet; trainyard models create <name> --base-model <name> makes one',
    })
    hintConfiguredProject(config, output)
  },
})
