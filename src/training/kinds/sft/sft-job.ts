/**
 * A supervised fine-tuning job: batches of examples to optimizer steps, in the order of the file.
 *
 * A batch's loss is the summed cross-entropy of its trainable tokens divided by their number, whatever micro-batches it is cut
 * into. Batches in which nothing trains are passed over and make no step.
 */

import { InvalidRequestError } from '#base/errors/errors.js'
import type { OptionsOf } from '#contract/jobs/kinds.js'
import { notesOfRows } from '#formats/rows/notes/data-notes.js'
import { assertLearningRateCount, type SftBatch, type SftSurvey } from '#formats/rows/sft-data.js'
import { type BatchSteps, trainEpochs } from '#training/trainer/epochs/epochs.js'
import { rateNotes } from '#training/trainer/epochs/schedule.js'
import type { Measured, ValidationMetrics } from '#training/trainer/epochs/validation.js'
import { formulaOf, type Hyperparameters } from '#training/trainer/hyperparameters.js'
import { type JobContext, openLearner, type TrainingEvent, type TrainingOutcome } from '#training/trainer/job.js'
import type { Learner, MicroBatch } from '#training/trainer/learner/learner.js'
import { longestRow, type MemoryNeeds, memoryFacts, planMemory } from '#training/trainer/memory.js'
import { optimizerSettings } from '#training/trainer/optimizer-settings.js'
import { averageSteps, type JobProgress } from '#training/trainer/progress.js'
import {
  type JobReport,
  leftOutRows,
  RUNNING_SUMS,
  templateMetrics,
  type UnusedRows,
  whyUnused,
} from '#training/trainer/report.js'
import { applyResumePoint } from '#training/trainer/resume-point.js'
import { scoreOf } from '#training/trainer/scores.js'
import { createTrainer, type StepResult } from '#training/trainer/trainer.js'
import { largestMicroBatch, toMicroBatches, toRowBatches } from './sft-rows.js'

// The loss of an SFT job on rows that are not trained on: cross-entropy, times the weight of its row, summed over the trainable
// tokens of all rows, divided by their number.

/** Rows a job is measured on. */
interface ValidationRows {
  readonly survey: SftSurvey
  /** All batches from the first; called once per measurement. */
  readonly openBatches: () => AsyncIterable<SftBatch>
}

/** What a survey says of rows that are not used. */
function unusedRows({ droppedCount, ...others }: SftSurvey): UnusedRows {
  const { untrainableCount, leftOutLines, leftOutMessages, refused } = others
  return { overlengthCount: droppedCount, untrainableCount, leftOutLines, leftOutMessages, refused }
}

/** Before anything is loaded. @throws {InvalidRequestError} `no_trainable_tokens` when nothing in the rows would train */
function assertMeasurable({ survey }: ValidationRows): void {
  if (survey.trainableTokenCount > 0) return
  throw new InvalidRequestError(
    'no_trainable_tokens',
    `validation_data_url holds no row in which anything would train${whyUnused(unusedRows(survey))}`,
    { hint: 'give shorter rows with an assistant turn, or leave the validation rows out' },
  )
}

/** Measures the learner as it is at each call. */
async function openSftLoss(
  rows: ValidationRows,
  learner: Learner,
): Promise<{ readonly measureRows: () => Promise<Measured> }> {
  await learner.prepare('scores')
  const score = scoreOf(learner)
  return {
    measureRows: async () => {
      let sum = 0
      let count = 0
      for await (const { sequences } of rows.openBatches()) {
        for (const { batch, weights } of toRowBatches(sequences)) {
          const logp = await score(batch)
          batch.trained.forEach(({ row }, n) => {
            sum -= (weights[row] ?? 1) * (logp[n] as number)
          })
          count += batch.trained.length
        }
      }
      return { loss: sum / count }
    },
  }
}

/**
 * What a supervised job needs to know besides its examples: its options.
 */
type SftHyperparameters = Hyperparameters<OptionsOf<'sft'>>

