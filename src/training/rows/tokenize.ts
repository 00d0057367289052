/**
 * Trajectories as token sequences with loss mask, log-probabilities and group advantage.
 *
 * Prefix merging: the turns of a trajectory are walked in order and a turn whose prompt starts with everything so far is
 * appended, so an append-only conversation becomes one sequence; otherwise a new sequence starts. All sequences of a
 * trajectory share its advantage and weight. A turn that appears in two histories that do not merge trains twice, as in ART.
 * A trajectory that the chat template refuses is left out and named; the others train.
 * Finding the turns is turns.ts's work, batch scaling advantages.ts's.
 */

import { DataError } from '#base/errors/errors.js'
import type { Trajectory, TrajectoryGroup } from '../../formats/rows/trajectory.js'
import { type AdvantageOptions, type LossAggregation, trajectoryWeight } from './advantages.js'
import { isSampledFrom, type RowSampling, sequenceSampling } from './row-sampling.js'
import { findSplit, type HistorySplit } from './splits.js'
import { advantagesOfGroups, creditTokens, type TurnCredit } from './turn-rewards.js'
import {
  noSkips,
  type SkipCounts,
  type SkipReason,
  type TrainableTurn,
  type TurnOptions,
  trainableTurns,
  UNRENDERABLE,
} from './turns.js'

/** One sequence to train on. The arrays have the same length T and are in token order: entry t describes token t. */
export interface TrainingSequence {
  readonly tokenIds: Int32Array
  /** 1 where the token was sampled and trains; never on the first token, which nothing predicts. */
  readonly lossMask: Uint8Array
  /** Sampler's log-probability of the distribution that is trained; NaN where unknown or not sampled. */
  readonly logprobs: Float32Array
  /** How its tokens were drawn; absent or null: at temperature 1 from the whole vocabulary. */
  readonly sampling?: RowSampling | null
  /** Advantage inside the group until `normalizeBatch`, the final one after. */
  readonly advantage: number
  /** Trajectory weight until `normalizeBatch`, the final one after. */
  readonly weight: number
  readonly trainableTokenCount: number
  readonly groupIndex: number
  readonly trajectoryIndex: number
  /** A trained completion ended by length. */
  readonly isTruncated: boolean
  /** Advantages of its tokens [T] where turns say what they earned, 0 where nothing trains; absent: `advantage` of each. */
  readonly tokenAdvantages?: Float64Array | null
}

/** Options of `tokenizeGroups`. */
export interface TokenizeOptions extends TurnOptions, AdvantageOptions {
  readonly lossAggregation: LossAggregation
  /** Step of the model that the job starts from; absent: not known, and nothing was sampled from it. */
  readonly currentStep?: number | undefined
  /** Hears why a trajectory, or a part of one, does not train; default nobody. */
  readonly onLeftOut?: ((reason: SkipReason, groupIndex: number, trajectoryIndex: number) => void) | undefined
}

/** Sequences in the order of their groups and trajectories, and what was left out. */
export interface TokenizedGroups {
  readonly sequences: readonly TrainingSequence[]
  readonly skips: SkipCounts
  /** Histories that prefix merging cut into several sequences. */
  readonly unmergedHistoryCount: number
  /** Of each reason, the paths of the first `NAMED_PATHS` trajectories it befell. */
  readonly examples: ReadonlyMap<SkipReason, readonly string[]>
  /** How many histories were cut by each cause, and the first of them. */
  readonly splits: HistorySplits
}

/** Histories that did not become one sequence. */
export interface HistorySplits {
  readonly counts: Readonly<Record<HistorySplit['cause'], number>>
  readonly examples: readonly string[]
}

/** How many trajectories are named of each kind that is left out. */
export const NAMED_PATHS = 20

/**
 * Tokenizes all groups of a train call.
 *
 * @throws {DataError} `invalid_token_id` with the trajectory's path; `unrenderable_trajectory` where nothing trains and a trajectory
 *   might, if the chat template took it
 */
