/**
 * `trainyard marks export`: marks of a model as rows that train, on the server or as a file here.
 */

import { writeWhole } from '#base/write-whole.js'
import { defineCommand } from '#cli/command/define-command.js'
import { argument, flag } from '#cli/command/flags.js'
import { assertWritable } from '#cli/local/output-file.js'
import { findModel, parseWholeModel } from '#cli/names/model-reference.js'
import { plural } from '#cli/terminal/format.js'
import { command, quoteWord } from '#contract/wire/command-words.js'
import { LEFT_OUT_WORDS, MARK_FORMS } from '#contract/wire/training/mark-words.js'
import type { Client } from '#sdk/client/client.js'

const [FIRST_FORM] = MARK_FORMS

export const exportMarks = defineCommand({
  path: ['marks', 'export'],
  summary: 'Make training rows of marks',
  details:
    'sft: good answers, and bad ones as they were edited. dpo: edited answers over bad ones, pairs, and good over bad answers to one prompt. A file on the server, to train on by its id; with --out a file here, and none there.',
  examples: [
    ['trainyard marks export email-agent --form sft', 'a file on the server; prints its id'],
    ['trainyard marks export email-agent --form dpo --out pairs.jsonl', 'preferences in a file here'],
  ],
  namespace: ['project', 'entity'],
  args: { model: argument.required('id, name, project/name or entity/project/name', { asks: 'model' }) },
  flags: {
    form: flag.choice(MARK_FORMS)(
      '--form <form>',
      `what the rows are for: ${MARK_FORMS.join(' or ')}; default ${MARK_FORMS[0]}`,
    ),
    out: flag.text('--out <path>', 'write the rows to this file, - for standard output, and keep none on the server'),
  },
  exits: ['not_found'],
  async prepare({ flags }) {
    if (flags.out !== undefined && flags.out !== '-') await assertWritable(flags.out)
  },
  async run(context) {
    const { connect, output, args, flags, signal } = context
    const { form = FIRST_FORM, out } = flags
    const client = await connect()
    const model = await findModel(parseWholeModel(args.model), { ...context, client })
    const file = await client.marks.toFile({ model_id: model.id, form }, { signal })
    const train = command`trainyard train ${form} ${args.model}`
    for (const { reason, count } of file.left_out)
      output.warning(`${plural(count, 'mark')} left out: ${LEFT_OUT_WORDS[reason]}`)
    const rows = `${plural(file.rows, 'row')} of ${plural(file.marks, 'mark')}`
    if (out === undefined) {
      output.result(file, `${rows} in file ${file.id}`, [file.id])
      return output.hint(`${train} --data-url ${file.id}`)
    }
    try {
      const parts = download(client, file.id, signal)
      if (out === '-') for await (const part of parts) output.raw(part)
      else await writeWhole(out, parts)
    } finally {
      // also where this was stopped, whose signal would stop it too
      await client.marks
        .deleteFile(file.id)
        .catch(() => output.warning(`file ${file.id} could not be deleted and stays on the server`))
    }
    if (out === '-') return
    const json = { path: out, rows: file.rows, marks: file.marks, left_out: file.left_out }
    output.result(json, `${rows} in ${out}`, [out])
    output.hint(`${train} --file ${quoteWord(out)}`)
  },
})

async function* download(client: Client, id: string, signal: AbortSignal): AsyncGenerator<string> {
  const { body } = await client.marks.openFile(id, { signal })
  const decoder = new TextDecoder()
  for await (const part of body ?? []) yield decoder.decode(part, { stream: true })
  yield decoder.decode()
}
