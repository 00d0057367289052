/**
 * Forward passes of an RL job without a gradient: log-probabilities under the weights it starts with and under the KL
 * reference, once for all rows before the first step, and the mean divergence of each step while it trains.
 */
import type { KlOptions } from '#numerics/nn/policy-loss.js'
import type { PackedRow } from '#training/rows/pack.js'
import type { JobContext } from '#training/trainer/job.js'
import type { Learner } from '#training/trainer/learner/learner.js'
import { DEFAULT_CHUNK, type RowBatch, type RowBatchOptions, rowOf, toRowBatch } from '#training/trainer/row-batch.js'
import { type ReferencePolicy, type Score, scoreOf, scoreOfReference } from '#training/trainer/scores.js'
import { type RlHyperparameters, readsReference } from './rl-hyperparameters.js'
import type { RlOutline } from './rl-outline.js'
import { type LaidOutBatch, type PreparedBatch, rowBatches } from './rl-rows.js'

/**
 * Lays out the rows of all steps and runs the forward passes that must precede the first: once for each, however many passes
 * train on it.
 *
 * Steps that a resume point covers are left without numbers: they are not made again.
 *
 * @param order of the steps over all passes, as indices
 */
export async function prepareSteps(
  { steps, order }: Pick<RlOutline, 'steps' | 'order'>,
  hyperparameters: RlHyperparameters,
  context: JobContext,
  { learner, reference }: { readonly learner: Learner; readonly reference: ReferencePolicy },
): Promise<PreparedBatch[][]> {
  const ahead = new Set(order.slice(context.resumePoint?.progress.stepCount ?? 0))
  const prepared: PreparedBatch[][] = steps.map(({ rows }) =>
    rowBatches(rows).map((part) => ({ rows: part, trainerLogp: null, referenceLogp: null })),
  )
  const rest = prepared.filter((_, step) => ahead.has(step))
  const score = scoreOf(learner)
  try {
    if (hyperparameters.precalculateLogprobs) {
      await fillScores(rest, { key: 'trainerLogp', score, hyperparameters }, context)
    } else if (rest.flat().some(isOldComputed)) {
      await fillScores(rest, { key: 'trainerLogp', score, hyperparameters, onlyUnwritten: true }, context)
    }
    if (readsReference(hyperparameters.policyLoss)) {
      const scoreReference = await scoreOfReference(learner, reference)
      await fillScores(rest, { key: 'referenceLogp', score: scoreReference, hyperparameters }, context)
    }
    return prepared
  } finally {
    await learner.park()
  }
}

/** Whether a batch has old log-probabilities that nobody wrote down and the trainer computes. */
function isOldComputed({ rows }: Pick<PreparedBatch, 'rows'>): boolean {
  return rows.some(({ sampling }) => sampling?.isOldComputed.includes(1) === true)
}

/** The trainer's numbers where nobody wrote any down, and the sampler's elsewhere. */
function withSamplers(scores: Float32Array, batch: RowBatch, rows: readonly PackedRow[]): Float32Array {
  const old = new Float32Array(scores.length).fill(Number.NaN)
  batch.trained.forEach((token, n) => {
    const { sampling, logprobs } = rowOf(rows, token)
    const isComputed = sampling?.isOldComputed[token.index] === 1
    old[n] = (isComputed ? scores[n] : logprobs[token.index]) ?? Number.NaN
  })
  return old
}

/**
 * Scores the rows of steps under a policy, and puts the numbers beside them.
 *
 * @param options.onlyUnwritten old log-probabilities are the trainer's only where nobody wrote them down; batches without such tokens are
 *   not run. Default false
 */
export async function fillScores(
  steps: readonly PreparedBatch[][],
  {
    key,
    score,
    hyperparameters,
    onlyUnwritten = false,
  }: {
    readonly key: 'trainerLogp' | 'referenceLogp'
    readonly score: Score
    readonly hyperparameters: RlHyperparameters
    readonly onlyUnwritten?: boolean
  },
  { clock, progress }: Pick<JobContext, 'clock' | 'progress'>,
): Promise<void> {
  const startedMs = clock.monotonicMs()
  try {
    for (const step of steps) {
      for (const [b, part] of step.entries()) {
        if (onlyUnwritten && !isOldComputed(part)) continue
        const batch = toRowBatch(part.rows, layoutOf(hyperparameters))
        const scores = await score(batch)
        step[b] = { ...part, [key]: onlyUnwritten ? withSamplers(scores, batch, part.rows) : scores }
      }
    }
  } finally {
    progress.report.seconds.scores += (clock.monotonicMs() - startedMs) / 1000
  }
}

/**
 * The mean of k over the trained tokens of an optimizer step, k = source - reference: what the KL penalty is centred on.
 *
 * The source is the current learner, or the log-probabilities the ratio is taken against; where those are unknown they count
 * as the learner's. The learner is run only if it is needed.
 */
export async function stepKlMean(
  step: readonly LaidOutBatch[],
  source: KlOptions['source'],
  score: Score,
): Promise<number> {
  let sum = 0
  let count = 0
  for (const { rows, batch, trainerLogp, referenceLogp } of step) {
    const known = batch.trained.map((token, n) =>
      source === 'current_learner'
        ? Number.NaN
        : (trainerLogp?.[n] ?? rowOf(rows, token).logprobs[token.index] ?? Number.NaN),
    )
    const learner = known.some(Number.isNaN) ? await score(batch) : null
    known.forEach((logp, n) => {
      const value = Number.isNaN(logp) ? (learner?.[n] ?? Number.NaN) : logp
      sum += value - (referenceLogp?.[n] ?? Number.NaN)
      count += 1
    })
  }
  return sum / Math.max(1, count)
}

/** How rows are laid out: the same chunks wherever numbers of the same tokens meet, at most as large as asked for. */
export function layoutOf({ logprobCalculationChunkSize: chunk }: RlHyperparameters): RowBatchOptions {
  return { chunk: Math.min(chunk, DEFAULT_CHUNK) }
}
