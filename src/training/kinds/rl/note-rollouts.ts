/**
 * Describes the groups of an RL job for its list of rollouts: rewards, the advantage that each trajectory trains with,
 * and why others are left out.
 */

import {
  MOST_ENVIRONMENT_LETTERS,
  MOST_TYPE_LETTERS,
  MOST_TYPES,
  type RolloutTrajectory,
} from '#contract/processes/rollouts.js'
import type { LeftOutReason } from '#contract/wire/training/rollout-words.js'
import type { Trajectory, TrajectoryGroup } from '#formats/rows/trajectory.js'
import { type GroupLeftOut, whichTrain } from '#formats/rows/which-train.js'
import type { NotedJob } from '#training/rollouts/rollout-notes.js'
import type { TrainingSequence } from '#training/rows/tokenize.js'
import type { SkipReason } from '#training/rows/turns.js'
import { rewardsOf } from './reward-shaping.js'
import type { RlHyperparameters } from './rl-hyperparameters.js'

/** Characters of a prompt that a list shows. */
const PREVIEW_CHARACTERS = 200

/** Says of every trajectory that is left out why; the first reason counts, but for the one that follows from others. */
export interface LeftOutBook {
  readonly note: (reason: SkipReason, group: number, trajectory: number) => void
  readonly reasonOf: (group: number, trajectory: number) => SkipReason | undefined
}

export function createLeftOutBook(): LeftOutBook {
  const reasons = new Map<string, SkipReason>()
  return {
    note: (reason, group, trajectory) => {
      const key = `${group}:${trajectory}`
      const before = reasons.get(key)
      if (before === undefined || before === 'no_trainable_turn') reasons.set(key, reason)
    },
    reasonOf: (group, trajectory) => reasons.get(`${group}:${trajectory}`),
  }
}

/**
 * @param job.groups as they were sent
 * @param job.shaped the same with the rewards that advantages are taken of
 * @param job.sequences all that train, with final advantages and weights
 */
export function toNotedJob(job: {
  readonly groups: readonly TrajectoryGroup[]
  readonly shaped: readonly TrajectoryGroup[]
  readonly sequences: readonly TrainingSequence[]
  readonly leftOut: LeftOutBook
  readonly hyperparameters: RlHyperparameters
  readonly parentStep: number
  readonly stepSequences: readonly number[]
  readonly stepsBefore: number
}): NotedJob {
  const { hyperparameters, leftOut } = job
  const { epsilon, epsilonHigh } = hyperparameters.policyLoss
  const trained = new Map<string, { tokens: number; readonly advantage: number; readonly weight: number }>()
  for (const { groupIndex, trajectoryIndex, trainableTokenCount, advantage, weight } of job.sequences) {
    const key = `${groupIndex}:${trajectoryIndex}`
    const before = trained.get(key)
    if (before === undefined) trained.set(key, { tokens: trainableTokenCount, advantage, weight })
    else before.tokens += trainableTokenCount
  }
  const reasons = whichTrain(rewardsOf(job.shaped), hyperparameters.advantageEstimator)
  return {
    clip: { low: finiteOrNull(1 - epsilon), high: finiteOrNull(1 + epsilonHigh) },
    parentStep: job.parentStep,
    stepSequences: job.stepSequences,
    stepsBefore: job.stepsBefore,
    groups: job.groups.map((group, g) => {
      const shaped = job.shaped[g]?.trajectories.map(({ reward }) => reward) ?? []
      const whyGroup = reasons[g] ?? null
      const environment = group.metadata['environment']
      return {
        preview: previewOf(group.trajectories[0]),
        exceptions: group.exceptions.length,
        ...(group.exceptions.length === 0 ? {} : { failures: countTypes(group) }),
        ...(typeof environment === 'string' ? { environment: environment.slice(0, MOST_ENVIRONMENT_LETTERS) } : {}),
        trajectories: group.trajectories.map((trajectory, t): RolloutTrajectory => {
          const found = trained.get(`${g}:${t}`)
          const reward = shaped[t] ?? trajectory.reward
          const skip = leftOut.reasonOf(g, t) ?? 'no_trainable_turn'
          const reason: LeftOutReason = skip === 'zero_advantage' ? zeroAdvantageReason(whyGroup) : skip
          return {
            reward: trajectory.reward,
            ...(reward === trajectory.reward ? {} : { shaped: reward }),
            ...(found === undefined ? { left_out: reason } : { advantage: found.advantage, weight: found.weight }),
            tokens: found?.tokens ?? 0,
            ...(isCut(trajectory) ? { is_cut: true } : {}),
          }
        }),
      }
    }),
  }
}

/** Failed rollouts of a group by the type of what was thrown. */
function countTypes({ exceptions }: TrajectoryGroup): Readonly<Record<string, number>> {
  const counts = new Map<string, number>()
  for (const { type } of exceptions) {
    const own = type.slice(0, MOST_TYPE_LETTERS)
    const name = counts.has(own) || counts.size < MOST_TYPES ? own : ([...counts.keys()].at(-1) ?? own)
    counts.set(name, (counts.get(name) ?? 0) + 1)
  }
  return Object.fromEntries(counts)
}

function finiteOrNull(value: number): number | null {
  return Number.isFinite(value) ? value : null
}

function isCut({ histories }: Trajectory): boolean {
  return histories.some(({ items }) => items.some((item) => item.kind === 'choice' && item.finishReason === 'length'))
}

/** What the first answer of a trajectory answers. */
function previewOf(trajectory: Trajectory | undefined): string {
  const items = trajectory?.histories[0]?.items ?? []
  const first = items.findIndex(({ kind, message }) => kind === 'choice' || message['role'] === 'assistant')
  const before = first === -1 ? items : items.slice(0, first)
  const asked = before.findLast(({ message }) => message['role'] === 'user') ?? before.at(-1)
  const content = asked?.message['content'] ?? ''
  const text = typeof content === 'string' ? content : JSON.stringify(content)
  return [...text.slice(0, 2 * PREVIEW_CHARACTERS)].slice(0, PREVIEW_CHARACTERS).join('')
}

/** The word for a trajectory without an advantage: its group's, or its own, where others of the group train. */
const zeroAdvantageReason = (ofGroup: GroupLeftOut | null): LeftOutReason =>
  ofGroup === null || ofGroup === 'empty' ? 'reward_is_mean' : ofGroup
