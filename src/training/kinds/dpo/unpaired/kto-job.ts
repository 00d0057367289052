/**
 * A job on single answers that are good or bad (KTO, arXiv:2402.01306; `numerics/nn/preference-loss.ts`), in the order of the file.
 *
 * The reference is frozen and scores everything once, before the first step. The reference point of a step is measured under the
 * policy of the moment, by a forward pass over the mismatched answers of its batch, and no gradient flows through it. A batch's loss is the
 * mean over its answers, whatever micro-batches it is cut into.
 */
import { notesOfRows } from '#formats/rows/notes/data-notes.js'
import type { UnpairedBatch, UnpairedSurvey } from '#formats/rows/unpaired-data.js'
import { float32Tensor } from '#numerics/tensor/host-tensor.js'
import { type BatchSteps, trainEpochs } from '#training/trainer/epochs/epochs.js'
import { rateNotes } from '#training/trainer/epochs/schedule.js'
import type { Measured, ValidationMetrics } from '#training/trainer/epochs/validation.js'
import { type JobContext, openLearner, type TrainingEvent, type TrainingOutcome } from '#training/trainer/job.js'
import type { Learner, MicroBatch } from '#training/trainer/learner/learner.js'
import { longestRow, type MemoryNeeds, memoryFacts, planMemory } from '#training/trainer/memory.js'
import { optimizerSettings } from '#training/trainer/optimizer-settings.js'
import { averageSteps } from '#training/trainer/progress.js'
import { leftOutRows, templateMetrics } from '#training/trainer/report.js'
import { applyResumePoint } from '#training/trainer/resume-point.js'
import { type ReferencePolicy, type Score, scoreOf, scoreOfReference } from '#training/trainer/scores.js'
import { createTrainer } from '#training/trainer/trainer.js'
import type { DpoHyperparameters } from '../dpo-hyperparameters.js'
import { assertMeasurable } from '../reference.js'
import { addKtoSums, type KtoSums, ktoMeasures, ktoSums, referencePoint, signOf, weightOf } from './kto-measures.js'
import {
  type AnswerRows,
  answerMatrix,
  largestAnswerBatch,
  scoreAnswers,
  sumAnswers,
  toAnswerRows,
} from './kto-rows.js'

/** Answers as a job reads them. */
export interface UnpairedRows {
  readonly survey: UnpairedSurvey
  /** All batches from the first; called once per pass. */
  readonly openBatches: () => AsyncIterable<UnpairedBatch>
}

/** What such a job trains on, besides its context. */
export interface KtoJob extends UnpairedRows {
  readonly hyperparameters: DpoHyperparameters
  /** What the answers are compared with; `start` is the adapter the job starts from, as it is then. */
  readonly reference: ReferencePolicy | 'start'
  /** What the job is measured on; null for nothing. */
  readonly validation: UnpairedRows | null
}

/** Log-probabilities of a batch under one policy. */
interface BatchLogps {
  readonly answers: Float64Array
  readonly mismatched: Float64Array
}

/** Names that are averaged over steps into the checkpoint's metrics. */
const STEP_METRICS = [
  'loss',
  'grad_norm',
  'learning_rate',
  'rewards/chosen',
  'rewards/rejected',
  'rewards/margins',
  'logps/chosen',
  'logps/rejected',
  'kl',
] as const

/** Weighted answers of one label may be up to this many times those of the other (arXiv:2402.01306, section 4.2, has 1 to 4/3). */
const BALANCED = 4 / 3

/**
 * Trains on labelled answers.
 *
 * @returns events as `trainDpo`; `num_sequences` is the number of batches with an answer, over all epochs
 * @throws {TrainingError} `non_finite_loss`; what reading the batches throws
 */
export async function* trainKto(job: KtoJob, context: JobContext): AsyncGenerator<TrainingEvent, TrainingOutcome> {
  const { survey } = job
  const { progress, resumePoint } = context
  const started = outlineKto(job, context)
  if (resumePoint === null) yield started
  const validated = survey.trainableBatchCount > 0 ? yield* trainBatches(job, context) : {}
  return {
    metrics: {
      ...averageSteps(progress),
      ...validated,
      'data/step_num_answers': survey.answerCount,
      'data/step_num_gradient_steps': progress.stepCount,
      'data/step_trainer_tokens': progress.report.trainedTokens,
    },
  }
}

