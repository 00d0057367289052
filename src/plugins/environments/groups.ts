/**
 * What came of episodes: their means, their failures by kind, and when they are too many.
 */
import { AppError } from '#base/errors/errors.js'
import { nameMeasurement } from '#plugins/rl-library/measurement.js'
import { type AskOptions, mean, type TrajectoryGroup } from '#sdk/rl/trajectory.js'
import { FAILURE_KINDS, isFailureKind } from './failures.js'
import type { EnvironmentDescription, EnvironmentTask } from './source.js'

/** Share of rollouts that may fail. */
const MOST_FAILED = 0.5

interface GroupFacts {
  readonly reward: number
  readonly cutShare: number
  /** Means of the episodes' numbers, and failures by kind. */
  readonly metrics: Readonly<Record<string, number>>
}

export function summarizeGroups(groups: readonly TrajectoryGroup[]): GroupFacts {
  const trajectories = groups.flatMap((each) => each.trajectories)
  const names = new Set(trajectories.flatMap(({ metrics }) => Object.keys(metrics)))
  const failures = countFailures(groups)
  const cut = trajectories.filter(
    ({ metrics, choices }) => metrics['is_cut_off'] === true || choices.at(-1)?.finish_reason === 'length',
  )
  return {
    reward: mean(trajectories.map((each) => each.reward)) ?? 0,
    cutShare: trajectories.length === 0 ? 0 : cut.length / trajectories.length,
    metrics: {
      episodes: trajectories.length,
      ...Object.fromEntries(
        [...names].flatMap((name) => {
          const value = mean(
            trajectories.flatMap(({ metrics }) => (metrics[name] === undefined ? [] : [Number(metrics[name])])),
          )
          return value === null ? [] : [[name, value] as const]
        }),
      ),
      ...Object.fromEntries([...failures].map(([kind, count]) => [`env/failed_${kind}`, count])),
    },
  }
}

/** Failed rollouts by kind; what is no kind of ours is an error of the environment. */
function countFailures(groups: readonly TrajectoryGroup[]): ReadonlyMap<string, number> {
  const counts = new Map<string, number>()
  for (const { type } of groups.flatMap((each) => each.exceptions)) {
    const kind = isFailureKind(type) ? type : 'env_error'
    counts.set(kind, (counts.get(kind) ?? 0) + 1)
  }
  return new Map(FAILURE_KINDS.flatMap((kind) => (counts.has(kind) ? [[kind, counts.get(kind) ?? 0] as const] : [])))
}

/** @throws {AppError} `environment_failing` where half of the rollouts failed, or more */
export function assertMostSucceeded(groups: readonly TrajectoryGroup[]): void {
  const exceptions = groups.flatMap((each) => each.exceptions)
  const total = exceptions.length + groups.reduce((sum, each) => sum + each.trajectories.length, 0)
  const [first] = exceptions
  if (first === undefined || exceptions.length < total * MOST_FAILED) return
  const kinds = [...countFailures(groups)].map(([kind, count]) => `${count} ${kind}`).join(', ')
  throw new AppError(
    'internal',
    'environment_failing',
    `${exceptions.length} of ${total} rollouts failed (${kinds}), the first: ${first.message}`,
    {
      hint: 'trainyard env check says what the environment does; a run goes on from its folder when it is mended',
    },
  )
}

/** Names what is measured: the tasks, the environment that asks and the reward that judges, and how answers are drawn. */
export function measurementOf(
  tasks: readonly EnvironmentTask[],
  of: { readonly description: EnvironmentDescription; readonly judgedBy: string; readonly sampling: AskOptions },
): string {
  const { description, judgedBy, sampling } = of
  return nameMeasurement(
    tasks.map(({ key }) => [{ role: 'user', content: key }]),
    [description.digest, judgedBy, sampling.temperature ?? 1, sampling.maxTokens ?? null],
  )
}
