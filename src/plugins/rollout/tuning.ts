/**
 * Which learning rate suits a model and its prompts: short jobs from one checkpoint at neighbouring rates, on the same answers, and what
 * each does to held-out prompts. Chooses and says why; `trainyard tune` is the command.
 */
import { comparePairs, type PairedMeans } from '#base/statistics/paired.js'
import { UsageError } from '#cli/terminal/errors.js'
import { formatNumber } from '#cli/terminal/format.js'
import type { TrajectoryGroup } from '#sdk/rl/trajectory.js'

/** Neighbours stand this far apart: half a power of ten, as rates are searched by hand. */
const NEIGHBOUR = 3
/** Of four prompts one is held out where no file of them is given; fewer are no measure. */
const [HELD_OUT_EVERY, LEAST_PROMPTS] = [4, 8]

/** A rate that was tried, and held-out prompts after its job against those before it. */
export interface Trial extends Pick<PairedMeans, 'wins' | 'ties' | 'losses' | 'difference' | 'interval'> {
  readonly rate: number
  /** Mean reward of held-out prompts. */
  readonly reward: number
}

/**
 * The middle rate first, so that a run which ends early has tried what jobs take anyway; then the lower one, which can break less.
 *
 * @example ratesAround(1e-3) // [0.001, 0.0003, 0.003]
 */
export function ratesAround(rate: number): readonly number[] {
  return [rate, rate / NEIGHBOUR, rate * NEIGHBOUR].map((each) => Number(each.toPrecision(1)))
}

/**
 * Every fourth row is held out.
 *
 * @throws {UsageError} `too_few_prompts`
 */
export function splitPrompts<T>(rows: readonly T[]): {
  readonly training: readonly T[]
  readonly heldOut: readonly T[]
} {
  if (rows.length < LEAST_PROMPTS) {
    throw new UsageError(
      'too_few_prompts',
      `${rows.length} prompts are too few to train on three in four and measure on the fourth: at least ${LEAST_PROMPTS}`,
      { param: '--prompts', hint: 'add prompts, or give those to measure on a file of their own with --held-out' },
    )
  }
  const isHeldOut = (_: T, i: number): boolean => i % HELD_OUT_EVERY === HELD_OUT_EVERY - 1
  return { training: rows.filter((row, i) => !isHeldOut(row, i)), heldOut: rows.filter(isHeldOut) }
}

/** Groups of the same prompts before and after a job; a prompt that failed in one of them is left out. */
export function judge(rate: number, before: readonly TrajectoryGroup[], after: readonly TrajectoryGroup[]): Trial {
  const pairs = before.flatMap((group, i) => {
    const [was, is] = [group.meanReward, after[i]?.meanReward ?? null]
    return was === null || is === null ? [] : [{ rewards: [was, is] as const }]
  })
  if (pairs.length === 0) {
    throw new UsageError('rollouts_failed', 'no held-out prompt was answered both before and after the job')
  }
  const { rewards, wins, ties, losses, difference, interval } = comparePairs(pairs)
  return { rate, reward: rewards[1], wins, ties, losses, difference, interval }
}

/** The trial with the highest held-out reward, of equal ones at the lower rate; null where none is better than no job at all. */
export function bestOf(trials: readonly Trial[]): Trial | null {
  const [best] = trials.toSorted((a, b) => b.difference - a.difference || a.rate - b.rate)
  return best === undefined || best.difference <= 0 ? null : best
}

const UUID = /^[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}$/

/** Name of a fork: whoever sees one knows what it was for. */
export function forkName(model: string, uuid: string): string {
  return `${model}-tune-${uuid}`
}

/**
 * Forks that a tuning of this model left because it was killed, or that another one is at: which of both nothing here can know, and a name
 * is no proof that nobody wants a model, so they are only told of.
 */
export function leftForks<Fork extends { readonly name: string }>(
  models: readonly Fork[],
  model: string,
): readonly Fork[] {
  const prefix = forkName(model, '')
  return models.filter(({ name }) => name.startsWith(prefix) && UUID.test(name.slice(prefix.length)))
}

/** One line of the table of trials. */
export function sayTrial({ rate, reward, difference, interval, wins, ties, losses }: Trial): string {
  const range = interval === null ? '' : ` (95% between ${interval.map((end) => formatNumber(end)).join(' and ')})`
  return `${rate.toExponential()}: held-out reward ${formatNumber(reward)}, ${formatNumber(difference)} against before${range}; ${wins} better, ${ties} same, ${losses} worse`
}

/** Why the best was chosen, or why nothing was. */
export function sayChoice(best: Trial | null, trials: readonly Trial[], before: number): string {
  const others = trials.filter((each) => each !== best)
  const listed = others.map(({ rate, reward }) => `${rate.toExponential()} reached ${formatNumber(reward)}`).join(', ')
  if (best === null) {
    return `no rate is better than no job: held-out reward ${formatNumber(before)} before, ${listed}`
  }
  const isSure = best.interval !== null && best.interval[0] > 0
  const why = `held-out reward ${formatNumber(best.reward)} after its job, ${formatNumber(before)} before${isSure ? '' : ' (it may be chance)'}`
  return `${best.rate.toExponential()} is best: ${why}${others.length === 0 ? '' : `; ${listed}`}`
}
