/**
 * A preference job: pairs of answers to optimizer steps, in the order of the file (`numerics/nn/preference-loss.ts`).
 *
 * The reference is frozen and scores every pair once, before the first step: the checkpoint the job starts from, another step of
 * the model, or the base model. A batch's loss is the mean over its pairs, whatever micro-batches it is cut into.
 */

import { notesOfRows } from '#formats/rows/notes/data-notes.js'
import type { PreferenceBatch } from '#formats/rows/preference-data.js'
import { isAveraged, type PreferenceLossOptions } from '#numerics/nn/preference-loss.js'
import { float32Tensor } from '#numerics/tensor/host-tensor.js'
import { type BatchSteps, trainEpochs } from '#training/trainer/epochs/epochs.js'
import { rateNotes } from '#training/trainer/epochs/schedule.js'
import type { ValidationMetrics } from '#training/trainer/epochs/validation.js'
import { type JobContext, openLearner, type TrainingEvent, type TrainingOutcome } from '#training/trainer/job.js'
import type { Learner, MicroBatch } from '#training/trainer/learner/learner.js'
import { longestRow, type MemoryNeeds, memoryFacts, planMemory } from '#training/trainer/memory.js'
import { optimizerSettings } from '#training/trainer/optimizer-settings.js'
import { averageSteps } from '#training/trainer/progress.js'
import { leftOutRows, templateMetrics } from '#training/trainer/report.js'
import { applyResumePoint } from '#training/trainer/resume-point.js'
import { type ReferencePolicy, scoreOfReference } from '#training/trainer/scores.js'
import { createTrainer } from '#training/trainer/trainer.js'
import type { DpoHyperparameters } from './dpo-hyperparameters.js'
import { preferenceMeasures } from './dpo-metrics.js'
import {
  type AnswerLogps,
  addAnswerLogps,
  chosenShare,
  chosenTokenCount,
  largestPairBatch,
  meanLogps,
  noLogps,
  type PairRows,
  pairMatrix,
  toPairRows,
} from './dpo-rows.js'

import { assertMeasurable, openPreferenceLoss, type PreferenceRows, scorePairs } from './reference.js'

/** What a preference job trains on, besides its context. */
export interface DpoJob extends PreferenceRows {
  readonly hyperparameters: DpoHyperparameters
  /** What the answers are compared with; `start` is the adapter the job starts from, as it is then. Not read when reference-free. */
  readonly reference: ReferencePolicy | 'start'
  /** What the job is measured on; null for nothing. */
  readonly validation: PreferenceRows | null
}

/** Names that are averaged over steps into the checkpoint's metrics. */
const STEP_METRICS = [
  'loss',
  'grad_norm',
  'learning_rate',
  'rewards/chosen',
  'rewards/rejected',
  'rewards/accuracies',
  'rewards/margins',
  'logps/chosen',
  'logps/rejected',
  'nll_loss',
] as const

/**
 * Trains on preferences.
 *
 * @returns events as `trainRl`; `num_sequences` is the number of batches with a pair, over all epochs
 * @throws {TrainingError} `non_finite_loss`; what reading the batches throws
 */
export async function* trainDpo(job: DpoJob, context: JobContext): AsyncGenerator<TrainingEvent, TrainingOutcome> {
  const { survey } = job
  const { progress, resumePoint } = context
  const { report } = progress
  const started = outlineDpo(job, context)
  if (resumePoint === null) yield started
  const validated = survey.trainableBatchCount > 0 ? yield* trainBatches(job, context) : {}
  return {
    metrics: {
      ...averageSteps(progress),
      ...validated,
      'data/step_num_pairs': survey.pairCount,
      'data/step_num_gradient_steps': progress.stepCount,
      'data/step_trainer_tokens': report.trainedTokens,
    },
  }
}

/**
 * Notes in the report of the job's progress what is known before the first step.
 *
 * @returns the first event
 * @throws {InvalidRequestError} `no_trainable_tokens`
 */
export function outlineDpo({ survey, hyperparameters, validation }: DpoJob, { progress }: JobContext): TrainingEvent {
  if (validation !== null && survey.trainableBatchCount > 0) assertMeasurable(validation.survey)
  const stepCount = survey.trainableBatchCount * hyperparameters.epochs
  progress.report.plannedSteps = stepCount
  progress.report.notes = [
    ...notesOfRows(survey.notes, validation?.survey.notes),
    ...rateNotes(hyperparameters, survey.batchCount * hyperparameters.epochs),
  ]
  progress.report.leftOut = [
    ...leftOutRows(survey),
    ...(validation === null ? [] : leftOutRows(validation.survey, 'validation')),
  ]
  return {
    type: 'training_started',
    data: {
      num_sequences: stepCount,
      num_pairs: survey.pairCount,
      num_trainable_tokens: survey.answerTokenCount,
      num_epochs: hyperparameters.epochs,
      num_dropped_overlength: survey.overlengthCount,
      num_untrainable: survey.untrainableCount,
      ...templateMetrics(survey),
      ...(validation === null ? {} : { num_validation_pairs: validation.survey.pairCount }),
    },
  }
}

