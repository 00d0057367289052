/**
 * `trainyard jobs wait`: returns when every job is finished; exit 7 if any failed, 8 when it took too long.
 */

import { AppError } from '#base/errors/errors.js'
import { defineCommand } from '#cli/command/define-command.js'
import { argument, flag } from '#cli/command/flags.js'
import { renderBar } from '#cli/live/bar.js'
import { JOB_ARGUMENT, resolveJobId } from '#cli/names/job-reference.js'
import { OutcomeError } from '#cli/terminal/errors.js'
import { formatClock, formatDuration } from '#cli/terminal/format.js'
import { startProgress } from '#cli/terminal/progress.js'
import { shortId } from '#cli/terminal/table.js'
import { describeOutcome, describeProgress, POLL_MS, requireCompleted } from '#cli/views/watch.js'
import type { TrainingJob } from '#contract/wire/training-jobs.js'
import { sleep } from '#sdk/client/http.js'

export const waitForJobs = defineCommand({
  path: ['jobs', 'wait'],
  summary: 'Wait until training jobs are finished',
  details: 'Prints every outcome and exits 7 if any job failed or was cancelled.',
  examples: [
    ['trainyard jobs wait', 'until the newest job is finished'],
    ['trainyard jobs wait 4c1d009c --wait-timeout 10m', 'at most ten minutes, then exit 8'],
  ],
  args: { job: argument.rest(JOB_ARGUMENT) },
  flags: { waitTimeout: flag.duration('--wait-timeout <duration>', 'give up after this long; the job goes on') },
  exits: ['not_found', 'job_failed', 'gave_up'],
  async run(context) {
    const { connect, io, output, clock, args, flags, signal } = context
    const client = await connect()
    const startMs = clock.monotonicMs()
    const limitMs = flags.waitTimeout ?? Number.POSITIVE_INFINITY
    const finished = new Map<string, TrainingJob>()
    const progress = startProgress(io, output.mode === 'human', 'Waiting')
    /** When the service last answered; null: not yet, and then that it does not is said at once. */
    let answeredMs: number | null = null
    /** @returns null while the service is away, as when it is started again */
    const look = async (jobId: string): Promise<TrainingJob | null> => {
      try {
        const job = await client.trainingJobs.get(jobId, { signal })
        answeredMs = clock.monotonicMs()
        return job
      } catch (error) {
        const nowMs = clock.monotonicMs()
        const isOver = answeredMs === null || nowMs - answeredMs > PATIENCE_MS || nowMs - startMs > limitMs
        if (isOver || !(error instanceof AppError) || error.category !== 'unavailable') throw error
        progress.update(`connection lost, trying again: ${error.message}`)
        return null
      }
    }
    try {
      for (const text of args.job.length === 0 ? ['latest'] : args.job) {
        const jobId = await resolveJobId(context, client, text)
        // the same job twice, or by two of its names
        while (!finished.has(jobId)) {
          const job = await look(jobId)
          if (job === null) {
            await sleep(POLL_MS, signal)
            continue
          }
          if (job.status !== 'queued' && job.status !== 'running') {
            finished.set(jobId, job)
            break
          }
          const state = `${job.status}${describeProgress(job) === null ? '' : ` (${describeProgress(job)})`}`
          const leftMs = limitMs - (clock.monotonicMs() - startMs)
          if (leftMs <= 0) {
            throw new OutcomeError(
              'gave_up',
              'wait_timeout',
              `gave up after ${formatDuration(limitMs)}; job ${job.id} is still ${state}`,
            )
          }
          progress.update(describeWait(job, clock.nowMs(), io.stderr.isUnicode))
          await sleep(Math.min(POLL_MS, leftMs), signal)
        }
      }
    } finally {
      progress.stop()
    }
    const columns = [
      { header: 'id', kind: 'shortId' as const, get: (job: TrainingJob) => job.id },
      { header: 'status', kind: 'status' as const, get: (job: TrainingJob) => job.status },
      { header: 'outcome', get: describeOutcome, canWrap: true },
    ]
    const jobs = [...finished.values()]
    output.rows(jobs, jobs, columns, (job) => job.id)
    for (const job of jobs) requireCompleted(job)
  },
})

/** How long the service may be away, milliseconds: as long as for those who watch. */
const PATIENCE_MS = 60_000

const BAR_WIDTH = 20

/** One line: which job, how far, and how long it will take. */
function describeWait(job: TrainingJob, nowMs: number, isUnicode: boolean): string {
  const name = `job ${shortId(job.id)}`
  if (job.status === 'queued') {
    return job.queue_position === null || job.queue_position === undefined
      ? `${name} is queued`
      : `${name} is queued, at place ${job.queue_position}`
  }
  const done = job.num_sequences === null ? 0 : job.num_gradient_steps / Math.max(1, job.num_sequences)
  const endMs = Date.parse(job.predicted_end ?? '')
  const left = endMs > nowMs ? `  ${formatClock(endMs - nowMs)} left` : ''
  return `${renderBar(done, BAR_WIDTH, isUnicode)}  ${describeProgress(job) ?? 'starting'}  ${name}${left}`
}
