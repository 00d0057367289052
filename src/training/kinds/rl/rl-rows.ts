/**
 * The packed rows of an optimizer step as micro-batches of the train graph: which rows run together, and the loss inputs of
 * every trained token.
 */
import type { Formula } from '#base/formula/formula.js'
import { type RatioLevel, readsSequences } from '#numerics/nn/policy-loss.js'
import { float32Tensor, type HostTensor } from '#numerics/tensor/host-tensor.js'
import type { PackedRow } from '#training/rows/pack.js'
import type { MicroBatch } from '#training/trainer/learner/learner.js'
import { type BatchSize, MICRO_BATCH_TOKENS } from '#training/trainer/memory.js'
import { perToken, type RowBatch, rowOf, type TrainedToken } from '#training/trainer/row-batch.js'
import type { RlHyperparameters } from './rl-hyperparameters.js'

/**
 * Rows that go through the graph together, with what was computed before training. Their tensors are made when they run: the
 * attention bias of a whole call would not fit into memory.
 */
export interface PreparedBatch {
  readonly rows: readonly PackedRow[]
  /** Old log-probabilities where they are not the sampler's alone: those under the weights at the start of the job; null unless precalculated. */
  readonly trainerLogp: Float32Array | null
  /** Log-probabilities under the KL reference; null without a KL penalty. */
  readonly referenceLogp: Float32Array | null
}

/** A batch about to run. */
export interface LaidOutBatch extends PreparedBatch {
  readonly batch: RowBatch
}

/** Rows of similar length together, the longest first, at most `MICRO_BATCH_TOKENS` tokens with their padding; a longer row goes alone. */
export function rowBatches(rows: readonly PackedRow[]): PackedRow[][] {
  const sorted = [...rows].sort((a, b) => b.tokens.length - a.tokens.length)
  const batches: PackedRow[][] = []
  for (const row of sorted) {
    const batch = batches.at(-1)
    const length = batch?.[0]?.tokens.length ?? 0
    if (batch !== undefined && (batch.length + 1) * length <= MICRO_BATCH_TOKENS) batch.push(row)
    else batches.push([row])
  }
  return batches
}

/** Whether batches are scored by the weights of the moment between steps, in a session that is open beside the trainer's. */
export function isScoredBetweenSteps(
  steps: readonly (readonly unknown[])[],
  { policyLoss, targetKl }: Pick<RlHyperparameters, 'policyLoss' | 'targetKl'>,
): boolean {
  return targetKl !== null || (policyLoss.kl !== null && isMeanGiven(steps))
}

/** Whether a KL penalty's mean over a step must be known before its batches run: where they run apart. */
export function isMeanGiven(steps: readonly (readonly unknown[])[]): boolean {
  return steps.some((batches) => batches.length > 1)
}

/** Size of rows as they go through the graph, the longest first. */
export function sizeOf(rows: readonly PackedRow[]): BatchSize {
  return { rows: rows.length, length: rows[0]?.tokens.length ?? 1 }
}

/**
 * The loss inputs of one optimizer step; its loss is divided by the trained tokens of all its rows.
 *
 * @param options.klMean what the KL penalty is centred on; null when each batch takes its own mean. Default null
 */
export function toMicroBatches(
  step: readonly LaidOutBatch[],
  {
    level,
    formula = null,
    klMean = null,
  }: { readonly level: RatioLevel; readonly formula?: Formula | null | undefined; readonly klMean?: number | null },
): MicroBatch[] {
  const tokenCount = step.reduce((sum, { batch }) => sum + batch.trained.length, 0)
  const denominator = float32Tensor(Float32Array.of(tokenCount), [])
  return step.map(({ rows, batch, trainerLogp, referenceLogp }) => {
    const read = (of: (row: PackedRow) => Float32Array, padding = 0): HostTensor =>
      perToken(batch, (token) => of(rowOf(rows, token))[token.index] as number, padding)
    const sampler = read(({ logprobs }) => logprobs, Number.NaN)
    const segments = readsSequences({ ratioLevel: level, formula }) ? { segments: segmentMatrix(rows, batch) } : {}
    return {
      batch,
      lossInputs: {
        denominator,
        weight: read(({ weights }) => weights),
        advantage: read(({ advantages }) => advantages),
        mask: perToken(batch, () => 1),
        old_logp: trainerLogp === null ? sampler : float32Tensor(trainerLogp, [trainerLogp.length]),
        sampler_logp: sampler,
        ...(referenceLogp === null ? {} : { reference_logp: float32Tensor(referenceLogp, [referenceLogp.length]) }),
        ...(klMean === null ? {} : { kl_mean: float32Tensor(Float32Array.of(klMean), []) }),
        ...segments,
      },
    }
  })
}

/** Membership of the trained tokens in their sequences: [N, G], 0 or 1. */
function segmentMatrix(rows: readonly PackedRow[], batch: RowBatch): HostTensor {
  const segmentOf = (token: TrainedToken): string => `${token.row}:${rowOf(rows, token).groupIds[token.index]}`
  const segments = [...new Set(batch.trained.map(segmentOf))]
  const columns = new Map(segments.map((segment, column) => [segment, column]))
  const data = new Float32Array(batch.paddedCount * segments.length)
  batch.trained.forEach((token, n) => {
    data[n * segments.length + (columns.get(segmentOf(token)) as number)] = 1
  })
  return float32Tensor(data, [batch.paddedCount, segments.length])
}
