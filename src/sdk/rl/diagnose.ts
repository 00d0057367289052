/**
 * What groups say before anything is trained on them, in the words of a job's record.
 */
import type { AnsweredGroup } from '#contract/jobs/diagnosis/answers.js'
import { diagnoseGroups, sayFinding } from '#contract/jobs/diagnosis/diagnose.js'
import type { TrajectoryGroup } from './trajectory.js'

/** Of answers that are measured and not compared with each other. */
const OF_MEASURED: readonly string[] = ['reward_zero', 'reward_rare', 'answers_cut']
/** After which rewards have little or nothing to raise. */
const NEEDS_EXAMPLES: readonly string[] = ['reward_zero', 'reward_rare']

/** One sentence for each finding; none where enough groups differ. */
export function sayOfGroups(groups: readonly TrajectoryGroup[]): readonly string[] {
  return diagnoseGroups(groups.map(toAnswered)).map(sayFinding)
}

/** The same of answers to held-out prompts, which need not differ. */
export function sayOfMeasured(groups: readonly TrajectoryGroup[]): readonly string[] {
  const findings = diagnoseGroups(groups.map(toAnswered))
  return findings.filter(({ name }) => OF_MEASURED.includes(name)).map(sayFinding)
}

/** Whether examples come before rewards. */
export function needsExamples(groups: readonly TrajectoryGroup[]): boolean {
  return diagnoseGroups(groups.map(toAnswered)).some(({ name }) => NEEDS_EXAMPLES.includes(name))
}

function toAnswered({ trajectories }: TrajectoryGroup): AnsweredGroup {
  return trajectories.map(({ answer, choices, reward }) => {
    const last = choices.at(-1)
    const calls = last?.message.tool_calls ?? []
    return {
      text: answer === '' && calls.length > 0 ? JSON.stringify(calls) : answer,
      reward,
      isCut: last?.finish_reason === 'length',
    }
  })
}
