/**
 * A limit on how far one optimizer step moves the policy: an update that moves it further is shortened until it does not.
 *
 * AdamW's updates keep their length in the parameters however steep the policy has become in them, and clipping the gradient
 * changes nothing about that. A small adapter at a high rate grows steeper with every step that teaches it something: the same
 * update that moved the policy by a thousandth of a nat moves it by two at the end, no answer is rewarded any more, and nothing
 * is left to learn from. The search is TRPO's (arXiv:1502.05477, appendix C), along AdamW's update.
 */
import type { Learner, TokenOutputs } from '#training/trainer/learner/learner.js'
import type { JobReport } from '#training/trainer/report.js'
import { type Score, scoreOf } from '#training/trainer/scores.js'
import type { LaidOutBatch } from './rl-rows.js'

/** Trained tokens whose movement is enough to know a step's; micro-batches beyond them are not run again. */
const MEASURED_TOKENS = 256
/** Halvings after which an update is left out. */
const MAX_HALVINGS = 10

const GOLDEN_RATIO = (1 + Math.sqrt(5)) / 2

/** What became of an update. */
export interface Movement {
  /** KL(before || after), nats per token, of the update that was kept; 0 when it was left out. */
  readonly kl: number
  /** Its length as a share of AdamW's: a power of a half, or 0 when it was left out. */
  readonly scale: number
}

/** One limit over the steps of a job. */
export interface TrustRegion {
  /** Nats per token. */
  readonly targetKl: number
  /** Has the learner keep its weights as they are before a step. */
  readonly remember: () => Promise<void>
  /**
   * Shortens the update made since `remember`, in the learner. The optimizer's moments stay those of the gradient.
   *
   * @param outputs of the step's own pass, hence under the parameters before the update
   */
  readonly shorten: (step: readonly LaidOutBatch[], outputs: readonly TokenOutputs[]) => Promise<Movement>
}

/** @param targetKl nats per token */
export function createTrustRegion(learner: Learner, targetKl: number): TrustRegion {
  const score = scoreOf(learner)
  return {
    targetKl,
    remember: () => learner.mark('before', 'weights'),
    shorten: async (step, outputs) => {
      let kl = await measureMovement(step, outputs, score)
      if (kl <= targetKl) return { kl, scale: 1 }
      for (let halvings = 1; halvings <= MAX_HALVINGS; halvings++) {
        const scale = 0.5 ** halvings
        await learner.blend('before', scale)
        kl = await measureMovement(step, outputs, score)
        if (kl <= targetKl) return { kl, scale }
      }
      await learner.blend('before', 0)
      return { kl: 0, scale: 0 }
    },
  }
}

/** Counts a step's movement on the job's record. */
export function noteMovement(report: JobReport, { kl, scale }: Movement, targetKl: number): void {
  const { updates = 0, shortened = 0, smallest_scale: smallest = 1, moved = 0 } = report.facts['trust_region'] ?? {}
  report.facts['trust_region'] = {
    target_kl: targetKl,
    updates: updates + 1,
    shortened: shortened + (scale < 1 ? 1 : 0),
    smallest_scale: Math.min(smallest, scale),
    // an update that broke the policy is left out, and moved nothing
    moved: moved + (Number.isFinite(kl) ? kl : 0),
  }
}

/**
 * Mean over trained tokens of exp(x) - x - 1, x = after - before: an estimate of KL(before || after) on tokens that were sampled
 * from about `before` (k3 of http://joschu.net/blog/kl-approx.html). Never below 0; infinite or NaN when the update broke the policy.
 */
async function measureMovement(
  step: readonly LaidOutBatch[],
  outputs: readonly TokenOutputs[],
  score: Score,
): Promise<number> {
  let sum = 0
  let count = 0
  for (const at of spreadOrder(step.length)) {
    if (count >= MEASURED_TOKENS) break
    const { batch } = step[at] as LaidOutBatch
    const logp = await score(batch)
    for (let n = 0; n < batch.trained.length; n++) {
      const x = (logp[n] as number) - (outputs[at]?.logp[n] as number)
      sum += Math.exp(x) - x - 1
    }
    count += batch.trained.length
  }
  return sum / Math.max(1, count)
}

/**
 * The indices of a list in an order whose every beginning is spread over the whole: micro-batches come longest rows first, and the
 * longest alone would say little of the others. Multiples of the golden ratio, so it is the same for every step of a length.
 */
export function spreadOrder(count: number): number[] {
  const place = (index: number): number => ((index + 0.5) * GOLDEN_RATIO) % 1
  return Array.from({ length: count }, (_, index) => index).sort((a, b) => place(a) - place(b))
}
