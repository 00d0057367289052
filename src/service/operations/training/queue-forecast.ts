/**
 * Place and expected start of waiting jobs. Working them out takes at most a twentieth of the time, however many
 * clients poll: in between, the last answer is given again, and a job that was created since has none yet.
 */
import type { Clock } from '#base/util/clock.js'
import { type Forecast, planQueue } from '#service/queue/plan.js'
import type { Database } from '#service/storage/database.js'
import { readQueueState } from '#service/storage/jobs/queue-state.js'
import type { JobRecord } from '#service/storage/training-jobs.js'

export interface QueuePlace {
  readonly position: number
  /** Milliseconds since 1970 by the database's clock; null when nothing tells. */
  readonly expectedStartMs: number | null
}

export interface QueueForecast {
  /** Null for a job that does not wait. */
  placeOf(job: JobRecord): Promise<QueuePlace | null>
}

const SHARE = 20
const MAX_FRESH_MS = 5000

export function createQueueForecast(db: Database, workers: () => number, clock: Clock): QueueForecast {
  let plan: ReadonlyMap<string, Forecast> = new Map()
  let atMs = 0
  let freshUntilMs = Number.NEGATIVE_INFINITY
  let making: Promise<void> | null = null

  async function make(): Promise<void> {
    const startMs = clock.monotonicMs()
    const state = await readQueueState(db)
    plan = planQueue(state, workers())
    atMs = state.nowMs
    const endMs = clock.monotonicMs()
    freshUntilMs = endMs + Math.min(MAX_FRESH_MS, SHARE * (endMs - startMs))
  }

  return {
    placeOf: async (job) => {
      if (job.status !== 'queued') return null
      if (clock.monotonicMs() >= freshUntilMs) {
        making ??= make().finally(() => {
          making = null
        })
        await making
      }
      const forecast = plan.get(job.id)
      if (forecast === undefined) return null
      const { position, startsInMs } = forecast
      return { position, expectedStartMs: startsInMs === null ? null : Math.round(atMs + startsInMs) }
    },
  }
}