// How well a supervised job fits its rows at its end: what `findings.ts` says of whole answers, and of a job that was cut while
// it still learned. Counted in the report's facts, so that a job that goes on from a resume point ends with the same figures.

/** Parts that one pass is cut into where there is no other. */
const PARTS = 4

/** Steps whose losses are compared with those of so many before them: those of a pass. */
export function stepsToCompare({ epochs, steps }: { readonly epochs: number; readonly steps: number }): number {
  return Math.max(1, epochs > 1 ? steps : Math.ceil(steps / PARTS))
}

/** Counts the loss of a step. */
export function noteFit({ facts }: JobReport, loss: number, window: number): void {
  const { sum = 0, count = 0, ...means } = facts[RUNNING_SUMS] ?? {}
  const now = { sum: sum + loss, count: count + 1 }
  const { last } = means
  facts[RUNNING_SUMS] =
    now.count < window
      ? { ...means, ...now }
      : { ...(last === undefined ? {} : { before: last }), last: now.sum / now.count }
}

/**
 * Writes the figures of a job that has ended: `trained` loss of its last steps and `trained_before` of as many before them,
 * `held_out` and `held_out_before` where rows were measured, the tokens of an answer, and the share of the answers that hold what
 * the base model cannot write.
 */
export function closeFit(
  report: JobReport,
  { answerTokens, lostShare }: { readonly answerTokens: number; readonly lostShare: number },
): void {
  const { facts, validation } = report
  const { before, last } = facts[RUNNING_SUMS] ?? {}
  delete facts[RUNNING_SUMS]
  const losses = validation.map(({ loss }) => loss)
  const best = losses.length < 2 ? undefined : losses.reduce((a, b) => Math.min(a, b))
  const [previous, final] = losses.slice(-2)
  const figures = {
    answer_tokens: answerTokens,
    lost_share: lostShare === 0 ? undefined : lostShare,
    trained: last,
    trained_before: before,
    held_out: best,
    // of a job that did not end at its best, nothing fell any more
    held_out_before: best === undefined ? undefined : final === best ? previous : best,
  }
  facts['fit'] = Object.fromEntries(
    Object.entries(figures).flatMap(([name, value]) => (value === undefined ? [] : [[name, value]])),
  )
}

/** What an SFT job trains on, besides its context. */
export interface SftJob {
  /** What a first pass over the data found. */
  readonly survey: SftSurvey
  /** The batches from the first; called once per epoch, read one at a time. */
  readonly openBatches: () => AsyncIterable<SftBatch>
  readonly hyperparameters: SftHyperparameters
  /** What the job is measured on; null for nothing. */
  readonly validation: ValidationRows | null
}

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
  const { progress, resumePoint } = context
  const { report } = progress
  const started = outlineSft(job, context)
  if (resumePoint === null) yield started
  const validated = survey.trainableBatchCount > 0 ? yield* trainBatches(job, context) : {}
  return {
    metrics: {
      ...averageSteps(progress),
      ...(hyperparameters.metricLogging?.enabled === true ? loggedMetrics(progress) : {}),
      ...validated,
      'data/step_num_trajectories': survey.exampleCount,
      'data/step_num_gradient_steps': progress.stepCount,
      'data/step_trainer_tokens': report.trainedTokens,
    },
  }
}

/**
 * Notes in the report of the job's progress what is known before the first step.
 *
 * @returns the first event
 * @throws {InvalidRequestError} `learning_rate_count`, `no_trainable_tokens`
 */
