/**
 * The numbers of a job and of the jobs before it, and the questions about them that rows of `findings.ts` share (is
 * it solved, is it stuck, did it fall).
 */
import { maxOf } from '#base/util/lists.js'
import type { Facts } from './answers.js'

/** What is known of one job; what is not known makes the rows that need it silent. */
export interface JobNumbers {
  /** Of the checkpoint it made; null before. */
  readonly step: number | null
  readonly gradientSteps: number
  /** Of its report. */
  readonly facts: Facts
  /** Of its checkpoint, among them what was logged later: `train/reward`, `val/reward`, `loss/entropy`. */
  readonly metrics: Readonly<Record<string, number>>
  /** Losses of the validation rows, the first before training. */
  readonly validation: readonly number[]
  /** Two answers whose rewards are equal, as a sentence ends with them. */
  readonly quoted: string
  /** Options it ran with; null where they are not known, or the rate is a list. */
  readonly learningRate: number | null
  readonly advantageBalance: number | null
}

/** A job, and those of the model before it, oldest first. */
export interface Course {
  readonly job: JobNumbers
  readonly earlier: readonly JobNumbers[]
}

/** Share of the range of the reward that counts as solved: the order number stood at 0.97 to 1 once it was learned. */
export const SOLVED = 0.95

export function short(value: number): string {
  return String(Number(value.toPrecision(2)))
}

export function percent(share: number): string {
  return `${Math.round(100 * share)}%`
}

/**
 * Says how many groups teach nothing.
 *
 * @param flat groups whose rewards do not differ
 * @param reward mean of all trajectories
 * @example countFlat(2, 4, 0.5) // reward variance zero in 50% of groups (2 of 4, mean reward 0.5)
 */
export function countFlat(flat: number, groups: number, reward: number): string {
  return `reward variance zero in ${percent(flat / groups)} of groups (${flat} of ${groups}, mean reward ${Number(reward.toPrecision(3))})`
}

export function trustRegionOf({ facts }: JobNumbers): Readonly<Record<string, number>> {
  return facts['trust_region'] ?? {}
}

/** Mean reward of a job's answers; its checkpoint has it where its report is older. */
export function meanOf(job: JobNumbers | undefined): number | undefined {
  return job?.facts['reward']?.['mean'] ?? job?.metrics['train/reward']
}

/** Standard error of the difference of two means. */
export function errorOf(a: JobNumbers, b: JobNumbers): number {
  return Math.hypot(a.facts['reward']?.['standard_error'] ?? 0, b.facts['reward']?.['standard_error'] ?? 0)
}

export function rangeOf({ facts }: JobNumbers): number {
  const { min = 0, max = 0 } = facts['reward'] ?? {}
  return max - min
}

/** Jobs on examples that the model has had: to say once more what they followed leads nowhere. */
export function timesShown({ facts }: JobNumbers): number {
  return facts['before']?.['examples'] ?? 0
}

/** Whether every answer earned the least there is; where nobody knows what that is, 0. */
export function isAllLeast({ facts }: JobNumbers): boolean {
  const { min, max, most_share: most } = facts['reward'] ?? {}
  return most === undefined ? min === 0 && max === 0 : most === 0
}

/** Whether a job's answers earn all there is, nearly; without a range nobody can say so. */
export function isSolved({ facts }: JobNumbers): boolean {
  return (facts['reward']?.['share'] ?? 0) >= SOLVED
}

/** The same where the best reward of the job may be the best there is: enough to be silent, not to say that it is solved. */
export function mayBeSolved(job: JobNumbers): boolean {
  const { mean = 0, max = 0, share } = job.facts['reward'] ?? {}
  return share === undefined ? max > 0 && mean >= SOLVED * max : isSolved(job)
}

/** Whether the mean is what these jobs have ever paid, or nearly: then answers may be alike. */
export function isNearBest(job: JobNumbers, earlier: readonly JobNumbers[]): boolean {
  const best = maxOf([...earlier, job].map(({ facts }) => facts['reward']?.['max'] ?? Number.NEGATIVE_INFINITY))
  const mean = meanOf(job)
  return mean === undefined || !Number.isFinite(best) || mean >= best - (1 - 0.9) * Math.abs(best)
}

