/**
 * A reinforcement-learning job: trajectory groups to packed rows to optimizer steps.
 *
 * Formulas: `src/docs/how-training-works.md`. Old log-probabilities and those of the KL reference are computed for all rows
 * before the first step, in a session of their own that is gone before training starts.
 */

import { float32Tensor, type HostTensor } from '#numerics/tensor/host-tensor.js'
import { countBatch, logMetrics, offPolicyMetrics } from '#training/data/metrics.js'
import type { PackedRow } from '#training/data/pack.js'
import { buildTrainingBatch } from '#training/data/training-batch.js'
import type { TrajectoryGroup } from '#training/data/trajectory.js'
import { skipMetrics, type TrajectoryText } from '#training/data/turns.js'
import type { RlHyperparameters } from '#training/hyperparameters.js'
import { RL_OPTIMIZER } from '#training/hyperparameters.js'
import { averageSteps, type JobContext, rowSettings, type TrainingEvent, type TrainingOutcome } from './job.js'
import { needsRecomputation } from './memory.js'
import { GRADIENT_METRICS, rlStepMetrics } from './rl-metrics.js'
import { perToken, type RowBatch, type TrainedToken, toRowBatch } from './row-batch.js'
import { openRowSession } from './row-session.js'
import { buildScoreGraph } from './train-graph.js'
import { adapterFeeds, createTrainer, type MicroBatch } from './trainer.js'

/** What an RL job trains on, besides its context. */
export interface RlJob {
  readonly groups: readonly TrajectoryGroup[]
  readonly hyperparameters: RlHyperparameters
  readonly text: TrajectoryText
  /** Token id of padding. */
  readonly padTokenId: number
  /** Step of the model when the job starts: staleness of the data is measured from it; not reported when absent. */
  readonly currentStep?: number
}

/** A packed row ready for the graph, with what was computed before training. */
interface PreparedRow {
  readonly row: PackedRow
  readonly batch: RowBatch
  /** Log-probabilities under the weights at the start of the job; null unless precalculated. */
  readonly trainerLogp: Float32Array | null
  /** Log-probabilities under the base model; null without a KL penalty. */
  readonly referenceLogp: Float32Array | null
}

/**
 * Trains on trajectory groups.
 *
 * @returns events: `training_started`, then one `gradient_step` per optimizer step; the outcome is the return value. When
 *   nothing can be trained on, `num_sequences` is 0 and the outcome is the starting point
 * @throws {TrainingError} `non_finite_loss`; {DataError} for trajectories that cannot be tokenized
 */
export async function* trainRl(job: RlJob, context: JobContext): AsyncGenerator<TrainingEvent, TrainingOutcome> {
  const { groups, hyperparameters } = job
  const seed = hyperparameters.seed ?? context.jobId
  const { rows, skips, trainableTokenCount, trainedTrajectoryCount } = buildTrainingBatch(groups, {
    ...hyperparameters,
    text: job.text,
    contextLength: context.prepared.config.contextLength,
    padTokenId: job.padTokenId,
    seed,
  })
  const steps = chunk(rows, hyperparameters.gradAccumulationSequences)
  yield {
    type: 'training_started',
    data: {
      num_sequences: steps.length,
      num_packed_sequences: rows.length,
      num_trainable_tokens: trainableTokenCount,
      num_trained_trajectories: trainedTrajectoryCount,
      ...skipMetrics(skips),
    },
  }
  const done: Record<string, number>[] = []
  if (steps.length > 0) {
    const settings = await rowSettings(context)
    const prepared = await scoreRows(rows, hyperparameters, { ...context, ...settings })
    const loss = { kind: 'policy' as const, options: hyperparameters.policyLoss }
    const longest = rows.reduce((length, row) => Math.max(length, row.tokens.length), 0)
    const isRecomputed = needsRecomputation(context.prepared.config, { rows: 1, length: longest })
    const trainer = await createTrainer({ ...context, ...settings, loss, settings: RL_OPTIMIZER, isRecomputed })
    try {
      for (const step of chunk(prepared, hyperparameters.gradAccumulationSequences)) {
        const startedMs = context.clock.monotonicMs()
        const completions = step.reduce((sum, { row }) => sum + row.sequences.length, 0)
        const multiplier = completions ** hyperparameters.numTrajectoriesLearningRateMultiplierPower
        const result = await trainer.step(toMicroBatches(step, hyperparameters), {
          learningRate: hyperparameters.learningRate * multiplier,
        })
        const data = rlStepMetrics(step, result, {
          groups,
          hyperparameters,
          elapsedMs: context.clock.monotonicMs() - startedMs,
        })
        done.push(data)
        yield { type: 'gradient_step', data }
      }
    } finally {
      await trainer.release()
    }
  }
  return {
    adapter: context.adapter,
    optimizer: context.optimizer,
    metrics: {
      ...logMetrics(groups, 'train'),
      ...(job.currentStep === undefined ? {} : offPolicyMetrics(groups, job.currentStep)),
      ...averageSteps(done, GRADIENT_METRICS),
      'data/step_num_gradient_steps': steps.length,
      'data/step_num_groups_trainable': countBatch(groups).groupsTrainable,
    },
  }
}

