/**
 * A supervised fine-tuning job: batches of examples to optimizer steps, in the order of the file.
 *
 * A batch's loss is the summed cross-entropy of its trainable tokens divided by their number, whatever micro-batches it is cut
 * into. Batches in which nothing trains are passed over and make no step.
 */

import { float32Tensor } from '#numerics/tensor/host-tensor.js'
import { assertLearningRateCount, type SftBatch, type SftSequence, type SftSurvey } from '#training/data/sft-data.js'
import { SFT_OPTIMIZER, type SftHyperparameters } from '#training/hyperparameters.js'
import { type JobContext, rowSettings, type TrainingEvent, type TrainingOutcome } from './job.js'
import { type BatchSize, MICRO_BATCH_TOKENS, needsRecomputation } from './memory.js'
import { averageSteps, countStep, type JobProgress } from './progress.js'
import { applyResumePoint } from './resume-point.js'
import { perToken, sequenceRow, toRowBatch } from './row-batch.js'
import { rateOf } from './sft-schedule.js'
import { createTrainer, type MicroBatch, type StepResult } from './trainer.js'

/** What an SFT job trains on, besides its context. */
export interface SftJob {
  /** What a first pass over the data found. */
  readonly survey: SftSurvey
  /** The batches from the first; called once per epoch, read one at a time. */
  readonly openBatches: () => AsyncIterable<SftBatch>
  readonly hyperparameters: SftHyperparameters
}

/** Rows are padded to a multiple of this, so that memory is reused between steps of similar length. */
const ROW_MULTIPLE = 16

/** Names that are averaged over steps into the checkpoint's metrics. */
const STEP_METRICS = ['loss', 'entropy', 'grad_norm', 'learning_rate'] as const

/**
 * Trains on examples.
 *
 * @returns events as `trainRl`; `num_sequences` is the number of batches in which something trains, over all epochs
 * @throws {InvalidRequestError} `learning_rate_count`; {TrainingError} `non_finite_loss`; what reading the batches throws
 */
