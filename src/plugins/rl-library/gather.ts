/**
 * Runs many rollouts at once, with a limit on how many. Failed ones are tried again; what still fails is kept as an
 * exception of its group, so that one broken rollout never ends the run.
 */

import { AppError, InvalidRequestError } from '#base/errors/errors.js'
import type { JsonValue } from '#base/util/json.js'
import { append } from '#base/util/lists.js'
import { SERVICE_DEFAULTS } from '#contract/settings/service.js'
import type { RewardRange } from '#formats/rows/reward-range.js'
import { sleep } from '#sdk/client/http.js'
import { mean, type RolloutException, type Trajectory, TrajectoryGroup } from '#sdk/rl/trajectory.js'
import type { Curriculum } from './curriculum.js'

/** As many rollouts as a service on its defaults computes at once. */
export const DEFAULT_CONCURRENCY = SERVICE_DEFAULTS.maxConcurrentSequences

/** Plays one episode; `index` counts the rollouts of the group. Several trajectories may come of one. */
export type Rollout = (index: number) => Promise<Trajectory | readonly Trajectory[]>

/** A group to be gathered. */
export interface GroupPlan {
  readonly size: number
  readonly rollout: Rollout
  readonly metadata: Readonly<Record<string, JsonValue>>
  /** Names the prompt to a curriculum. */
  readonly key?: string
  /** What a reward can be at least and at most. */
  readonly rewardRange?: RewardRange | null
}

export interface GatherProgress {
  /** Rollouts that have ended, failed ones included. */
  readonly done: number
  readonly total: number
  readonly failed: number
  /** Mean reward so far; null before the first trajectory. */
  readonly reward: number | null
  /** With `untilTrainable`: groups so far whose rewards differ, and those thrown away because theirs do not. */
  readonly trainable?: number
  readonly thrownAway?: number
}

export interface GatherOptions {
  /** Rollouts side by side. Default 64. */
  readonly concurrency?: number
  /** Attempts after the first one, for each rollout. Default 0. */
  readonly retries?: number
  /** Told after each rollout. */
  readonly onProgress?: (progress: GatherProgress) => void
  readonly signal?: AbortSignal
  /**
   * Dynamic sampling (DAPO, arXiv:2503.14476): go on, over the plans again and again, until so many groups differ in reward, and throw
   * the others away. All that differ are returned, also more than asked for.
   */
  readonly untilTrainable?: number
  /** With `untilTrainable`: groups gathered at most. Default ten times as many as are wanted. */
  readonly maxAttempts?: number
  /** Remembers how often each prompt is right, and draws those that teach: see `openCurriculum`. Plans need a `key`. */
  readonly curriculum?: Curriculum
  /** With `curriculum`: plans drawn from all that are given. Default all, which are then only remembered. */
  readonly pick?: number
}

/** Groups gathered at most for each that is wanted. */
const ATTEMPTS_PER_GROUP = 10

/**
 * The same rollout `size` times.
 *
 * @example group(8, () => rollout(mail))
 */
export function group(
  size: number,
  rollout: Rollout,
  options: Partial<Pick<GroupPlan, 'metadata' | 'key' | 'rewardRange'>> = {},
): GroupPlan {
  const { metadata = {}, key, rewardRange = null } = options
  return { size, rollout, metadata, rewardRange, ...(key === undefined ? {} : { key }) }
}

/**
 * Gathers all groups, in the order given; with `untilTrainable` those whose rewards differ, in the order they were asked for. When none
 * differs after `maxAttempts`, the last ones as they are: what is trained on them says why nothing is. With a `curriculum` the prompts that
 * teach are asked more often, and what they earned is remembered, also of groups that are thrown away.
 *
 * @throws the signal's reason; a rollout's failure becomes an exception of its group. {InvalidRequestError} `curriculum_options` where plans
 *   have no key or options contradict each other
 * @example await gather(plans, { untilTrainable: 16, onProgress: ({ thrownAway }) => console.log(thrownAway) })
 * @example await gather(plans, { curriculum: await openCurriculum({ file: 'orders.curriculum.json' }), pick: 16 })
 */
export async function gather(plans: readonly GroupPlan[], options: GatherOptions = {}): Promise<TrajectoryGroup[]> {
  const tally: Tally = { done: 0, total: 0, failed: 0, rewards: [] }
  const { untilTrainable: wanted, maxAttempts = ATTEMPTS_PER_GROUP * (wanted ?? 0), onProgress } = options
  const { curriculum = null, pick = plans.length } = options
  const next = createOrder(plans, curriculum, options)
  if (wanted === undefined || plans.length === 0) {
    const wave = next(pick)
    const groups = await gatherAll(wave, { ...options, tally, report: () => onProgress?.(progressOf(tally)) })
    await remember(curriculum, wave, groups)
    return groups
  }
  const kept: TrajectoryGroup[] = []
  let last: TrajectoryGroup[] = []
  let attempts = 0
  const report = (): void =>
    onProgress?.({ ...progressOf(tally), trainable: kept.length, thrownAway: attempts - kept.length })
  while (kept.length < wanted && attempts < maxAttempts) {
    // as many as are missing at the rate so far, so that there are always many side by side, and few too many
    const rate = attempts === 0 ? 1 : Math.max(kept.length / attempts, 1 / ATTEMPTS_PER_GROUP)
    const count = Math.min(maxAttempts - attempts, Math.ceil((wanted - kept.length) / rate))
    const wave = next(count)
    last = await gatherAll(wave, { ...options, tally, report: () => onProgress?.(progressOf(tally)) })
    await remember(curriculum, wave, last)
    attempts += count
    append(
      kept,
      last.filter(({ isTrainable }) => isTrainable),
    )
    report()
  }
  return kept.length > 0 ? kept : last
}

