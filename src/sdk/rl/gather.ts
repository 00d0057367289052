/**
 * Many rollouts at once: so many side by side, failed ones tried again, and what still fails kept as an exception of its
 * group. One broken rollout never ends the run.
 */

import { AppError } from '#base/errors/errors.js'
import type { JsonValue } from '#base/util/json.js'
import { SERVICE_DEFAULTS } from '#contract/settings/service.js'
import { sleep } from '#sdk/client/http.js'
import { mean, type RolloutException, type Trajectory, TrajectoryGroup } from './trajectory.js'

/** As many rollouts as a service on its defaults computes at once. */
export const DEFAULT_CONCURRENCY = SERVICE_DEFAULTS.maxConcurrentSequences

/** Plays one episode; `index` counts the rollouts of the group. Several trajectories may come of one. */
export type Rollout = (index: number) => Promise<Trajectory | readonly Trajectory[]>

/** A group to be gathered. */
export interface GroupPlan {
  readonly size: number
  readonly rollout: Rollout
  readonly metadata: Readonly<Record<string, JsonValue>>
}

export interface GatherProgress {
  /** Rollouts that have ended, failed ones included. */
  readonly done: number
  readonly total: number
  readonly failed: number
  /** Mean reward so far; null before the first trajectory. */
  readonly reward: number | null
}

export interface GatherOptions {
  /** Rollouts side by side. Default 64. */
  readonly concurrency?: number
  /** Attempts after the first one, for each rollout. Default 0. */
  readonly retries?: number
  /** Told after each rollout. */
  readonly onProgress?: (progress: GatherProgress) => void
  readonly signal?: AbortSignal
}

/**
 * The same rollout `size` times.
 *
 * @example group(8, () => rollout(mail))
 */
export function group(
  size: number,
  rollout: Rollout,
  options: { readonly metadata?: Readonly<Record<string, JsonValue>> } = {},
): GroupPlan {
  return { size, rollout, metadata: options.metadata ?? {} }
}

/**
 * Gathers all groups, in the order given.
 *
 * @throws only the signal's reason; a rollout's failure becomes an exception of its group
 */
export async function gather(plans: readonly GroupPlan[], options: GatherOptions = {}): Promise<TrajectoryGroup[]> {
  const { signal, onProgress } = options
  const gathered = plans.map(() => ({ trajectories: [] as Trajectory[][], exceptions: [] as RolloutException[] }))
  const waiting = plans.flatMap((plan, i) => Array.from({ length: plan.size }, (_, index) => ({ plan, i, index })))
  const total = waiting.length
  const rewards: number[] = []
  let [done, failed, next] = [0, 0, 0]

  async function work(): Promise<void> {
    for (let item = waiting[next]; item !== undefined; item = waiting[next]) {
      next += 1
      signal?.throwIfAborted()
      const result = await attempt(item.plan.rollout, item.index, options)
      const into = gathered[item.i]
      if (result instanceof RolloutFailure) {
        failed += 1
        into?.exceptions.push(result.exception)
      } else if (into !== undefined) {
        into.trajectories[item.index] = [...result]
        rewards.push(...result.map((trajectory) => trajectory.reward))
      }
      done += 1
      onProgress?.({ done, total, failed, reward: mean(rewards) })
    }
  }

  const workers = Math.max(1, Math.min(options.concurrency ?? DEFAULT_CONCURRENCY, total))
  await Promise.all(Array.from({ length: workers }, () => work()))
  return gathered.map(
    ({ trajectories, exceptions }, i) =>
      new TrajectoryGroup(trajectories.flat(), { exceptions, metadata: plans[i]?.metadata ?? {} }),
  )
}

class RolloutFailure {
  readonly exception: RolloutException

  constructor(error: unknown) {
    const isError = error instanceof Error
    const type = error instanceof AppError ? error.code : isError ? error.name : typeof error
    this.exception = {
      type,
      message: isError ? error.message : String(error),
      traceback: isError ? (error.stack ?? '') : '',
    }
  }
}

async function attempt(
  rollout: Rollout,
  index: number,
  { retries = 0, signal }: GatherOptions,
): Promise<readonly Trajectory[] | RolloutFailure> {
  for (let retry = 0; ; retry += 1) {
    try {
      const result = await rollout(index)
      return Array.isArray(result) ? result : [result as Trajectory]
    } catch (error) {
      if (signal?.aborted === true) throw signal.reason
      if (retry >= retries) return new RolloutFailure(error)
      // A server that is busy needs time; anything else is tried again at once.
      const isBusy = error instanceof AppError && ['rate_limited', 'unavailable'].includes(error.category)
      if (isBusy) await sleep(Math.min(8000, 500 * 2 ** retry), signal)
    }
  }
}
