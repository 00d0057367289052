/**
 * What groups say before anything is trained on them, in the words of a job's record.
 */

import { appliedTemperature } from '#base/sampling-record.js'
import { type AnsweredGroup, callsUnoffered } from '#contract/jobs/diagnosis/answers.js'
import { diagnoseGroups, sayFinding } from '#contract/jobs/diagnosis/diagnose.js'
import type { DrawnAnswer } from '#contract/jobs/diagnosis/sampling-facts.js'
import { shareOfRange } from '#formats/rows/reward-range.js'
import type { AdvantageEstimator } from '#formats/rows/which-train.js'
import { isChoice, type TrajectoryGroup } from '#sdk/rl/trajectory.js'

/** Of answers that are measured and not compared with each other. */
const OF_MEASURED: readonly string[] = [
  ...['answers_cut', 'tools_not_offered', 'reward_zero', 'reward_rare', 'one_reward', 'all_solved'],
]
/** After which rewards have little or nothing to raise. */
const NEEDS_EXAMPLES: readonly string[] = ['reward_zero', 'reward_rare', 'one_reward']
/** What is known of the model besides its answers. */
interface Known {
  /** Jobs on examples that it has had; default none. */
  readonly shown?: number
}

/** One sentence for each finding; none where enough groups train. */
export function sayOfGroups(
  groups: readonly TrajectoryGroup[],
  known: Known & { readonly estimator?: AdvantageEstimator } = {},
): readonly string[] {
  return diagnoseGroups(groups.map(toAnswered), groups.flatMap(toDrawn), known).map(sayFinding)
}

/** The same of answers to held-out prompts, which need not differ. */
export function sayOfMeasured(groups: readonly TrajectoryGroup[], known: Known = {}): readonly string[] {
  const findings = diagnoseGroups(groups.map(toAnswered), [], known)
  return findings.filter(({ name }) => OF_MEASURED.includes(name)).map(sayFinding)
}

/** Whether examples come before rewards. */
export function needsExamples(groups: readonly TrajectoryGroup[]): boolean {
  return diagnoseGroups(groups.map(toAnswered)).some(({ name }) => NEEDS_EXAMPLES.includes(name))
}

/** Fewer updates say nothing of where they lead, and a divergence below this is no distance, nats per token. */
const [MIN_UPDATES, NEAR] = [6, 0.05]
/**
 * Share of the divergence that must be left before it counts as not fallen. Of JSON with keys of its own a student that knew none of it went
 * from 4.6 to 5.0 nats in twenty updates, one that had been through the answers once from 0.21 to 0.01.
 */
const NOT_FALLEN = 0.8

/**
 * What updates of on-policy distillation say: one sentence where the student came no nearer to its teacher.
 *
 * @param divergences estimates before each update, nats per token
 */
export function sayOfDistillation(divergences: readonly number[]): readonly string[] {
  const third = Math.floor(divergences.length / 3)
  const meanOf = (values: readonly number[]): number => values.reduce((sum, each) => sum + each / third, 0)
  const [first, last] = [meanOf(divergences.slice(0, third)), meanOf(divergences.slice(-third))]
  if (divergences.length < MIN_UPDATES || last <= NEAR || last < NOT_FALLEN * first) return []
  const from = `from ${first.toPrecision(2)} to ${last.toPrecision(2)} nats a token`
  return [
    `no nearer to the teacher after ${divergences.length} updates (${from}): what the model never says cannot be corrected; show it the teacher's answers first (train distill without --on-policy, or train sft), then go on with its own`,
  ]
}

/** Every sampled answer, with what it says of how it was sampled. */
function toDrawn({ trajectories }: TrajectoryGroup): DrawnAnswer[] {
  const choices = trajectories.flatMap(({ histories }) => histories.flatMap(({ items }) => items.filter(isChoice)))
  return choices.map(({ token_ids: ids, sampling }) => ({
    tokens: ids?.length ?? 0,
    record:
      sampling == null
        ? null
        : {
            temperature: appliedTemperature(sampling.temperature),
            hasLogprobs: sampling.logprobs !== null,
            keptAt: (t) => sampling.kept.counts[t] ?? 0,
            unmodelled: sampling.unmodelled,
          },
    isOfStart: true,
  }))
}

function toAnswered({ trajectories, rewardRange }: TrajectoryGroup): AnsweredGroup {
  return trajectories.map(({ answer, choices, histories, reward }) => {
    const last = choices.at(-1)
    const calls = last?.message.tool_calls ?? []
    return {
      text: answer === '' && calls.length > 0 ? JSON.stringify(calls) : answer,
      reward,
      share: rewardRange === null ? undefined : shareOfRange(reward, rewardRange),
      isCut: last?.finish_reason === 'length',
      tokens: last?.token_ids?.length,
      isUnoffered: callsUnoffered(calls, histories[0]?.tools),
    }
  })
}