/** Runs the forward passes that must precede the first step. */
async function scoreRows(
  rows: readonly PackedRow[],
  hyperparameters: RlHyperparameters,
  context: JobContext & Awaited<ReturnType<typeof rowSettings>>,
): Promise<PreparedRow[]> {
  const prepared = rows.map((row) => ({ row, batch: toRowBatch([row]), trainerLogp: null, referenceLogp: null }))
  const needsReference = hyperparameters.policyLoss.kl !== null
  if (!hyperparameters.precalculateLogprobs && !needsReference) return prepared
  const session = await openRowSession(buildScoreGraph(context.model), context.session)
  try {
    const policy = adapterFeeds(context.adapter)
    const base = withoutAdapter(policy)
    const scored: PreparedRow[] = []
    for (const { row, batch } of prepared) {
      const score = async (adapter: Record<string, HostTensor>): Promise<Float32Array> =>
        float32Of((await session.run(batch, adapter, {}, ['logp']))['logp'])
      const trainerLogp = hyperparameters.precalculateLogprobs ? await score(policy) : null
      scored.push({ row, batch, trainerLogp, referenceLogp: needsReference ? await score(base) : null })
    }
    return scored
  } finally {
    await session.release()
  }
}

/** Every B zero: the base model itself. */
function withoutAdapter(feeds: Readonly<Record<string, HostTensor>>): Record<string, HostTensor> {
  return Object.fromEntries(
    Object.entries(feeds).map(([name, { shape, data }]) => [name, float32Tensor(new Float32Array(data.length), shape)]),
  )
}

function toMicroBatches(step: readonly PreparedRow[], hyperparameters: RlHyperparameters): MicroBatch[] {
  const tokenCount = step.reduce((sum, { batch }) => sum + batch.trained.length, 0)
  const denominator = float32Tensor(Float32Array.of(tokenCount), [])
  return step.map(({ row, batch, trainerLogp, referenceLogp }) => {
    const read = (values: Float32Array, padding = 0): HostTensor =>
      perToken(batch, (token) => values[token.index] as number, padding)
    const sampler = read(row.logprobs, Number.NaN)
    const segments = hyperparameters.policyLoss.ratioLevel === 'token' ? {} : { segments: segmentMatrix(row, batch) }
    return {
      batch,
      lossInputs: {
        denominator,
        weight: read(row.weights),
        advantage: read(row.advantages),
        mask: perToken(batch, () => 1),
        old_logp: trainerLogp === null ? sampler : float32Tensor(trainerLogp, [trainerLogp.length]),
        sampler_logp: sampler,
        ...(referenceLogp === null ? {} : { reference_logp: float32Tensor(referenceLogp, [referenceLogp.length]) }),
        ...segments,
      },
    }
  })
}

/** Membership of the trained tokens in their sequences: [N, G], 0 or 1. */
function segmentMatrix(row: PackedRow, batch: RowBatch): HostTensor {
  const segmentOf = ({ index }: TrainedToken): number => row.groupIds[index] as number
  const segments = [...new Set(batch.trained.map(segmentOf))]
  const columns = new Map(segments.map((segment, column) => [segment, column]))
  const data = new Float32Array(batch.paddedCount * segments.length)
  batch.trained.forEach((token, n) => {
    data[n * segments.length + (columns.get(segmentOf(token)) as number)] = 1
  })
  return float32Tensor(data, [batch.paddedCount, segments.length])
}

function float32Of(tensor: HostTensor | undefined): Float32Array {
  if (tensor?.dtype !== 'float32') throw new Error('the score graph returned no log-probabilities')
  return tensor.data
}

function chunk<Item>(items: readonly Item[], size: number): Item[][] {
  return Array.from({ length: Math.ceil(items.length / size) }, (_, i) => items.slice(i * size, (i + 1) * size))
}
