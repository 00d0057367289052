/**
 * `trainyard jobs stop`: ends a running job after the gradient step it is in, and keeps what it has learned.
 */
import { defineCommand } from '#cli/command/define-command.js'
import { argument } from '#cli/command/flags.js'
import { JOB_ARGUMENT, resolveJobId } from '#cli/names/job-reference.js'

export const stopJob = defineCommand({
  path: ['jobs', 'stop'],
  summary: 'End a running job and keep what it has learned',
  details: 'It makes a checkpoint after its current gradient step, as at its end. jobs cancel keeps nothing.',
  examples: [
    ['trainyard jobs stop', 'the newest job'],
    ['trainyard jobs stop 4c1d009c', 'this one'],
  ],
  args: { job: argument.optional(JOB_ARGUMENT) },
  flags: {},
  exits: ['not_found', 'conflict'],
  next: ['trainyard jobs wait <job>'],
  async run(context) {
    const { connect, output, args, signal } = context
    const client = await connect()
    const id = await resolveJobId(context, client, args.job ?? 'latest')
    const job = await client.trainingJobs.stop(id, { signal })
    output.status(`Stopping job ${job.id}: it makes its checkpoint after the current gradient step`)
    if (output.mode !== 'human') output.result(job, '', [job.id])
  },
})