export function tokenizeGroups(groups: readonly TrajectoryGroup[], options: TokenizeOptions): TokenizedGroups {
  const skips = noSkips()
  let refusal: DataError | null = null
  let unmergedHistoryCount = 0
  const examples = new Map<SkipReason, string[]>()
  const counts = { other_tokens: 0, other_text: 0 }
  const cut: string[] = []
  const { advantages_P_G, credits_P } = advantagesOfGroups(groups, options)
  const sequences = groups.flatMap((group, groupIndex) => {
    return group.trajectories.flatMap((trajectory, trajectoryIndex) => {
      const path = `trajectory_groups[${groupIndex}].trajectories[${trajectoryIndex}]`
      const before = { ...skips }
      const noteLeftOut = (counted: SkipCounts): void => {
        const reasons = reasonsSince(counted, skips)
        noteExamples(examples, reasons, path)
        for (const reason of reasons) options.onLeftOut?.(reason, groupIndex, trajectoryIndex)
      }
      skips.unsupported_exchange += trajectory.unsupportedExchangeCount
      const advantages_G = advantages_P_G[groupIndex] ?? []
      const advantage = advantages_G[trajectoryIndex] ?? 0
      const credit = advantages_G.some((each) => each !== 0) ? (credits_P[groupIndex] ?? null) : null
      if (advantage === 0 && credit === null) {
        skips.zero_advantage += 1
        noteLeftOut(before)
        return []
      }
      const histories = turnsOf(trajectory, path, options, skips)
      if (histories instanceof DataError) {
        refusal ??= histories
        noteUnrenderable(examples, histories)
        options.onLeftOut?.('unrenderable', groupIndex, trajectoryIndex)
        return []
      }
      for (const turns of histories) {
        const split = findSplit(turns, options.text.textOf)
        if (split === null) continue
        unmergedHistoryCount += 1
        counts[split.cause] += 1
        if (cut.length < NAMED_PATHS) cut.push(describeSplit(path, split, options.text.textOf))
      }
      const crediting = credit === null ? null : { advantage, credit }
      const merged = mergeTurns(histories.flat(), isSampledFrom(trajectory, options.currentStep), crediting)
      const trainableTokenCount = merged.reduce((sum, sequence) => sum + sequence.trainableTokenCount, 0)
      if (trainableTokenCount === 0) skips.no_trainable_turn += 1
      noteLeftOut(before)
      const weight = trajectoryWeight(trainableTokenCount, options.lossAggregation)
      return merged
        .filter((sequence) => sequence.trainableTokenCount > 0)
        .map((sequence) => ({ ...sequence, advantage, weight, groupIndex, trajectoryIndex }))
    })
  })
  if (sequences.length === 0 && refusal !== null) throw refusal
  return { sequences, skips, unmergedHistoryCount, examples, splits: { counts, examples: cut } }
}

/** Every reason that a trajectory's turn has added to. */
function reasonsSince(before: SkipCounts, after: SkipCounts): SkipReason[] {
  return (Object.keys(after) as SkipReason[]).filter((reason) => after[reason] !== before[reason])
}

function noteExamples(examples: Map<SkipReason, string[]>, reasons: readonly SkipReason[], path: string): void {
  for (const reason of reasons) {
    const named = examples.get(reason) ?? []
    if (named.length < NAMED_PATHS) examples.set(reason, [...named, path])
  }
}

/** With what the template said. */
function noteUnrenderable(examples: Map<SkipReason, string[]>, { message }: DataError): void {
  const named = examples.get('unrenderable') ?? []
  if (named.length < NAMED_PATHS) examples.set('unrenderable', [...named, message.replace(/\.$/, '')])
}

function describeSplit(
  path: string,
  { turn, position, cause, before, now }: HistorySplit,
  textOf: TokenizeOptions['text']['textOf'],
): string {
  const why = { other_tokens: 'spells the same text in other tokens', other_text: 'is rendered in another way' }[cause]
  const name = (id: number): string => `${id} ${JSON.stringify(textOf([id]))}`
  const first = now === null ? `it ends before ${name(before)}` : `${name(now)} instead of ${name(before)}`
  return `${path}: the prompt of turn ${turn} ${why} from token ${position} on: ${first}`
}

