/**
 * Tells the activity feed what happens to jobs. A signal says only that something about a job has changed, so its row
 * is read and compared with what was told before. Looks at most four times a second, which is enough to draw progress.
 */
import type { Logger } from '#base/logging/logger.js'
import type { JsonObject } from '#base/util/json.js'
import type { ActivityType } from '#contract/wire/activity.js'
import type { DatabaseHandle } from '#service/storage/database.js'
import { listEvents } from '#service/storage/events.js'
import { findJob, type JobRecord } from '#service/storage/training-jobs.js'
import type { ActivityFeed } from './feed.js'

export interface JobActivity {
  /** Something about the job has changed. */
  note(jobId: string): void
  /** Ends after the look that runs. */
  stop(): Promise<void>
}

export interface JobActivityOptions {
  readonly db: DatabaseHandle
  readonly feed: Pick<ActivityFeed, 'publish'>
  readonly logger: Logger
  /** Least time between two looks, milliseconds. */
  readonly pauseMs?: number
}

/** What was told of a job that has not ended. */
type Told = Pick<JobRecord, 'status' | 'attempt' | 'gradientSteps'>

const PAUSE_MS = 250
/** Ended jobs that are remembered: their workers' ends come behind their own. */
const MOST_ENDED = 1000

export function createJobActivity({ db, feed, logger, pauseMs = PAUSE_MS }: JobActivityOptions): JobActivity {
  const changed = new Set<string>()
  const told = new Map<string, Told>()
  const ended = new Set<string>()
  let timer: NodeJS.Timeout | null = null
  let running: Promise<void> | null = null
  let isStopped = false

  function tell(type: ActivityType, job: JobRecord, data: JsonObject): void {
    const { entity, project, modelId } = job
    feed.publish({ type, owner: { entity, project }, modelId, data })
  }

  async function newestMetrics(jobId: string): Promise<JsonObject> {
    const { items } = await listEvents(db, jobId, { limit: 2, order: 'desc' })
    return items.find(({ type }) => type === 'gradient_step')?.data ?? {}
  }

  async function look(jobId: string): Promise<void> {
    const job = ended.has(jobId) ? null : await findJob(db, jobId)
    if (job === null) return
    const before = told.get(jobId)
    const facts = factsOf(job)
    if (job.status === 'queued') {
      if (before?.status !== 'queued') tell('job.queued', job, facts)
    } else {
      const isNew = before === undefined || before.status === 'queued' || before.attempt !== job.attempt
      if (isNew && job.startedAtMs !== null) tell('job.started', job, { ...facts, status: 'running' })
      if (job.gradientSteps > (before?.gradientSteps ?? 0)) {
        tell('job.gradient_step', job, { ...facts, status: 'running', metrics: await newestMetrics(job.id) })
      }
    }
    if (job.endedAtMs === null) {
      told.set(jobId, job)
      return
    }
    told.delete(jobId)
    ended.add(jobId)
    const [first] = ended
    if (ended.size > MOST_ENDED && first !== undefined) ended.delete(first)
    // before the end: who reads the model then finds it
    if (job.step !== null) tell('checkpoint.created', job, { job_id: job.id, step: job.step })
    tell('job.ended', job, facts)
  }

  async function lookAll(): Promise<void> {
    for (const jobId of [...changed]) {
      changed.delete(jobId)
      try {
        await look(jobId)
      } catch (error) {
        logger.error({ err: error, job_id: jobId }, 'activity.not_read')
      }
    }
  }

  function begin(): void {
    timer = null
    if (changed.size === 0 || isStopped) return
    running = lookAll().finally(() => {
      running = null
      if (!isStopped) timer = setTimeout(begin, pauseMs).unref()
    })
  }

  return {
    note: (jobId) => {
      if (isStopped) return
      changed.add(jobId)
      // the first one after a while is told at once
      if (timer === null && running === null) begin()
    },
    stop: async () => {
      isStopped = true
      if (timer !== null) clearTimeout(timer)
      await running
    },
  }
}

function factsOf(job: JobRecord): JsonObject {
  return {
    job_id: job.id,
    kind: job.kind,
    status: job.status,
    attempt: job.attempt,
    gradient_steps: job.gradientSteps,
    num_sequences: job.numSequences,
    step: job.step,
    error_code: job.errorCode,
  }
}