/**
 * Notes in the report of the job's progress what is known before the first step.
 *
 * @returns the first event
 * @throws {InvalidRequestError} `no_trainable_tokens`
 */
export function outlineKto({ survey, hyperparameters, validation }: KtoJob, { progress }: JobContext): TrainingEvent {
  if (validation !== null && survey.trainableBatchCount > 0) assertMeasurable(validation.survey)
  const stepCount = survey.trainableBatchCount * hyperparameters.epochs
  progress.report.plannedSteps = stepCount
  progress.report.notes = [
    ...notesOfRows(survey.notes, validation?.survey.notes),
    ...balanceNotes(survey, hyperparameters),
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
      num_answers: survey.answerCount,
      num_desirable: survey.desirableCount,
      num_trainable_tokens: survey.answerTokenCount,
      num_epochs: hyperparameters.epochs,
      num_dropped_overlength: survey.overlengthCount,
      num_untrainable: survey.untrainableCount,
      ...templateMetrics(survey),
      ...(validation === null ? {} : { num_validation_answers: validation.survey.answerCount }),
    },
  }
}

/** What is to be said where one label outweighs the other. */
function balanceNotes({ answerCount, desirableCount: good }: UnpairedSurvey, options: DpoHyperparameters): string[] {
  const bad = answerCount - good
  if (answerCount === 0) return []
  if (good === 0 || bad === 0) {
    return [
      `all ${answerCount} answers are labelled ${good === 0 ? 'bad' : 'good'}: nothing says what the other kind is`,
    ]
  }
  const { desirableWeight, undesirableWeight } = options
  const [weightedGood, weightedBad] = [good * desirableWeight, bad * undesirableWeight]
  if (Math.max(weightedGood, weightedBad) <= BALANCED * Math.min(weightedGood, weightedBad)) return []
  const advice =
    weightedGood > weightedBad
      ? `undesirable_weight ${Number((weightedGood / bad).toPrecision(2))}`
      : `desirable_weight ${Number((weightedBad / good).toPrecision(2))}`
  return [
    `${good} answers are good and ${bad} bad, weighted ${desirableWeight} and ${undesirableWeight}: ${advice} balances them`,
  ]
}

/** What the job's rows take, before any is read. */
export function ktoMemoryNeeds({ survey, validation }: Pick<KtoJob, 'survey' | 'validation'>): MemoryNeeds {
  const longestLength = Math.max(survey.longestLength, validation?.survey.longestLength ?? 0)
  return { loss: 'preference', largest: largestAnswerBatch(survey), measured: largestAnswerBatch({ longestLength }) }
}

/** @returns what validation rows say of the state the job ends with */
async function* trainBatches(job: KtoJob, context: JobContext): AsyncGenerator<TrainingEvent, ValidationMetrics> {
  const { hyperparameters, validation } = job
  const { progress, clock } = context
  const { report } = progress
  const needs = ktoMemoryNeeds(job)
  const memory = planMemory(context.prepared.config, needs, context.availableBytes ?? null)
  report.facts['memory'] = memoryFacts(memory)
  const rows = { longestRow: longestRow(needs), isRecomputed: memory.isRecomputed }
  const learner = await openLearner(context, { precision: hyperparameters.precision, rows })
  // Scored with the weights the job starts from, also when it goes on from a resume point.
  const referenceMs = clock.monotonicMs()
  const references = await scoreReference(job, job, learner)
  const validationReferences = validation === null ? [] : await scoreReference(job, validation, learner)
  report.seconds.scores += (clock.monotonicMs() - referenceMs) / 1000
  await applyResumePoint(learner, context)
  const settings = optimizerSettings(hyperparameters)
  const loss = { kind: 'preference' as const, options: hyperparameters.preferenceLoss }
  try {
    const trainer = await createTrainer({ ...context, learner, loss, settings })
    await learner.prepare('scores')
    const score = scoreOf(learner)
    const steps: BatchSteps<UnpairedBatch> = {
      learner,
      measurement:
        validation === null
          ? null
          : { measureRows: () => measure(validation, validationReferences, score, hyperparameters) },
      maxGradientNorm: settings.maxGradientNorm,
      averaged: STEP_METRICS,
      isTrainable: ({ answers }) => answers.length > 0,
      async makeStep(batch, learningRate) {
        const startedMs = clock.monotonicMs()
        const reference = references[batch.index] as BatchLogps
        const kl = referencePoint(await scoreAnswers(mismatchedOf(batch), score), reference.mismatched)
        const parts = toAnswerRows(batch.answers.map(({ answer }) => answer))
        const signs = batch.answers.map(signOf)
        const microBatches = toMicroBatches(parts, { signs, reference: reference.answers, kl }, hyperparameters)
        const result = await trainer.step(microBatches, { learningRate, gradientStep: progress.stepCount + 1 })
        const policy = sumAnswers(
          parts,
          result.outputs.map(({ logp }) => logp),
        )
        const sums = ktoSums({ signs, policy, reference: reference.answers }, kl, hyperparameters.preferenceLoss)
        const data = {
          ...ktoMeasures(sums).metrics,
          loss: result.loss,
          grad_norm: result.gradientNorm,
          learning_rate: learningRate,
          num_answers: batch.answers.length,
          num_tokens: batch.tokenCount,
          num_trainable_tokens: batch.answerTokenCount,
          tokens_per_second: batch.tokenCount / ((clock.monotonicMs() - startedMs) / 1000),
        }
        const finite = Object.fromEntries(Object.entries(data).filter(([, value]) => Number.isFinite(value)))
        return { result, data: finite, tokens: batch.tokenCount, trainedTokens: batch.answerTokenCount }
      },
    }
    return yield* trainEpochs(job, steps, context)
  } finally {
    await learner.park()
  }
}

