/**
 * `trainyard data convert`: training rows of other trainers as rows that are read here. Needs no service.
 */

import { writeWhole } from '#base/write-whole.js'
import { defineCommand } from '#cli/command/define-command.js'
import { argument, flag } from '#cli/command/flags.js'
import { convertFile, describeForms, describeUnread } from '#cli/input/convert-file.js'
import { displayPath, openInput } from '#cli/input/input-file.js'
import { assertWritable } from '#cli/local/output-file.js'
import { plural } from '#cli/terminal/format.js'
import { mapFlag } from '#cli/training/flags.js'
import { command } from '#contract/wire/command-words.js'
import { CONVERT_TARGETS, PURPOSE_OF, type RowPurpose, TARGET_OF } from '#contract/wire/training/row-forms/purposes.js'

const NEXT: Readonly<Record<RowPurpose, (file: string) => string>> = {
  conversation: (file) => command`trainyard train sft <model> --file ${file}`,
  preference: (file) => command`trainyard train dpo <model> --file ${file}`,
  prompt: (file) => command`trainyard rollout <model> --prompts ${file} --out groups.jsonl`,
}

export const convertData = defineCommand({
  path: ['data', 'convert'],
  summary: 'Convert training rows of other trainers',
  details:
    'Reads ShareGPT, Alpaca, questions and answers, HH-RLHF, preferences of LlamaFactory, KTO, tools as JSON text, of CSV, TSV, Parquet, one JSON array and JSON Lines, plain or compressed with gzip, and writes JSON Lines. Without --to the first row says what they are for. Of KTO rows --to sft keeps the good ones and --to dpo pairs good and bad answers to one prompt. Where one row cannot be converted, nothing is written.',
  examples: [
    ['trainyard data convert sharegpt.json --to sft --out rows.jsonl', 'conversations to train on'],
    ['trainyard data convert hh.jsonl.gz --to dpo --out pairs.jsonl', 'preferences, from a compressed file'],
    ['trainyard data convert alpaca.json --to prompts', 'what was asked, on standard output'],
  ],
  args: { input: argument.required('the file, or - for standard input') },
  flags: {
    map: mapFlag,
    to: flag.choice(CONVERT_TARGETS)(
      '--to <target>',
      'what the rows are for: sft, dpo or prompts; default by their form',
    ),
    out: flag.text('--out <file>', 'where to write them; default -, standard output', { default: '-' }),
  },
  exits: [],
  next: ['trainyard train sft <model> --file <file>', 'trainyard train dpo <model> --file <file>'],
  async run({ io, output, args, flags }) {
    const isPrinted = flags.out === '-'
    if (!isPrinted) await assertWritable(flags.out)
    const lines: string[] = []
    const data = await openInput(args.input, io)
    const facts = await convertFile(data, displayPath(args.input), {
      purpose: (flags.to && PURPOSE_OF.get(flags.to)) ?? null,
      map: flags.map,
      write: (line) => lines.push(line),
    })
    const { purpose, read, written, leftOut, forms } = facts
    const target = TARGET_OF[purpose]
    const rest = leftOut === 0 ? '' : `; ${plural(leftOut, 'row')} left out`
    const said = `${plural(written, 'row')} for ${target}, of ${describeForms(facts)}${rest}`
    const ignored = describeUnread(facts)
    if (isPrinted) {
      output.raw(lines.join(''))
      if (ignored !== null) output.warning(ignored)
      return output.status(said)
    }
    await writeWhole(flags.out, lines)
    const json = {
      object: 'conversion',
      file: flags.out,
      target,
      read,
      written,
      left_out: leftOut,
      forms,
      unread: facts.unread,
    }
    output.result(json, `Wrote ${flags.out}: ${said}`, [flags.out])
    if (ignored !== null) output.warning(ignored)
    output.hint(NEXT[purpose](flags.out))
  },
})