/** Nats per token that a job moved the policy: summed over its updates, else the divergence from the sampler that it ended with. */
export function movedBy(job: JobNumbers): number | null {
  const { updates = 0, moved } = trustRegionOf(job)
  if (updates > 0 && moved !== undefined) return moved
  const { steps = 0, first = 0, last = 0 } = job.facts['kl'] ?? {}
  return steps < 2 ? null : Math.max(0, last - first)
}

export interface Stuck {
  readonly said: string
  /** Gradient steps of all but the last job, whose effect nobody has seen yet, and what they moved; null where it was not measured. */
  readonly steps: number
  readonly moved: number | null
}

/** The last `count` jobs, where their rewards did not rise although groups differed. */
export function stuck({ job, earlier }: Course, count: number): Stuck | null {
  const jobs = [...earlier, job].slice(-count)
  const [first, last] = [jobs[0], jobs.at(-1)]
  const [was, is] = [meanOf(first), meanOf(last)]
  if (jobs.length < count || first === undefined || last === undefined || was === undefined || is === undefined) {
    return null
  }
  const differs = ({ facts }: JobNumbers): boolean =>
    (facts['groups']?.['total'] ?? 0) > (facts['groups']?.['flat'] ?? 0)
  if (!jobs.every(differs) || mayBeSolved(last) || is - was > errorOf(first, last)) return null
  const before = jobs.slice(0, -1)
  const moves = before.map(movedBy)
  return {
    said: `reward stuck: ${jobs.map((each) => short(meanOf(each) ?? 0)).join(', ')} in the last ${count} jobs, while groups differ`,
    steps: before.reduce((sum, { gradientSteps }) => sum + gradientSteps, 0),
    moved: moves.includes(null) ? null : moves.reduce<number>((sum, each) => sum + (each ?? 0), 0),
  }
}

/**
 * Standard errors that a fall of the reward must exceed, since the job before and since the best of several: untrained, 160 answers to
 * other prompts earned between 0.08 and 0.19, and of eight jobs that are alike the best stands 1.4 errors of one job above their mean.
 */
const [SURE, SURE_OF_BEST] = [2, 3]
/** Least fall since the best job, of the range of rewards. In runs that kept what they had, jobs stood at most 0.07 below their best. */
const NOTABLE_FALL = 0.1
/** Below this the policy is as it was, and other prompts were harder. */
const STOOD_STILL = 0.02

export interface Fall {
  readonly best: JobNumbers
  readonly was: number
  readonly is: number
  /** Nats per token from the best job to this one; null where it was not measured. */
  readonly moved: number | null
}

/** How far the reward of a job stands below the best of those before it, where that is none of chance; null where it does not. */
export function fallOf({ job, earlier }: Course): Fall | null {
  const is = meanOf(job)
  if (is === undefined) return null
  const falls = earlier.flatMap((best, at): (Fall & { readonly isCertain: boolean })[] => {
    const was = meanOf(best)
    if (was === undefined) return []
    const moves = earlier.slice(at).map(movedBy)
    const moved = moves.includes(null) ? null : moves.reduce<number>((sum, each) => sum + (each ?? 0), 0)
    const error = errorOf(best, job)
    const isHalf = at === earlier.length - 1 && was > 0 && is <= was / 2 && was - is > SURE * error
    const range = maxOf([...earlier, job].map(rangeOf))
    const isBelow = was - is >= NOTABLE_FALL * range && was - is > SURE_OF_BEST * error
    return [{ best, was, is, moved, isCertain: (isHalf || isBelow) && (moved ?? 1) >= STOOD_STILL }]
  })
  return falls.filter(({ isCertain }) => isCertain).sort((a, b) => b.was - a.was)[0] ?? null
}

/** About a third, as people write rates. @example lowerRate(1e-3) // '3e-4' */
export function lowerRate(rate: number): string {
  return Number((rate / 3).toPrecision(1)).toExponential()
}