/** Log-probabilities of all batches under the reference. */
async function scoreReference({ reference }: KtoJob, rows: UnpairedRows, learner: Learner): Promise<BatchLogps[]> {
  const score = await scoreOfReference(learner, reference)
  const all: BatchLogps[] = []
  try {
    for await (const batch of rows.openBatches()) all.push(await scoreBatch(batch, score))
    return all
  } finally {
    await learner.park()
  }
}

async function scoreBatch(batch: UnpairedBatch, score: Score): Promise<BatchLogps> {
  return {
    answers: await scoreAnswers(
      batch.answers.map(({ answer }) => answer),
      score,
    ),
    mismatched: await scoreAnswers(mismatchedOf(batch), score),
  }
}

/** The loss and what a step reports, means over all answers under the adapter as it is; each batch has its own reference point. */
async function measure(
  rows: UnpairedRows,
  references: readonly BatchLogps[],
  score: Score,
  { preferenceLoss }: DpoHyperparameters,
): Promise<Measured> {
  let total: KtoSums = ktoSums(
    { signs: [], policy: new Float64Array(), reference: new Float64Array() },
    0,
    preferenceLoss,
  )
  for await (const batch of rows.openBatches()) {
    const [policy, reference] = [await scoreBatch(batch, score), references[batch.index] as BatchLogps]
    const kl = referencePoint(policy.mismatched, reference.mismatched)
    const logps = { signs: batch.answers.map(signOf), policy: policy.answers, reference: reference.answers }
    total = addKtoSums(total, ktoSums(logps, kl, preferenceLoss))
  }
  return ktoMeasures(total)
}

function mismatchedOf({ answers }: UnpairedBatch) {
  return answers.flatMap(({ mismatched }) => mismatched ?? [])
}

function toMicroBatches(
  parts: readonly AnswerRows[],
  {
    signs,
    reference,
    kl,
  }: { readonly signs: readonly number[]; readonly reference: Float64Array; readonly kl: number },
  { preferenceLoss }: DpoHyperparameters,
): MicroBatch[] {
  const denominator = float32Tensor(Float32Array.of(signs.length), [])
  return parts.map((part) => {
    const perAnswer = (read: (sign: number, index: number) => number) =>
      float32Tensor(
        Float32Array.from(part.indices, (index) => read(signs[index] as number, index)),
        [part.indices.length],
      )
    return {
      batch: part.batch,
      lossInputs: {
        denominator,
        pairs: answerMatrix(part, signs),
        reference_margin: perAnswer((sign, index) => sign * ((reference[index] as number) + kl)),
        answer_weights: perAnswer((sign) => weightOf(sign, preferenceLoss)),
      },
    }
  })
}
