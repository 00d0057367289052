/**
 * `trainyard marks list`: what readers think of answers of a model.
 */

import { defineCommand } from '#cli/command/define-command.js'
import { argument, flag } from '#cli/command/flags.js'
import { askedNamespace, nextPageCommand, pageFlags } from '#cli/command/page-flags.js'
import { resolveJobId } from '#cli/names/job-reference.js'
import { findModel, parseWholeModel } from '#cli/names/model-reference.js'
import type { Column } from '#cli/terminal/table.js'
import { quoteWord } from '#contract/wire/command-words.js'
import { MARKS } from '#contract/wire/training/mark-words.js'
import type { Mark } from '#contract/wire/training/marks.js'
import { collectPages } from '#sdk/client/pages.js'

const columns: readonly Column<Mark>[] = [
  { header: 'mark', get: ({ mark }) => mark },
  { header: 'of', get: placeOf, rank: 1 },
  { header: 'asked', get: ({ prompt }) => textOf(prompt.at(-1)), canShrink: true },
  { header: 'answer', get: ({ answer }) => textOf(answer.at(-1)), canShrink: true },
  { header: 'edited', get: ({ edited }) => edited ?? '', canShrink: true, rank: 2 },
  { header: 'note', get: ({ note }) => note ?? '', canShrink: true, rank: 3 },
  { header: 'created', kind: 'time', get: (mark) => mark.created_at, rank: 4 },
  { header: 'id', get: ({ id }) => id },
]

export const listMarks = defineCommand({
  path: ['marks', 'list'],
  summary: 'List marks on answers of a model',
  details:
    'Newest first. A mark has a copy of what it is about: it stays when the trajectory, the job or the checkpoint goes, and goes with its model.',
  examples: [
    ['trainyard marks list email-agent', 'all of a model'],
    ['trainyard marks list email-agent --mark bad --json', 'bad answers in full, with what they should have said'],
  ],
  namespace: ['project', 'entity'],
  args: { model: argument.required('id, name, project/name or entity/project/name', { asks: 'model' }) },
  flags: {
    mark: flag.choice(MARKS)('--mark <mark>', `only these: ${MARKS.join(' or ')}`),
    job: flag.text('--job <job>', 'only on what this job trained on: its id, last eight digits, or latest'),
    ...pageFlags,
  },
  exits: ['not_found'],
  next: ['trainyard marks export <model> --form sft --out rows.jsonl'],
  async run(context) {
    const { connect, config, output, args, flags, signal } = context
    const client = await connect()
    const model = await findModel(parseWholeModel(args.model), { ...context, client })
    const jobId = flags.job === undefined ? undefined : await resolveJobId(context, client, flags.job)
    const { limit, after, mark } = flags
    const chosen = { mark, training_job_id: jobId }
    const page = flags.all
      ? await collectPages((query) => client.marks.list(model.id, { ...chosen, ...query }, { signal }), { after })
      : await client.marks.list(model.id, { ...chosen, limit, after }, { signal })
    const { project, entity } = askedNamespace(config)
    output.list(page, columns, {
      isWide: flags.wide,
      nextCommand: nextPageCommand(`marks list ${quoteWord(args.model)}`, page, {
        '--project': project,
        '--entity': entity,
        '--mark': mark,
        '--job': jobId,
        '--limit': limit,
      }),
      empty: 'nothing is marked: trainyard marks add, or the page of a trajectory',
    })
  },
})

function placeOf({ source, training_job_id: job, log_id: log, group, trajectory }: Mark): string {
  if (source === 'chat') return 'chat'
  return `${source === 'log' ? 'log' : 'job'} ${(job ?? log ?? '').slice(-8)} ${group}/${trajectory}`
}

function textOf(message: Mark['answer'][number] | undefined): string {
  const content = message?.['content'] ?? message?.['tool_calls'] ?? ''
  return typeof content === 'string' ? content : JSON.stringify(content)
}
