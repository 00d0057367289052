/**
 * `trainyard keys usage`: what each key asked for.
 */
import { defineCommand } from '#cli/command/define-command.js'
import { flag } from '#cli/command/flags.js'
import { parseDay } from '#cli/input/parse.js'
import type { Column } from '#cli/terminal/table.js'
import type { KeyUsageRow } from '#contract/wire/access/usage.js'

const columns: readonly Column<KeyUsageRow>[] = [
  {
    header: 'name',
    get: ({ name, key_prefix: prefix }) => (prefix === null ? '(revoked)' : (name ?? '')),
    canShrink: true,
  },
  { header: 'key', get: (row) => row.key_prefix ?? '' },
  { header: 'project', get: (row) => row.project ?? '', canShrink: true, rank: 2 },
  { header: 'requests', kind: 'number', get: (row) => row.requests },
  { header: 'prompt', kind: 'number', get: (row) => row.prompt_tokens },
  { header: 'cached', kind: 'number', get: (row) => row.cached_tokens, rank: 1 },
  { header: 'answer', kind: 'number', get: (row) => row.completion_tokens },
  { header: 'id', get: (row) => row.key_id, rank: 3 },
]

export const keysUsage = defineCommand({
  path: ['keys', 'usage'],
  summary: 'Show requests and tokens by API key',
  details:
    'Needs a key with scope admin. Days are those of UTC; the last 30 unless said otherwise. A session of a browser counts for its key. Training time belongs to no key: trainyard usage shows it by model.',
  examples: [
    ['trainyard keys usage', 'the last 30 days'],
    ['trainyard keys usage --from 2026-11-01 --to 2026-11-30', 'November'],
  ],
  args: {},
  flags: {
    from: flag.custom(parseDay)('--from <day>', 'first day, YYYY-MM-DD'),
    to: flag.custom(parseDay)('--to <day>', 'last day, included'),
  },
  async run({ connect, output, flags, signal }) {
    const client = await connect()
    const { from, to } = flags
    const report = await client.keys.usage({ from, to }, { signal })
    output.rows(report, report.data, columns, (row) => row.key_id)
    if (report.data.length === 0) output.status(`no key asked for anything from ${report.from} to ${report.to}`)
    if (report.is_truncated) output.warning('there are more keys than one report holds; --json says which are here')
  },
})
