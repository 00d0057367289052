/**
 * `trainyard routes export`: recorded calls as a file of `train sft`.
 */
import { writeWhole } from '#base/write-whole.js'
import { defineCommand } from '#cli/command/define-command.js'
import { argument, flag } from '#cli/command/flags.js'
import { assertWritable } from '#cli/local/output-file.js'
import { plural } from '#cli/terminal/format.js'
import { command } from '#contract/wire/command-words.js'
import { createRouteCalls } from './calls.js'

export const exportRoute = defineCommand({
  path: ['routes', 'export'],
  summary: 'Write recorded calls of a route as rows of train sft',
  details:
    'Oldest first, whole calls alone: those that were refused, cut, filtered, or hold images or tools of the upstream’s own are left out.',
  examples: [
    ['trainyard routes export tickets --out rows.jsonl', 'then: trainyard train sft tickets --file rows.jsonl'],
    ['trainyard routes export tickets --out rows.jsonl --json', 'how many there are, as JSON'],
  ],
  args: { route: argument.required('name or id of a route') },
  flags: { out: flag.required('--out <file>', 'file to write', { what: 'where to', hint: 'for example rows.jsonl' }) },
  exits: ['not_found'],
  next: ['trainyard train sft <model> --file rows.jsonl'],
  async run({ connect, output, args, flags, signal }) {
    await assertWritable(flags.out)
    const calls = createRouteCalls(await connect(), signal)
    const lines: string[] = []
    for await (const line of calls.rows(args.route)) lines.push(`${line}\n`)
    const rows = lines.length
    await writeWhole(flags.out, lines.join(''))
    output.result({ route: args.route, file: flags.out, rows }, `Wrote ${plural(rows, 'row')} to ${flags.out}`, [
      flags.out,
    ])
    if (rows > 0) output.hint(command`trainyard train sft <model> --file ${flags.out}`)
  },
})
