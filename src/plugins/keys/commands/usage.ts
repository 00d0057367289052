/**
 * `trainyard usage`: tokens, requests and training time by day, project and model.
 */

import { NotFoundError } from '#base/errors/errors.js'
import { defineCommand } from '#cli/command/define-command.js'
import { flag } from '#cli/command/flags.js'
import { askedNamespace, hintConfiguredProject } from '#cli/command/page-flags.js'
import { parseDay } from '#cli/input/parse.js'
import { findModel, parseWholeModel } from '#cli/names/model-reference.js'
import { formatDuration, plural } from '#cli/terminal/format.js'
import type { Column } from '#cli/terminal/table.js'
import type { UsageRow } from '#contract/wire/access/usage.js'

const columns: readonly Column<UsageRow>[] = [
  { header: 'day', get: (row) => row.day },
  { header: 'project', get: (row) => row.project, canShrink: true, rank: 1 },
  { header: 'model', get: (row) => row.model, canShrink: true },
  { header: 'requests', kind: 'number', get: (row) => row.requests, rank: 3 },
  { header: 'prompt', kind: 'number', get: (row) => row.prompt_tokens },
  { header: 'cached', kind: 'number', get: (row) => row.cached_tokens, rank: 4 },
  { header: 'answer', kind: 'number', get: (row) => row.completion_tokens },
  { header: 'training', kind: 'duration', get: (row) => row.training_seconds * 1000, rank: 2 },
]

export const usage = defineCommand({
  path: ['usage'],
  summary: 'Show tokens, requests and training time by day',
  details:
    'Days are those of UTC; the last 30 unless said otherwise. A request counts for the project it names in the header Compat-Project or OpenAI-Project, else for its key’s, else for its model’s.',
  examples: [
    ['trainyard usage', 'the last 30 days, every project'],
    ['trainyard usage --project games --from 2026-11-01 --to 2026-11-30', 'one project in November'],
  ],
  namespace: ['project'],
  args: {},
  flags: {
    from: flag.custom(parseDay)('--from <day>', 'first day, YYYY-MM-DD'),
    to: flag.custom(parseDay)('--to <day>', 'last day, included'),
    model: flag.text('--model <name>', 'only this model: id, name, project/name, entity/project/name, or a base model'),
  },
  async run({ connect, config, output, flags, signal }) {
    const client = await connect()
    const { project } = askedNamespace(config)
    const { from, to } = flags
    const model = flags.model === undefined ? undefined : await usageName(flags.model, { client, config, signal })
    const report = await client.usage({ from, to, model, project }, { signal })
    output.rows(report, report.data, columns, (row) => `${row.day} ${row.project} ${row.model}`)
    if (report.data.length === 0) return output.status(`nothing used from ${report.from} to ${report.to}`)
    const { total } = report
    output.status(
      `${report.from} to ${report.to}: ${plural(total.requests, 'request')}, ${total.prompt_tokens} prompt and ${total.completion_tokens} answer tokens, ${formatDuration(total.training_seconds * 1000)} of training`,
    )
    if (model === undefined) hintConfiguredProject(config, output)
    if (report.is_truncated) output.warning('there is more than one report holds; ask for fewer days')
  },
})

/**
 * The name a model is counted under. Counters outlive their models and base models: what is not there now is asked for as it is
 * written.
 *
 * @throws {UsageError} `invalid_model_reference` for a checkpoint: a model's steps are counted together
 */
async function usageName(text: string, lookup: Parameters<typeof findModel>[1]): Promise<string> {
  const reference = parseWholeModel(text, { hint: 'the steps of a model are counted together' })
  try {
    const { entity, project, name } = await findModel(reference, lookup)
    return `${entity}/${project}/${name}`
  } catch (error) {
    if (error instanceof NotFoundError) return text
    throw error
  }
}
