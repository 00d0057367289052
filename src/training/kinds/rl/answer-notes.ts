/**
 * What the answers of an RL job's groups say, as figures of its report; the sentences about them are those of
 * `contract/jobs/diagnosis/findings.ts`.
 */
import {
  type AnsweredGroup,
  answerFacts,
  callsUnoffered,
  type GivenAnswer,
  quoteEqual,
} from '#contract/jobs/diagnosis/answers.js'
import { type DrawnAnswer, samplingFacts } from '#contract/jobs/diagnosis/sampling-facts.js'
import { shareOfRange } from '#formats/rows/reward-range.js'
import type { Trajectory, TrajectoryGroup } from '#formats/rows/trajectory.js'
import { drawnRecord, isSampledFrom } from '#training/rows/row-sampling.js'
import type { JobReport } from '#training/trainer/report.js'
import type { RlHyperparameters } from './rl-hyperparameters.js'

/**
 * Notes rewards, likeness and ends of the answers and how they were sampled, before the first step.
 *
 * @param groupsTrainable groups with a trajectory that trains, by whatever its reward is compared with
 */
export function noteAnswers(
  report: JobReport,
  groups: readonly TrajectoryGroup[],
  {
    groupsTrainable,
    samplingRatio,
    currentStep,
  }: Pick<RlHyperparameters, 'samplingRatio'> & {
    readonly groupsTrainable: number
    readonly currentStep: number | undefined
  },
): void {
  if (groups.length === 0) report.notes.unshift('no trajectory groups were sent: nothing is trained')
  const answered: AnsweredGroup[] = groups.map(({ trajectories, range = null }) =>
    trajectories.map((trajectory) => ({
      ...lastAnswer(trajectory),
      reward: trajectory.reward,
      share: range === null ? undefined : shareOfRange(trajectory.reward, range),
    })),
  )
  const counts = { total: groups.length, flat: groups.length - groupsTrainable }
  const drawn = groups.flatMap(({ trajectories }) => trajectories.flatMap((each) => drawnAnswers(each, currentStep)))
  const sampled = samplingFacts(drawn, samplingRatio)
  Object.assign(report.facts, answerFacts(answered), { groups: counts }, sampled)
  const { computed = 0 } = sampled['sampling'] ?? {}
  if (computed > 0) {
    report.notes.push(
      `${computed} tokens were drawn at a temperature whose log-probabilities nobody wrote down: the trainer computes them before the first step`,
    )
  }
  report.quoted = quoteEqual(answered)
}

/** Every sampled answer of a trajectory, with what it says of how it was sampled. */
function drawnAnswers(trajectory: Trajectory, currentStep: number | undefined): DrawnAnswer[] {
  const isOfStart = isSampledFrom(trajectory, currentStep)
  return trajectory.histories.flatMap(({ items }) =>
    items.flatMap((item) => {
      if (item.kind !== 'choice') return []
      const { sampling, tokenIds, tokens } = item
      const record = sampling === null ? null : drawnRecord(sampling)
      return [{ tokens: tokenIds?.length ?? tokens?.length ?? 0, record, isOfStart }]
    }),
  )
}

/** The last turn of the main history that was sampled, or else written by an assistant. */
function lastAnswer({ histories: [main] }: Trajectory): Pick<GivenAnswer, 'text' | 'isCut' | 'tokens' | 'isUnoffered'> {
  const items = main?.items ?? []
  const last =
    items.findLast((item) => item.kind === 'choice') ?? items.findLast(({ message }) => message['role'] === 'assistant')
  const content = last?.message['content'] ?? ''
  const calls = last?.message['tool_calls']
  const text = typeof content === 'string' ? content : JSON.stringify(content)
  return {
    text: text === '' && Array.isArray(calls) ? JSON.stringify(calls) : text,
    isCut: last?.kind === 'choice' && last.finishReason === 'length',
    tokens: last?.kind === 'choice' ? (last.tokenIds?.length ?? last.tokens?.length) : undefined,
    isUnoffered: callsUnoffered(calls, main?.tools),
  }
}