/** A plan that is asked, and the index of its first rollout: one that seeds by its index answers anew when its plan comes round again. */
interface Asked {
  readonly plan: GroupPlan
  readonly first: number
}

/** Which plans come next: in turn, or drawn by a curriculum. */
function createOrder(
  plans: readonly GroupPlan[],
  curriculum: Curriculum | null,
  { pick, untilTrainable }: GatherOptions,
): (count: number) => readonly Asked[] {
  const refuse = (message: string, hint: string): never => {
    throw new InvalidRequestError('curriculum_options', message, { hint })
  }
  if (pick !== undefined && curriculum === null)
    refuse('pick draws from a curriculum, and none is given', 'add curriculum')
  if (pick !== undefined && !(Number.isSafeInteger(pick) && pick >= 1)) {
    refuse(
      `pick must be a whole number from 1 up, given ${pick}`,
      'leave it out to ask as many groups as there are plans',
    )
  }
  if (pick !== undefined && untilTrainable !== undefined) {
    refuse('pick and untilTrainable both say how many groups are asked for', 'leave one of them out')
  }
  const keys = plans.map(({ key }, i) =>
    curriculum === null
      ? ''
      : (key ?? refuse(`plan ${i} has no key to remember it by`, 'group(size, rollout, { key })')),
  )
  const asked = plans.map(() => 0)
  let turn = 0
  const places = (count: number): readonly number[] => {
    if (curriculum === null) return Array.from({ length: count }, () => turn++ % plans.length)
    const drawn: number[] = []
    // more than there are plans: another draw
    while (drawn.length < count) append(drawn, curriculum.draw(keys, Math.min(count - drawn.length, plans.length)))
    return drawn
  }
  return (count) =>
    places(plans.length === 0 ? 0 : count).map((at) => {
      const [plan, times] = [plans[at] as GroupPlan, asked[at] as number]
      asked[at] = times + 1
      return { plan, first: times * plan.size }
    })
}

async function remember(
  curriculum: Curriculum | null,
  wave: readonly Asked[],
  groups: readonly TrajectoryGroup[],
): Promise<void> {
  if (curriculum === null) return
  groups.forEach(({ rewards }, i) => {
    curriculum.record(wave[i]?.plan.key ?? '', rewards)
  })
  await curriculum.save()
}

/** Counted over all waves. */
interface Tally {
  done: number
  total: number
  failed: number
  readonly rewards: number[]
}

function progressOf({ done, total, failed, rewards }: Tally): GatherProgress {
  return { done, total, failed, reward: mean(rewards) }
}

async function gatherAll(
  wave: readonly Asked[],
  options: GatherOptions & { readonly tally: Tally; readonly report: () => void },
): Promise<TrajectoryGroup[]> {
  const { signal, tally, report } = options
  const gathered = wave.map(() => ({ trajectories: [] as Trajectory[][], exceptions: [] as RolloutException[] }))
  const waiting = wave.flatMap(({ plan, first }, i) =>
    Array.from({ length: plan.size }, (_, index) => ({ plan, i, index, first })),
  )
  tally.total += waiting.length
  let next = 0

  async function work(): Promise<void> {
    for (let item = waiting[next]; item !== undefined; item = waiting[next]) {
      next += 1
      signal?.throwIfAborted()
      const result = await attempt(item.plan.rollout, item.first + item.index, options)
      const into = gathered[item.i]
      if (result instanceof RolloutFailure) {
        tally.failed += 1
        into?.exceptions.push(result.exception)
      } else if (into !== undefined) {
        into.trajectories[item.index] = [...result]
        append(
          tally.rewards,
          result.map((trajectory) => trajectory.reward),
        )
      }
      tally.done += 1
      report()
    }
  }

  const workers = Math.max(1, Math.min(options.concurrency ?? DEFAULT_CONCURRENCY, waiting.length))
  await Promise.all(Array.from({ length: workers }, () => work()))
  return gathered.map(
    ({ trajectories, exceptions }, i) =>
      new TrajectoryGroup(trajectories.flat(), {
        exceptions,
        metadata: wave[i]?.plan.metadata ?? {},
        rewardRange: wave[i]?.plan.rewardRange ?? null,
      }),
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
