/**
 * `trainyard jobs events`: what a job has reported, or is reporting.
 */

import { defineCommand } from '#cli/command/define-command.js'
import { argument, flag } from '#cli/command/flags.js'
import { nextPageCommand, pageFlags } from '#cli/command/page-flags.js'
import { JOB_ARGUMENT, resolveJobId } from '#cli/names/job-reference.js'
import type { Column } from '#cli/terminal/table.js'
import { describeEvent, watchJob } from '#cli/views/watch.js'
import type { TrainingEvent } from '#contract/wire/training-jobs.js'
import { collectPages } from '#sdk/client/pages.js'

const columns: readonly Column<TrainingEvent>[] = [
  { header: 'type', kind: 'status', get: (event) => event.type },
  { header: 'data', get: describeEvent, canShrink: true },
  { header: 'created', kind: 'time', get: (event) => event.created_at },
  { header: 'id', kind: 'id', get: (event) => event.id },
]

export const jobEvents = defineCommand({
  path: ['jobs', 'events'],
  summary: 'Show the events of a training job',
  details:
    'With --follow, every event to the end of the job; the exit code is its outcome. Ctrl-C detaches, the job goes on.',
  examples: [
    ['trainyard jobs events --follow', 'the newest job, to its end'],
    ['trainyard jobs events 4c1d009c --follow --json', 'JSON Lines until the job ends'],
  ],
  args: { job: argument.optional(JOB_ARGUMENT) },
  flags: { follow: flag.switch('--follow', 'go on until the job ends'), ...pageFlags },
  exits: ['not_found', 'job_failed'],
  async run(context) {
    const { connect, output, args, flags, signal } = context
    const client = await connect()
    const jobId = await resolveJobId(context, client, args.job)
    const { limit, after } = flags
    if (flags.follow) {
      await watchJob(context, client, jobId, { after })
      return
    }
    const page = flags.all
      ? await collectPages((query) => client.trainingJobs.events(jobId, query, { signal }), { after })
      : await client.trainingJobs.events(jobId, { limit, after }, { signal })
    output.list(page, columns, {
      isWide: flags.wide,
      nextCommand: nextPageCommand(`jobs events ${jobId}`, page, { '--limit': limit }),
      empty: 'no events yet',
    })
  },
})
