/**
 * What an RL job does, settled before its first step: its steps and rows, its first event, what it leaves out.
 *
 * The job starts with this, and a plan is made of it.
 */

import { standardDeviation } from '#formats/rows/metrics.js'
import { createDataNotes, type DataNotes } from '#formats/rows/notes/data-notes.js'
import type { TrajectoryGroup } from '#formats/rows/trajectory.js'
import { countTraining, whichTrain } from '#formats/rows/which-train.js'
import type { RolloutNotes } from '#training/rollouts/rollout-notes.js'
import type { PackedRow } from '#training/rows/pack.js'
import type { TrainingSequence } from '#training/rows/tokenize.js'
import { buildTrainingBatch, type PackedStep, packedRowCost } from '#training/rows/training-batch.js'
import { advantagesOfGroups } from '#training/rows/turn-rewards.js'
import { type SkipReason, skipMetrics, type TrajectoryText } from '#training/rows/turns.js'
import { rateNotes } from '#training/trainer/epochs/schedule.js'
import type { JobContext, TrainingEvent } from '#training/trainer/job.js'
import { type BatchSize, largestBatch } from '#training/trainer/memory.js'
import {
  describeMask,
  type JobPlan,
  type PlannedGroup,
  SHOWN_GROUPS,
  SHOWN_SEQUENCES,
  sampleRows,
} from '#training/trainer/plan/job-plan.js'
import { leftOut } from '#training/trainer/report.js'
import type { ReferencePolicy } from '#training/trainer/scores.js'
import type { RewardShaper } from '../start.js'
import { noteAnswers } from './answer-notes.js'
import { createLeftOutBook, toNotedJob } from './note-rollouts.js'
import { passOrder } from './passes.js'
import { rewardsOf, shapeRewards } from './reward-shaping.js'
import { type RlHyperparameters, readsReference } from './rl-hyperparameters.js'
import { isScoredBetweenSteps, rowBatches, sizeOf } from './rl-rows.js'

/** What an RL job trains on, besides its context. */
export interface RlJob {
  readonly groups: readonly TrajectoryGroup[]
  readonly hyperparameters: RlHyperparameters
  /** What plugins do with rewards; default nothing. */
  readonly shapers?: readonly RewardShaper[] | undefined
  readonly text: TrajectoryText
  /** What was worth saying about the groups when they were read; more is added when they are tokenized. */
  readonly notes?: DataNotes | undefined
  /** Token id of padding. */
  readonly padTokenId: number
  /** Step of the model when the job starts: staleness of the data is measured from it; not reported when absent. */
  readonly currentStep?: number
  /** Most tokens of a computed row; default what costs least. Changes speed and memory, nothing that is learnt. */
  readonly rowLength?: number
  /** What a KL penalty is measured to; default the base model. */
  readonly reference?: ReferencePolicy
  /** Takes what is computed of every token; default nobody. */
  readonly rollouts?: RolloutNotes | null | undefined
}

export interface RlOutline {
  /** Of one pass. */
  readonly steps: readonly PackedStep[]
  /** Which of them the job makes, over all passes. */
  readonly order: readonly number[]
  readonly started: TrainingEvent
  /** With the rewards that advantages are taken of. */
  readonly groups: readonly TrajectoryGroup[]
  /** Groups with a trajectory that trains. */
  readonly groupsTrainable: number
  /** Rows say of some tokens which others could have been drawn. */
  readonly hasKeptSets: boolean
  /** The first sequences, for whoever wants to see them. */
  readonly firstSequences: readonly TrainingSequence[]
  readonly sequenceCount: number
}

/**
 * Tokenizes and packs the groups; notes in the report of the job's progress what is known by then.
 *
 * @throws {DataError} for trajectories that cannot be tokenized
 */