export async function* trainSft(job: SftJob, context: JobContext): AsyncGenerator<TrainingEvent, TrainingOutcome> {
  const { survey, hyperparameters } = job
  const { epochs } = hyperparameters
  const batchCount = survey.batchCount * epochs
  assertLearningRateCount(hyperparameters.learningRate, batchCount)
  const { progress, resumePoint } = context
  const started: TrainingEvent = {
    type: 'training_started',
    data: {
      num_sequences: survey.trainableBatchCount * epochs,
      num_trajectories: survey.exampleCount,
      num_trainable_tokens: survey.trainableTokenCount,
      num_epochs: epochs,
      num_dropped_overlength: survey.droppedCount,
      num_untrainable: survey.untrainableCount,
    },
  }
  if (resumePoint === null) yield started
  applyResumePoint(context, resumePoint)
  const alreadyDone = progress.stepCount
  let position = 0
  if (survey.trainableBatchCount > 0) {
    const settings = await rowSettings(context)
    const trainer = await createTrainer({
      ...context,
      ...settings,
      loss: { kind: 'cross_entropy' },
      settings: { ...SFT_OPTIMIZER, weightDecay: hyperparameters.weightDecay },
      isRecomputed: needsRecomputation(context.prepared.config, largestMicroBatch(survey)),
    })
    try {
      for await (const { batch, epoch } of allBatches(job)) {
        if (batch.trainableTokenCount === 0) continue
        position += 1
        if (position <= alreadyDone) continue
        const learningRate = rateOf(hyperparameters, epoch * survey.batchCount + batch.index, batchCount)
        const startedMs = context.clock.monotonicMs()
        const microBatches = toMicroBatches(batch)
        const result = await trainer.step(microBatches, { learningRate })
        const elapsedMs = context.clock.monotonicMs() - startedMs
        const data = stepMetrics(batch, result, { microBatches, learningRate, elapsedMs })
        countStep(progress, data, STEP_METRICS)
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
      ...averageSteps(progress),
      ...(hyperparameters.metricLogging === null ? {} : loggedMetrics(progress)),
      'data/step_num_trajectories': survey.exampleCount,
      'data/step_num_gradient_steps': progress.stepCount,
      'data/step_trainer_tokens': survey.trainableTokenCount * epochs,
    },
  }
}

/** The batches of every epoch, in the order of the file each time. */
async function* allBatches({
  openBatches,
  hyperparameters,
}: SftJob): AsyncGenerator<{ readonly batch: SftBatch; readonly epoch: number }> {
  for (let epoch = 0; epoch < hyperparameters.epochs; epoch += 1) {
    for await (const batch of openBatches()) yield { batch, epoch }
  }
}

/**
 * Cuts a batch into micro-batches: sequences of similar length together, at most `MICRO_BATCH_TOKENS` tokens each.
 */
export function toMicroBatches(batch: Pick<SftBatch, 'sequences'>): MicroBatch[] {
  const sorted = batch.sequences
    .map((sequence, index) => ({ sequence, index }))
    .sort((a, b) => b.sequence.tokenIds.length - a.sequence.tokenIds.length || a.index - b.index)
  const parts: SftSequence[][] = []
  for (const { sequence } of sorted) {
    const part = parts.at(-1)
    if (part !== undefined && (part.length + 1) * paddedLength(part) <= MICRO_BATCH_TOKENS) part.push(sequence)
    else parts.push([sequence])
  }
  const ready = parts.map((part) =>
    toRowBatch(
      part.map(({ tokenIds, lossMask }) => sequenceRow(tokenIds, lossMask)),
      { length: paddedLength(part) },
    ),
  )
  const tokenCount = ready.reduce((sum, { trained }) => sum + trained.length, 0)
  const denominator = float32Tensor(Float32Array.of(tokenCount), [])
  return ready.map((rows) => ({ batch: rows, lossInputs: { denominator, weight: perToken(rows, () => 1) } }))
}

/** Length of a micro-batch whose first sequence is its longest. */
function paddedLength(part: readonly SftSequence[]): number {
  return padded(part[0]?.tokenIds.length ?? 1)
}

function padded(length: number): number {
  return Math.ceil(length / ROW_MULTIPLE) * ROW_MULTIPLE
}

/** What `metric_logging` asks for: the means of the call under `sft/`, on the checkpoint it makes. */
function loggedMetrics(progress: JobProgress): Record<string, number> {
  const means = Object.entries(averageSteps(progress)).filter(([name]) => name !== 'loss/entropy')
  return Object.fromEntries(
    means.map(([name, value]) => [`sft/${name === 'loss/train' ? 'loss' : name.slice('loss/'.length)}`, value]),
  )
}

/** The largest micro-batch the data can make. */
function largestMicroBatch({ longestLength }: SftSurvey): BatchSize {
  const length = padded(longestLength)
  return { rows: Math.max(1, Math.floor(MICRO_BATCH_TOKENS / length)), length }
}

function stepMetrics(
  batch: SftBatch,
  result: StepResult,
  facts: { readonly microBatches: readonly MicroBatch[]; readonly learningRate: number; readonly elapsedMs: number },
): Record<string, number> {
  let entropy = 0
  facts.microBatches.forEach(({ batch: rows }, at) => {
    rows.trained.forEach((_, n) => {
      entropy += result.outputs[at]?.entropy[n] as number
    })
  })
  const data: Record<string, number> = {
    loss: result.loss,
    entropy: entropy / batch.trainableTokenCount,
    grad_norm: result.gradientNorm,
    learning_rate: facts.learningRate,
    num_trajectories: batch.sequences.length,
    num_tokens: batch.tokenCount,
    num_trainable_tokens: batch.trainableTokenCount,
    num_dropped_overlength: batch.droppedCount,
    tokens_per_second: batch.tokenCount / (facts.elapsedMs / 1000),
  }
  return Object.fromEntries(Object.entries(data).filter(([, value]) => Number.isFinite(value)))
}
