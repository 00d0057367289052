/**
 * What the answers of an RL job's groups say, as figures of its report; the sentences about them are those of
 * `contract/jobs/diagnosis/findings.ts`.
 */
import { type AnsweredGroup, answerFacts, quoteEqual } from '#contract/jobs/diagnosis/answers.js'
import type { Trajectory, TrajectoryGroup } from '#formats/rows/trajectory.js'
import type { JobReport } from '#training/trainer/report.js'

/**
 * Notes rewards, likeness and ends of the answers, before the first step.
 *
 * @param groupsTrainable groups with a trajectory that trains, by whatever its reward is compared with
 */
export function noteAnswers(report: JobReport, groups: readonly TrajectoryGroup[], groupsTrainable: number): void {
  if (groups.length === 0) report.notes.unshift('no trajectory groups were sent: nothing is trained')
  const answered: AnsweredGroup[] = groups.map(({ trajectories }) =>
    trajectories.map((trajectory) => ({ ...lastAnswer(trajectory), reward: trajectory.reward })),
  )
  const counts = { total: groups.length, flat: groups.length - groupsTrainable }
  Object.assign(report.facts, answerFacts(answered), { groups: counts })
  report.quoted = quoteEqual(answered)
}

/** The last turn of the main history that was sampled, or else written by an assistant. */
function lastAnswer({ histories: [main] }: Trajectory): { readonly text: string; readonly isCut: boolean } {
  const items = main?.items ?? []
  const last =
    items.findLast((item) => item.kind === 'choice') ?? items.findLast(({ message }) => message['role'] === 'assistant')
  const content = last?.message['content'] ?? ''
  const calls = last?.message['tool_calls']
  const text = typeof content === 'string' ? content : JSON.stringify(content)
  return {
    text: text === '' && Array.isArray(calls) ? JSON.stringify(calls) : text,
    isCut: last?.kind === 'choice' && last.finishReason === 'length',
  }
}