export function outlineRl(job: RlJob, context: JobContext): RlOutline {
  const { groups, hyperparameters, notes = createDataNotes() } = job
  const seed = hyperparameters.seed ?? context.jobId
  const startedMs = context.clock.monotonicMs()
  const shaped = shapeRewards(groups, hyperparameters, job.shapers)
  const { advantageEstimator } = hyperparameters
  const groupsTrainable = countTraining(rewardsOf(shaped.groups), advantageEstimator)
  const leftOutBook = createLeftOutBook()
  const { steps, skips, trainableTokenCount, sequences, ...counts } = buildTrainingBatch(shaped.groups, {
    ...hyperparameters,
    text: job.text,
    notes,
    contextLength: context.prepared.config.contextLength,
    padTokenId: job.padTokenId,
    currentStep: job.currentStep,
    rowLength: job.rowLength,
    onLeftOut: job.rollouts == null ? undefined : leftOutBook.note,
    seed,
  })
  const order = passOrder(steps.length, { passes: hyperparameters.numPasses, seed })
  const parentStep = job.currentStep ?? 0
  job.rollouts?.begin(
    toNotedJob({
      groups,
      shaped: shaped.groups,
      sequences,
      leftOut: leftOutBook,
      hyperparameters,
      parentStep,
      stepSequences: steps.map(({ sequenceCount }) => sequenceCount),
      stepsBefore: context.resumePoint?.progress.stepCount ?? 0,
    }),
  )
  const { report } = context.progress
  report.plannedSteps = order.length
  report.seconds.data += (context.clock.monotonicMs() - startedMs) / 1000
  report.leftOut = Object.entries(skips).flatMap(([reason, count]) =>
    leftOut(reason, count, counts.examples.get(reason as SkipReason) ?? []),
  )
  report.leftOut = [...report.leftOut, ...leftOut('unmerged', counts.unmergedHistoryCount, counts.splits.examples)]
  report.notes = [...notes.sentences(), ...rateNotes(hyperparameters, order.length)]
  const { samplingRatio } = hyperparameters
  noteAnswers(report, groups, { groupsTrainable, samplingRatio, currentStep: job.currentStep })
  const started: TrainingEvent = {
    type: 'training_started',
    data: {
      num_sequences: order.length,
      ...(hyperparameters.numPasses > 1 ? { num_passes: hyperparameters.numPasses } : {}),
      num_packed_sequences: steps.reduce((sum, { rows }) => sum + rows.length, 0),
      num_trainable_tokens: trainableTokenCount,
      num_trained_trajectories: counts.trainedTrajectoryCount,
      ...(shaped.changedCount > 0 ? { num_rewards_by_plugins: shaped.changedCount } : {}),
      ...(shaped.penalizedCount > 0 ? { num_penalized_overlength: shaped.penalizedCount } : {}),
      ...(counts.unmergedHistoryCount > 0 ? { num_unmerged_histories: counts.unmergedHistoryCount } : {}),
      ...skipMetrics(skips),
    },
  }
  return {
    steps,
    order,
    started,
    groups: shaped.groups,
    groupsTrainable,
    hasKeptSets: sequences.some(({ sampling }) => (sampling?.kept.size ?? 0) > 0),
    firstSequences: sequences.slice(0, SHOWN_SEQUENCES),
    sequenceCount: sequences.length,
  }
}

/** The largest of the batches that rows run in. */
export function largestRowBatch(batches: readonly (readonly PackedRow[])[]): BatchSize {
  return largestBatch(batches.map(sizeOf))
}

/** Plans an RL job without running any of it. */
export function planRl(job: RlJob, context: JobContext): JobPlan {
  const { hyperparameters } = job
  const { steps, started, groups, firstSequences, sequenceCount, hasKeptSets } = outlineRl(job, context)
  const rows = steps.flatMap((step) => step.rows)
  const batches = steps.map((step) => rowBatches(step.rows))
  const largest = largestRowBatch(batches.flat())
  const work = rows.reduce((sum, row) => sum + packedRowCost(row), 0)
  const { precalculateLogprobs, policyLoss, numPasses: passes } = hyperparameters
  const isScoredBefore = precalculateLogprobs || rows.some(({ sampling }) => sampling?.isOldComputed.includes(1))
  const scoringCount = (isScoredBefore ? 1 : 0) + (readsReference(policyLoss) ? 1 : 0)
  return {
    started,
    rowCount: passes * rows.length,
    tokens: passes * rows.reduce((sum, { usedLength }) => sum + usedLength, 0),
    trainedTokens: passes * steps.reduce((sum, step) => sum + step.trainableTokenCount, 0),
    loss: 'policy',
    largest,
    measured: isScoredBetweenSteps(batches, hyperparameters) ? largest : null,
    hasKeptSets,
    work: { gradient: passes * work, forward: scoringCount * work, sessionCount: 1 + scoringCount },
    groups: describeGroups(groups, hyperparameters),
    groupCount: groups.length,
    sequences: firstSequences.map((sequence) => ({
      source: `trajectory_groups[${sequence.groupIndex}].trajectories[${sequence.trajectoryIndex}]`,
      advantage: sequence.advantage,
      weight: sequence.weight,
      ...describeMask(sequence, job.text.textOf),
    })),
    sequenceCount,
    sample: sampleRows(firstSequences),
    precision: hyperparameters.precision,
  }
}

/** The first groups, with the advantages that they have among all. */
function describeGroups(groups: readonly TrajectoryGroup[], hyperparameters: RlHyperparameters): PlannedGroup[] {
  const rewards_P_G = rewardsOf(groups)
  const { advantages_P_G } = advantagesOfGroups(groups, hyperparameters)
  const reasons = whichTrain(rewards_P_G, hyperparameters.advantageEstimator)
  return rewards_P_G.slice(0, SHOWN_GROUPS).map((rewards, index) => ({
    index,
    meanReward: rewards.reduce((sum, reward) => sum + reward, 0) / Math.max(1, rewards.length),
    rewardDeviation: rewards.length === 0 ? 0 : standardDeviation(rewards),
    advantages: advantages_P_G[index] ?? [],
    leftOut: reasons[index] ?? null,
  }))
}
