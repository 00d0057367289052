/**
 * `trainyard base-models list`: what `models create --base-model` accepts, and what is on its way there.
 */

import { defineCommand } from '#cli/command/define-command.js'
import type { Column } from '#cli/terminal/table.js'
import type { BaseModel } from '#contract/wire/models.js'

const columns: readonly Column<BaseModel>[] = [
  { header: 'name', kind: 'name', get: (model) => model.name, canShrink: true },
  { header: 'arch', get: (model) => model.architecture, rank: 1 },
  { header: 'params', kind: 'count', get: (model) => model.parameters },
  { header: 'context', kind: 'number', get: (model) => model.context_length },
  { header: 'size', kind: 'bytes', get: (model) => model.size_bytes ?? model.total_bytes, rank: 2 },
  { header: 'precision', get: (model) => model.precision, rank: 4 },
  { header: 'served as', get: (model) => model.serving_precision, rank: 3 },
  { header: 'status', kind: 'status', get: (model) => model.status },
]

export const listBaseModels = defineCommand({
  path: ['base-models', 'list'],
  summary: 'List base models the service can train',
  examples: [
    ['trainyard base-models list', 'with architecture, parameters, context, size and precision'],
    ['trainyard base-models list -q', 'one name per line'],
  ],
  args: {},
  flags: {},
  next: ['trainyard models create <name> --base-model <base model>', 'trainyard base-models add <organisation/name>'],
  async run({ connect, output, signal }) {
    const page = await (await connect()).baseModels.details({ signal })
    // mostly all are ready, and 80 columns are few
    const isPlain = output.isTerminal && page.data.every((model) => model.status === 'ready')
    output.list(page, isPlain ? columns.filter((column) => column.kind !== 'status') : columns)
    for (const { name, error, warnings } of page.data) {
      if (error !== null) output.warning(`${name}: ${error}`)
      // a server of an earlier version names none
      for (const warning of warnings ?? []) output.warning(`${name}: ${warning}`)
    }
  },
})