export function outlineSft({ survey, hyperparameters, validation }: SftJob, { progress }: JobContext): TrainingEvent {
  const { epochs } = hyperparameters
  assertLearningRateCount(hyperparameters.learningRate, survey.batchCount * epochs)
  if (validation !== null && survey.trainableBatchCount > 0) assertMeasurable(validation)
  const { report } = progress
  report.plannedSteps = survey.trainableBatchCount * epochs
  report.notes = [
    ...notesOfRows(survey.notes, validation?.survey.notes),
    ...survey.orderNotes,
    ...rateNotes(hyperparameters, survey.batchCount * epochs),
  ]
  report.leftOut = [
    ...leftOutRows(unusedRows(survey)),
    ...(validation === null ? [] : leftOutRows(unusedRows(validation.survey), 'validation')),
  ]
  return {
    type: 'training_started',
    data: {
      num_sequences: survey.trainableBatchCount * epochs,
      num_trajectories: survey.exampleCount,
      num_trainable_tokens: survey.trainableTokenCount,
      num_epochs: epochs,
      num_dropped_overlength: survey.droppedCount,
      num_untrainable: survey.untrainableCount,
      ...(survey.splitCount === 0 ? {} : { num_unmerged_histories: survey.splitCount }),
      ...templateMetrics(survey),
      ...(validation === null ? {} : { num_validation_trajectories: validation.survey.exampleCount }),
    },
  }
}

/** What the job's rows take, before any is read. */
export function memoryNeeds({ survey, validation }: Pick<SftJob, 'survey' | 'validation'>): MemoryNeeds {
  return {
    loss: 'cross_entropy',
    largest: largestMicroBatch(survey),
    measured: validation === null ? null : largestMicroBatch(validation.survey),
  }
}

/** @returns what validation rows say of the state the job ends with */
async function* trainBatches(job: SftJob, context: JobContext): AsyncGenerator<TrainingEvent, ValidationMetrics> {
  const { hyperparameters, validation } = job
  const { clock, progress } = context
  const settings = optimizerSettings(hyperparameters)
  const needs = memoryNeeds(job)
  const memory = planMemory(context.prepared.config, needs, context.availableBytes ?? null)
  const rows = { longestRow: longestRow(needs), isRecomputed: memory.isRecomputed }
  const learner = await openLearner(context, { precision: hyperparameters.precision, rows })
  await applyResumePoint(learner, context)
  progress.report.facts['memory'] = memoryFacts(memory)
  try {
    const loss = { kind: 'cross_entropy' as const, formula: formulaOf({ loss_formula: hyperparameters.lossFormula }) }
    const trainer = await createTrainer({ ...context, learner, loss, settings })
    const measurement = validation === null ? null : await openSftLoss(validation, learner)
    const window = stepsToCompare({ epochs: hyperparameters.epochs, steps: job.survey.trainableBatchCount })
    const steps: BatchSteps<SftBatch> = {
      learner,
      measurement,
      maxGradientNorm: settings.maxGradientNorm,
      averaged: STEP_METRICS,
      isTrainable: ({ trainableTokenCount }) => trainableTokenCount > 0,
      async makeStep(batch, learningRate) {
        const startedMs = clock.monotonicMs()
        const microBatches = toMicroBatches(batch)
        const result = await trainer.step(microBatches, { learningRate, gradientStep: progress.stepCount + 1 })
        const elapsedMs = clock.monotonicMs() - startedMs
        noteFit(progress.report, result.loss, window)
        const data = stepMetrics(batch, result, { microBatches, learningRate, elapsedMs })
        return { result, data, tokens: batch.tokenCount, trainedTokens: batch.trainableTokenCount }
      },
    }
    const validated = yield* trainEpochs(job, steps, context)
    const { exampleCount, droppedCount, untrainableCount, trainableTokenCount, lostCount } = job.survey
    const rowCount = Math.max(1, exampleCount - droppedCount - untrainableCount)
    closeFit(progress.report, { answerTokens: trainableTokenCount / rowCount, lostShare: lostCount / exampleCount })
    return validated
  } finally {
    await learner.park()
  }
}

/** What `metric_logging` asks for: the means of the call under `sft/`, on the checkpoint it makes. */
function loggedMetrics(progress: JobProgress): Record<string, number> {
  const means = Object.entries(averageSteps(progress)).filter(([name]) => name !== 'loss/entropy')
  return Object.fromEntries(
    means.map(([name, value]) => [`sft/${name === 'loss/train' ? 'loss' : name.slice('loss/'.length)}`, value]),
  )
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
