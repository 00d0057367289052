/**
 * `trainyard jobs watch`: a job's rows and charts as they come, to its end.
 */
import { defineCommand } from '#cli/command/define-command.js'
import { argument } from '#cli/command/flags.js'
import { JOB_ARGUMENT, resolveJobId } from '#cli/names/job-reference.js'
import { watchJob } from '#cli/views/watch.js'

export const watchTrainingJob = defineCommand({
  path: ['jobs', 'watch'],
  summary: 'Watch a training job to its end',
  details:
    'On a terminal with progress, speed, time left and charts of reward, loss and KL; plain rows in a pipe. The exit code is the outcome of the job. Ctrl-C detaches, the job goes on.',
  examples: [
    ['trainyard jobs watch', 'the newest job'],
    ['trainyard jobs watch 4c1d009c --json', 'JSON Lines until the job ends'],
  ],
  args: { job: argument.optional(JOB_ARGUMENT) },
  flags: {},
  exits: ['not_found', 'job_failed'],
  next: ['trainyard jobs cancel <job>'],
  async run(context) {
    const client = await context.connect()
    await watchJob(context, client, await resolveJobId(context, client, context.args.job))
  },
})
