/**
 * `trainyard marks add`: what you think of an answer, of a job, a log, or one that you give.
 */

import { NotFoundError } from '#base/errors/errors.js'
import { defineCommand } from '#cli/command/define-command.js'
import { argument, flag } from '#cli/command/flags.js'
import { resolveJobId } from '#cli/names/job-reference.js'
import { findModel, parseWholeModel } from '#cli/names/model-reference.js'
import { UsageError } from '#cli/terminal/errors.js'
import { command } from '#contract/wire/command-words.js'
import { MARKS, type MarkWord } from '#contract/wire/training/mark-words.js'

interface Given {
  readonly job: string | undefined
  readonly log: string | undefined
  readonly group: number | undefined
  readonly trajectory: number | undefined
  readonly pairWith: number | undefined
  readonly prompt: string | undefined
  readonly answer: string | undefined
  readonly other: string | undefined
}

/** Where the answer is: one way to say it, whole. */
type Place =
  | { readonly kind: 'job' | 'log'; readonly id: string; readonly group: number; readonly trajectory: number }
  | { readonly kind: 'given'; readonly prompt: string; readonly answer: string }

export const addMark = defineCommand({
  path: ['marks', 'add'],
  summary: 'Mark an answer as good or bad',
  details:
    'Of a trajectory that a job trained on (--job) or that was logged (--log), by its group and index, or of an answer that is given (--prompt, --answer). A trajectory has one mark, a new one replaces it. --edited says what a bad answer should have been; --pair-with and --other name an answer that is worse than a good one, or better than a bad one.',
  examples: [
    ['trainyard marks add email-agent good --job latest --group 0 --trajectory 3', 'a trajectory of the newest job'],
    [
      'trainyard marks add email-agent bad --job latest --group 0 --trajectory 5 --edited "What happened?"',
      'and what it should have said',
    ],
    [
      'trainyard marks add email-agent good --prompt "I am sad." --answer "What happened?" --other "Oh no."',
      'an answer from elsewhere, preferred to another',
    ],
  ],
  namespace: ['project', 'entity'],
  args: {
    model: argument.required('id, name, project/name or entity/project/name', { asks: 'model' }),
    mark: argument.required(MARKS.join(' or ')),
  },
  flags: {
    job: flag.text('--job <job>', 'of a trajectory this job trained on: its id, last eight digits, or latest'),
    log: flag.text('--log <id>', 'of a trajectory of this log: trainyard models evaluations lists them'),
    group: flag.integer(0)('--group <n>', 'index of its group, from 0'),
    trajectory: flag.integer(0)('--trajectory <n>', 'its index in the group, from 0'),
    pairWith: flag.integer(0)('--pair-with <n>', 'index of another trajectory of the group to compare with'),
    prompt: flag.text('--prompt <text>', 'what was asked'),
    answer: flag.text('--answer <text>', 'what was answered'),
    other: flag.text('--other <text>', 'another answer to the same to compare with'),
    edited: flag.text('--edited <text>', 'what a bad answer should have been'),
    note: flag.text('--note <text>', 'a note for whoever reads it'),
  },
  exits: ['not_found', 'conflict'],
  next: ['trainyard marks export <model> --form sft --out rows.jsonl'],
  prepare: ({ flags }) => placeOf(flags),
  async run(context) {
    const { connect, output, args, flags, signal, prepared: place } = context
    const mark = parseMark(args.mark)
    const client = await connect()
    const model = await findModel(parseWholeModel(args.model), { ...context, client })
    const said = { mark, edited: flags.edited, note: flags.note }
    const done = await put()
    output.result(done, `Marked ${mark}${flags.edited === undefined ? '' : ', with what it should have said'}`, [
      done.id,
    ])

    async function put() {
      if (place.kind === 'given') {
        const messages = [{ role: 'user', content: place.prompt }]
        const answer = { role: 'assistant', content: place.answer }
        const other = flags.other === undefined ? undefined : { role: 'assistant', content: flags.other }
        return client.marks.create(model.id, { ...said, messages, answer, other }, { signal })
      }
      const at = { group: place.group, trajectory: place.trajectory }
      const json = { ...said, pair_with: flags.pairWith }
      if (place.kind === 'log') {
        return client.marks.putLogged({ modelId: model.id, logId: place.id, ...at }, json, { signal })
      }
      const jobId = await resolveJobId(context, client, place.id)
      const { model_id: trained } = await client.trainingJobs.get(jobId, { signal })
      if (trained !== model.id) {
        throw new NotFoundError('training_job_not_found', `job ${jobId} trained another model than ${args.model}`, {
          hint: command`trainyard jobs list --model ${args.model}`,
        })
      }
      return client.marks.put({ jobId, ...at }, json, { signal })
    }
  },
})

/** @throws {UsageError} */
function parseMark(text: string): MarkWord {
  const mark = MARKS.find((word) => word === text)
  if (mark !== undefined) return mark
  throw new UsageError('invalid_value', `<mark> must be ${MARKS.join(' or ')}, got "${text}"`, { param: 'mark' })
}

/** @throws {UsageError} */
function placeOf(flags: Given): Place {
  const { job, log, group, trajectory, prompt, answer } = flags
  const isText = prompt !== undefined || answer !== undefined
  if ([job !== undefined, log !== undefined, isText].filter(Boolean).length !== 1) {
    throw new UsageError('missing_option', 'say which answer: one of --job, --log, or --prompt with --answer')
  }
  if (isText) {
    if (prompt === undefined || answer === undefined)
      throw new UsageError('missing_option', '--prompt and --answer go together: give both of them')
    const stray = (['group', 'trajectory', 'pairWith'] as const).find((name) => flags[name] !== undefined)
    if (stray !== undefined)
      throw new UsageError('conflicting_options', '--group, --trajectory and --pair-with belong to --job or --log', {
        hint: '--other gives another answer to the same prompt',
      })
    return { kind: 'given', prompt, answer }
  }
  if (group === undefined || trajectory === undefined) {
    throw new UsageError('missing_option', '--group and --trajectory say which one: give both of them', {
      hint: 'trainyard jobs groups lists the groups of a job',
    })
  }
  if (flags.other !== undefined) {
    throw new UsageError('conflicting_options', '--other belongs to --prompt and --answer', {
      hint: '--pair-with names another trajectory of the group',
    })
  }
  return { kind: job === undefined ? 'log' : 'job', id: job ?? log ?? '', group, trajectory }
}
