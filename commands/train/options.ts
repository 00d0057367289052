/**
 * `trainyard train options`: the options of a kind of job as the server has them, with what suits a base model.
 */

import type { JsonValue } from '#base/util/json.js'
import { defineCommand } from '#cli/command/define-command.js'
import { argument, flag } from '#cli/command/flags.js'
import { UsageError } from '#cli/terminal/errors.js'
import type { Column } from '#cli/terminal/table.js'
import { JOB_KINDS } from '#contract/wire/job-words.js'
import type { TrainingOption } from '#contract/wire/training/option-list.js'

export const trainOptions = defineCommand({
  path: ['train', 'options'],
  summary: 'List the options of a kind of job',
  details:
    'As the server has them: defaults of the API, and what the command line and the page ask for instead, by the size of a base model where one is named. --set takes every name of the list.',
  examples: [
    ['trainyard train options sft', 'names, defaults, bounds'],
    ['trainyard train options rl --base-model trainyard/spark', 'with what was measured for its size'],
  ],
  args: { kind: argument.required('rl, sft or dpo') },
  flags: { baseModel: flag.text('--base-model <name>', 'suggest values for the size of this base model') },
  exits: ['not_found'],
  next: ['trainyard train sft <model> --file rows.jsonl --plan'],
  async run({ connect, output, args, flags, signal }) {
    const kind = JOB_KINDS.find((each) => each === args.kind)
    if (kind === undefined) {
      throw new UsageError('invalid_argument', `"${args.kind}" is no kind of job: expected ${JOB_KINDS.join(', ')}`, {
        param: 'kind',
      })
    }
    const client = await connect()
    const query = { kind, ...(flags.baseModel === undefined ? {} : { base_model: flags.baseModel }) }
    const found = await client.trainingJobs.options(query, { signal })
    const options = found.data.find((each) => each.kind === kind)?.options ?? []
    output.rows(found, options, COLUMNS, ({ name }) => name)
  },
})

const COLUMNS: readonly Column<TrainingOption>[] = [
  { header: 'OPTION', get: ({ name }) => name },
  { header: 'DEFAULT', get: ({ default: value, otherwise }) => (value === null ? (otherwise ?? '') : shown(value)) },
  { header: 'SUGGESTED', get: ({ suggested }) => (suggested == null ? '' : shown(suggested)), rank: 1 },
  { header: 'WHAT', canShrink: true, get: ({ summary }) => summary, rank: 2 },
]

function shown(value: JsonValue): string {
  if (typeof value === 'number' && value > 0 && value < 0.01) return value.toExponential()
  return typeof value === 'string' ? value : JSON.stringify(value)
}
