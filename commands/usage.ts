/**
 * `trainyard usage`: tokens, requests and training time by day, project and model.
 */
import type { UsageRow } from '#api/wire/access/usage.js'
import { defineCommand } from '#cli/command/define-command.js'
import { flag } from '#cli/command/flags.js'
import { ExpectedError } from '#cli/config/parse-value.js'
import { formatDuration, plural } from '#cli/terminal/format.js'
import type { Column } from '#cli/terminal/table.js'

const columns: readonly Column<UsageRow>[] = [
  { header: 'day', get: (row) => row.day },
  { header: 'project', get: (row) => row.project, canShrink: true },
  { header: 'model', get: (row) => row.model, canShrink: true },
  { header: 'requests', kind: 'number', get: (row) => row.requests },
  { header: 'prompt', kind: 'number', get: (row) => row.prompt_tokens },
  { header: 'cached', kind: 'number', get: (row) => row.cached_tokens },
  { header: 'answer', kind: 'number', get: (row) => row.completion_tokens },
  { header: 'training', kind: 'duration', get: (row) => row.training_seconds * 1000 },
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
  args: {},
  flags: {
    from: flag.custom(readDay)('--from <day>', 'first day, YYYY-MM-DD'),
    to: flag.custom(readDay)('--to <day>', 'last day, included'),
    model: flag.text('--model <name>', 'only this model: a base model, or entity/project/name'),
  },
  async run({ connect, config, output, flags, signal }) {
    const client = await connect()
    const project = config.resolve('project').source === 'flag' ? config.get('project') : undefined
    const { from, to, model } = flags
    const report = await client.usage({ from, to, model, project }, { signal })
    output.rows(report, report.data, columns, (row) => `${row.day} ${row.project} ${row.model}`)
    if (report.data.length === 0) return output.status(`nothing used from ${report.from} to ${report.to}`)
    const { total } = report
    output.status(
      `${report.from} to ${report.to}: ${plural(total.requests, 'request')}, ${total.prompt_tokens} prompt and ${total.completion_tokens} answer tokens, ${formatDuration(total.training_seconds * 1000)} of training`,
    )
    if (report.is_truncated) output.warning('there is more than one report holds; ask for fewer days')
  },
})

function readDay(text: string): string {
  if (!/^\d{4}-\d\d-\d\d$/.test(text) || Number.isNaN(Date.parse(text))) throw new ExpectedError('a day as YYYY-MM-DD')
  return text
}
