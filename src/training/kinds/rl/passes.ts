/**
 * Several passes over the optimizer steps of one rollout: their order, and when to stop because the policy has moved
 * too far from the one that sampled.
 *
 * On a CPU sampling costs the most, so the same answers are used more than once; the loss corrects for this by its
 * ratio (PPO, arXiv:1707.06347, algorithm 1: K epochs over one rollout). A step holds the same sequences in every pass,
 * so its rows are packed, and scored under a reference, only once.
 */
import { shuffle } from '#training/rows/optimizer-steps.js'
import type { TokenOutputs } from '#training/trainer/learner/learner.js'
import type { JobReport } from '#training/trainer/report.js'
import { rowOf } from '#training/trainer/row-batch.js'
import { boundedDrift } from './drift.js'
import type { RlHyperparameters } from './rl-hyperparameters.js'
import type { LaidOutBatch } from './rl-rows.js'

/**
 * The order of a job's optimizer steps over all passes.
 *
 * @param stepCount of one pass
 * @param options.seed of the job; every pass after the first has an order of its own by it
 * @returns indices of steps, `stepCount * passes` of them: the first pass in order, every one holding each step once
 * @example passOrder(3, { passes: 2, seed: 1 }) // [0, 1, 2, 1, 0, 2]
 */
export function passOrder(
  stepCount: number,
  { passes, seed }: { readonly passes: number; readonly seed: string | number },
): number[] {
  return Array.from({ length: passes }, (_, pass) => {
    const order = Array.from({ length: stepCount }, (_, step) => step)
    if (pass > 0) shuffle(order, `rows:${seed}:pass:${pass + 1}`)
    return order
  }).flat()
}

/**
 * How far the policy of the moment has moved from the one that sampled, on the tokens of a step: the mean of exp(x) - x - 1,
 * x = logp - logp_old (k3 of http://joschu.net/blog/kl-approx.html), with the old log-probabilities that the ratio is taken against.
 *
 * @param outputs of the step's own pass, hence before its update
 * @returns nats per token; 0 where no token has an old log-probability
 */
export function driftOfStep(step: readonly LaidOutBatch[], outputs: readonly Pick<TokenOutputs, 'logp'>[]): number {
  let sum = 0
  let count = 0
  step.forEach(({ rows, batch, trainerLogp }, at) => {
    batch.trained.forEach((token, n) => {
      const old = trainerLogp?.[n] ?? rowOf(rows, token).logprobs[token.index] ?? Number.NaN
      const drift = boundedDrift((outputs[at]?.logp[n] ?? Number.NaN) - old)
      if (Number.isNaN(drift)) return
      sum += Math.exp(drift) - drift - 1
      count += 1
    })
  })
  return sum / Math.max(1, count)
}

/**
 * Steps of later passes may stand this many times as far from the rollout as one update may move the policy. On spark the tokens of a
 * step stood at 0.1 to 0.8 nats after a pass and at 0.3 to 1.4 after two, under updates of at most 0.2, in runs that learned; at three times
 * the limit of an update most second passes ended with their first steps, and taught nothing.
 */
const DRIFT_PER_UPDATE = 10

/** How far the policy may have moved from the rollout, on the tokens of a step, before a later pass makes it; nats per token. */
export function driftLimit({ targetKl }: Pick<RlHyperparameters, 'targetKl'>): number {
  return targetKl === null ? Number.POSITIVE_INFINITY : DRIFT_PER_UPDATE * targetKl
}

/**
 * Counts the passes of a job that has several, on its record.
 *
 * @param stepCount gradient steps made
 * @param kl from the rollout's policy, by `driftOfStep`, where it ended the job
 */
export function notePasses(
  report: JobReport,
  { numPasses, stepCount, stepsPerPass }: { numPasses: number; stepCount: number; stepsPerPass: number },
  kl: number | null,
): void {
  if (numPasses === 1) return
  report.facts['passes'] = {
    planned: numPasses,
    made: stepCount / stepsPerPass,
    ended_by_target_kl: kl === null ? 0 : 1,
    ...(kl === null ? {} : { kl }),
  }
}

/** What a checkpoint says of them; nothing where a job has one. */
export function passMetrics({ facts: { passes } }: JobReport): Record<string, number> {
  if (passes === undefined) return {}
  const { made = 0, ended_by_target_kl: isEnded = 0 } = passes
  return { 'data/step_num_passes': made, 'data/step_passes_ended_by_target_kl': isEnded }
}