/** What the job's rows take, before any is read. */
export function memoryNeeds({
  survey,
  validation,
  hyperparameters,
}: Pick<DpoJob, 'survey' | 'validation' | 'hyperparameters'>): MemoryNeeds {
  const { isTogether, batchSize } = hyperparameters
  return {
    loss: 'preference',
    largest: largestPairBatch(survey, isTogether ? Math.min(batchSize, survey.pairCount) : null),
    measured: validation === null ? null : largestPairBatch(validation.survey),
  }
}

/** @returns what validation rows say of the state the job ends with */
async function* trainBatches(job: DpoJob, context: JobContext): AsyncGenerator<TrainingEvent, ValidationMetrics> {
  const { hyperparameters } = job
  const { progress, clock } = context
  const { report } = progress
  const needs = memoryNeeds(job)
  const memory = planMemory(context.prepared.config, needs, context.availableBytes ?? null)
  report.facts['memory'] = memoryFacts(memory)
  const rows = { longestRow: longestRow(needs), isRecomputed: memory.isRecomputed }
  const learner = await openLearner(context, { precision: hyperparameters.precision, rows })
  // Scored with the weights the job starts from, also when it goes on from a resume point.
  const referenceMs = clock.monotonicMs()
  const references = await scoreReference(job, job, learner)
  const validationReferences = job.validation === null ? null : await scoreReference(job, job.validation, learner)
  report.seconds.scores += (clock.monotonicMs() - referenceMs) / 1000
  await applyResumePoint(learner, context)
  const settings = optimizerSettings(hyperparameters)
  const loss = { kind: 'preference' as const, options: hyperparameters.preferenceLoss }
  try {
    const trainer = await createTrainer({ ...context, learner, loss, settings })
    const measurement =
      job.validation === null || validationReferences === null
        ? null
        : await openPreferenceLoss(job.validation, validationReferences, learner, hyperparameters)
    const steps: BatchSteps<PreferenceBatch> = {
      learner,
      measurement,
      maxGradientNorm: settings.maxGradientNorm,
      averaged: STEP_METRICS,
      isTrainable: ({ pairs }) => pairs.length > 0,
      async makeStep(batch, learningRate) {
        const startedMs = clock.monotonicMs()
        const reference = references[batch.index] ?? noLogps(batch.pairs.length)
        const parts = toPairRows(batch.pairs, hyperparameters)
        const result = await trainer.step(toMicroBatches(parts, reference, hyperparameters.preferenceLoss), {
          learningRate,
          gradientStep: progress.stepCount + 1,
        })
        const policy = noLogps(batch.pairs.length)
        for (const [p, part] of parts.entries()) {
          addAnswerLogps(policy, part, result.outputs[p]?.logp ?? new Float32Array(0))
        }
        const data = finite({
          loss: result.loss,
          ...preferenceMeasures(policy, reference, hyperparameters.preferenceLoss).metrics,
          grad_norm: result.gradientNorm,
          learning_rate: learningRate,
          num_pairs: batch.pairs.length,
          num_tokens: batch.tokenCount,
          num_trainable_tokens: batch.answerTokenCount,
          tokens_per_second: batch.tokenCount / ((clock.monotonicMs() - startedMs) / 1000),
        })
        return { result, data, tokens: batch.tokenCount, trainedTokens: batch.answerTokenCount }
      },
    }
    return yield* trainEpochs(job, steps, context)
  } finally {
    await learner.park()
  }
}

/** Log-probabilities of all batches under the reference; zeros without one. */
async function scoreReference(
  { hyperparameters, reference }: DpoJob,
  rows: PreferenceRows,
  learner: Learner,
): Promise<AnswerLogps[]> {
  const all: AnswerLogps[] = []
  if (hyperparameters.referenceFree) {
    for await (const { pairs } of rows.openBatches()) all.push(noLogps(pairs.length))
    return all
  }
  const score = await scoreOfReference(learner, reference)
  try {
    for await (const { pairs } of rows.openBatches()) all.push(await scorePairs(pairs, score))
    return all
  } finally {
    await learner.park()
  }
}

function toMicroBatches(
  parts: readonly PairRows[],
  answerLogps: AnswerLogps,
  { loss, sftWeight }: PreferenceLossOptions,
): MicroBatch[] {
  const pairCount = answerLogps.chosen.length
  const reference = isAveraged(loss) ? meanLogps(answerLogps) : answerLogps
  const tokenCount = chosenTokenCount(parts)
  const denominator = float32Tensor(Float32Array.of(pairCount), [])
  return parts.map((part) => {
    const perPair = (read: (pair: number) => number) =>
      float32Tensor(Float32Array.from(part.indices, read), [part.indices.length])
    const chosen = (pair: number): number => reference.chosen[pair] ?? 0
    const rejected = (pair: number): number => reference.rejected[pair] ?? 0
    return {
      batch: part.batch,
      lossInputs: {
        denominator,
        pairs: pairMatrix(part, isAveraged(loss)),
        ...(loss === 'formula'
          ? { reference_chosen: perPair(chosen), reference_rejected: perPair(rejected) }
          : { reference_margin: perPair((pair) => chosen(pair) - rejected(pair)) }),
        ...(sftWeight === 0 ? {} : { chosen_share: chosenShare(part, tokenCount) }),
      },
    }
  })
}

function finite(data: Readonly<Record<string, number>>): Record<string, number> {
  return Object.fromEntries(Object.entries(data).filter(([, value]) => Number.isFinite(value)))
}
