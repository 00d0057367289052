/**
 * `trainyard jobs cancel`: asks jobs to stop after the gradient step they are in.
 */

import { AppError, ConflictError } from '#base/errors/errors.js'
import type { CommandContext } from '#cli/command/context.js'
import { defineCommand } from '#cli/command/define-command.js'
import { argument, flag } from '#cli/command/flags.js'
import { JOB_ARGUMENT, resolveJobId } from '#cli/names/job-reference.js'
import { UsageError } from '#cli/terminal/errors.js'
import { plural } from '#cli/terminal/format.js'
import { shortId } from '#cli/terminal/table.js'
import { describeProgress } from '#cli/views/watch.js'
import type { TrainingJob } from '#contract/wire/training-jobs.js'
import type { Client } from '#sdk/client/client.js'

export const cancelJobs = defineCommand({
  path: ['jobs', 'cancel'],
  summary: 'Ask training jobs to stop',
  details: 'A running job stops after its current gradient step and leaves no checkpoint; the model stays at its step.',
  examples: [
    ['trainyard jobs cancel', 'the newest job; asks first, on a terminal'],
    ['trainyard jobs cancel 4c1d009c --yes', 'without asking'],
  ],
  args: { job: argument.rest(JOB_ARGUMENT) },
  flags: { yes: flag.switch('--yes', 'do not ask') },
  exits: ['not_found', 'conflict'],
  async run(context) {
    const { connect, output, prompts, args, flags, signal } = context
    const named = args.job.length === 0 ? ['latest'] : args.job
    if (!flags.yes && !prompts.canAsk) {
      throw new UsageError('input_required', '--yes is required to go on without a terminal', { param: '--yes' })
    }
    const client = await connect()
    if (!flags.yes) {
      const what = named.length === 1 ? await describe(context, client, named[0] ?? '') : plural(named.length, 'job')
      if (!(await prompts.confirm(`Cancel ${what}?`, '--yes')))
        throw new UsageError('not_confirmed', 'nothing cancelled')
    }
    const jobs: TrainingJob[] = []
    let worst: AppError | undefined
    for (const text of named) {
      try {
        const job = await client.trainingJobs.cancel(await resolveJobId(context, client, text), { signal })
        jobs.push(job)
        const effect = job.status === 'cancelled' ? 'Cancelled' : 'Cancelling'
        const after = job.status === 'cancelled' ? '' : ': it stops after the current gradient step'
        output.status(`${effect} job ${job.id}${after}`)
      } catch (error) {
        if (!(error instanceof AppError)) throw error
        if (worst !== undefined) output.warning(worst.message)
        worst = error
      }
    }
    if (output.mode !== 'human') {
      const json = named.length === 1 && jobs[0] !== undefined ? jobs[0] : jobs
      if (jobs.length > 0)
        output.result(
          json,
          '',
          jobs.map((job) => job.id),
        )
    }
    if (worst !== undefined) throw worst
  },
})

/** Which job it is that would stop. @throws {ConflictError} `job_already_finished` when there is nothing to ask about */
async function describe(context: CommandContext, client: Client, text: string): Promise<string> {
  const job = await client.trainingJobs.get(await resolveJobId(context, client, text), { signal: context.signal })
  if (job.status !== 'queued' && job.status !== 'running') {
    throw new ConflictError('job_already_finished', `job ${job.id} is already ${job.status}`, {
      hint: 'trainyard jobs list',
    })
  }
  const model = await client.models.get(job.model_id, { signal: context.signal }).then(
    ({ name }) => ` of ${name}`,
    () => '',
  )
  const progress = describeProgress(job)
  return `${job.kind} job ${shortId(job.id)}${model} (${job.status}${progress === null ? '' : `, ${progress}`})`
}