type MergedSequence = Pick<
  TrainingSequence,
  'tokenIds' | 'lossMask' | 'logprobs' | 'sampling' | 'trainableTokenCount' | 'isTruncated' | 'tokenAdvantages'
>

/** What makes advantages of tokens: that of their trajectory, and how rewards of turns count in its group. */
interface Crediting {
  readonly advantage: number
  readonly credit: TurnCredit
}

/**
 * Joins turns into sequences by prefix merging.
 *
 * @param isOfStart they were sampled from the weights that the job starts from; default false
 * @param crediting null: all tokens have the advantage of their trajectory
 * @returns as few sequences as the order of the turns allows; each turn's completion is in exactly one of them
 */
export function mergeTurns(
  turns: readonly TrainableTurn[],
  isOfStart = false,
  crediting: Crediting | null = null,
): MergedSequence[] {
  const runs: TrainableTurn[][] = []
  let open: { run: TrainableTurn[]; ids: number[] } | null = null
  for (const turn of turns) {
    if (open === null || !startsWith(turn.promptIds, open.ids)) {
      open = { run: [], ids: [] }
      runs.push(open.run)
    }
    open.run.push(turn)
    for (let t = open.ids.length; t < turn.promptIds.length; t += 1) open.ids.push(turn.promptIds[t] ?? 0)
    for (let t = 0; t < turn.completionIds.length; t += 1) open.ids.push(turn.completionIds[t] ?? 0)
  }
  return runs.map((run) => toSequence(run, isOfStart, crediting))
}

/** @returns the error where the chat template refuses the trajectory: it is counted as that alone */
function turnsOf(
  trajectory: Trajectory,
  path: string,
  options: TokenizeOptions,
  skips: SkipCounts,
): TrainableTurn[][] | DataError {
  const before = { ...skips }
  try {
    return trajectory.histories.map((history) => trainableTurns(history, path, options, skips))
  } catch (error) {
    if (!(error instanceof DataError) || error.code !== UNRENDERABLE) throw error
    Object.assign(skips, before, { unrenderable: before.unrenderable + 1 })
    return error
  }
}

/** A run of turns, each prompt starting with all tokens before it. */
function toSequence(run: readonly TrainableTurn[], isOfStart: boolean, crediting: Crediting | null): MergedSequence {
  const last = run.at(-1)
  const length = last === undefined ? 0 : last.promptIds.length + last.completionIds.length
  const tokenIds = new Int32Array(length)
  const lossMask = new Uint8Array(length)
  const { logprobs, sampling } = sequenceSampling(run, length, isOfStart)
  const tokenAdvantages = crediting === null ? null : new Float64Array(length)
  let filled = 0
  for (const turn of run) {
    const start = turn.promptIds.length
    for (; filled < start; filled += 1) tokenIds[filled] = turn.promptIds[filled] ?? 0
    tokenIds.set(turn.completionIds, start)
    lossMask.fill(1, start, start + turn.completionIds.length)
    filled = start + turn.completionIds.length
    if (tokenAdvantages === null || crediting === null) continue
    creditTokens(tokenAdvantages.subarray(start, filled), { ...crediting, ...(turn.credit ?? NOTHING) })
  }
  if (lossMask[0] === 1) {
    lossMask[0] = 0
    tokenAdvantages?.fill(0, 0, 1)
    logprobs[0] = Number.NaN
  }
  const trainableTokenCount = lossMask.reduce((sum, bit) => sum + bit, 0)
  const isTruncated = run.some((turn) => turn.isTruncated)
  const credited = tokenAdvantages === null ? {} : { tokenAdvantages }
  return { tokenIds, lossMask, logprobs, sampling, trainableTokenCount, isTruncated, ...credited }
}

/** Of a history that does not say what its turns earned. */
const NOTHING = { earned: { sum: 0, count: 0 } }

function startsWith(ids: ArrayLike<number>, prefix: readonly number[]): boolean {
  if (ids.length < prefix.length) return false
  for (let t = 0; t < prefix.length; t += 1) {
    if (ids[t] !== prefix[t]) return false
  }
  return true
}
