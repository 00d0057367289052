/**
 * `trainyard jobs data`: the rows a job trained on, as they were sent; or forget them.
 */

import { defineCommand } from '#cli/command/define-command.js'
import { argument, flag } from '#cli/command/flags.js'
import { JOB_ARGUMENT, resolveJobId } from '#cli/names/job-reference.js'
import { UsageError } from '#cli/terminal/errors.js'
import { escapeJson } from '#cli/terminal/sanitize.js'

export const jobData = defineCommand({
  path: ['jobs', 'data'],
  summary: 'Print the rows a job trained on',
  details:
    'JSON Lines as they were sent: a trajectory group, or a row, a line. They are kept for a time after the end of the job (serve --keep-training-data), with what the trainer noted of every token, which --forget deletes too.',
  examples: [
    ['trainyard jobs data > groups.jsonl', 'of the newest job, for training again or elsewhere'],
    ['trainyard jobs data 4c1d009c --forget --yes', 'delete them now, without asking'],
  ],
  args: { job: argument.optional(JOB_ARGUMENT) },
  flags: {
    forget: flag.switch('--forget', 'delete what is kept of the job instead'),
    yes: flag.switch('--yes', 'do not ask, with --forget'),
  },
  exits: ['not_found'],
  next: ['trainyard jobs groups <job>'],
  prepare({ flags, prompts }) {
    if (!flags.forget || flags.yes || prompts.canAsk) return
    throw new UsageError('input_required', '--yes is required to delete without a terminal', { param: '--yes' })
  },
  async run(context) {
    const { connect, output, prompts, args, flags, signal } = context
    const client = await connect()
    const jobId = await resolveJobId(context, client, args.job)
    if (flags.forget) {
      if (!flags.yes && !(await prompts.confirm(`Delete what job ${jobId} trained on?`, '--yes'))) {
        throw new UsageError('not_confirmed', 'nothing deleted')
      }
      const reply = await client.rollouts.deleteData(jobId, { signal })
      return output.result(reply, `Deleted what job ${jobId} trained on`, [jobId])
    }
    for await (const row of client.rollouts.rows(jobId, { signal })) output.raw(`${escapeJson(row)}\n`)
  },
})
