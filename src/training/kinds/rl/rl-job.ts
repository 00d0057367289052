/**
 * A reinforcement-learning job: trajectory groups to optimizer steps, each computed in packed rows.
 *
 * Formulas: `src/docs/reference/how-training-works.md`. An optimizer step covers what ART's packing puts into one row, and is
 * computed in rows of any shape whose gradients add up. Old log-probabilities and those of the KL reference are computed for all
 * rows before the first step; what that took is given back before training starts.
 */

import { append, maxOf } from '#base/util/lists.js'
import { logMetrics, offPolicyMetrics } from '#formats/rows/metrics.js'
import { mismatchFacts } from '#training/trainer/decisions.js'
import { rateOf } from '#training/trainer/epochs/schedule.js'
import { type JobContext, openLearner, type TrainingEvent, type TrainingOutcome } from '#training/trainer/job.js'
import type { Learner, TokenOutputs } from '#training/trainer/learner/learner.js'
import { memoryFacts, planMemory } from '#training/trainer/memory.js'
import { optimizerSettings } from '#training/trainer/optimizer-settings.js'
import { averageSteps, countStep } from '#training/trainer/progress.js'
import { noteStep } from '#training/trainer/report.js'
import { applyResumePoint } from '#training/trainer/resume-point.js'
import { toRowBatch } from '#training/trainer/row-batch.js'
import { type Score, scoreOf } from '#training/trainer/scores.js'
import { createTrainer, type StepResult, type Trainer } from '#training/trainer/trainer.js'
import { measureMismatch, mismatchNotes, shouldRecompute } from './mismatch.js'
import { driftLimit, driftOfStep, notePasses, passMetrics } from './passes.js'
import type { RlHyperparameters } from './rl-hyperparameters.js'
import { GRADIENT_METRICS, rlStepMetrics } from './rl-metrics.js'
import { largestRowBatch, outlineRl, type RlJob, type RlOutline } from './rl-outline.js'
import {
  isMeanGiven,
  isScoredBetweenSteps,
  type LaidOutBatch,
  type PreparedBatch,
  rowBatches,
  toMicroBatches,
} from './rl-rows.js'
import { fillScores, layoutOf, prepareSteps, stepKlMean } from './rl-scores.js'
import { createTrustRegion, type Movement, noteMovement, type TrustRegion } from './trust-region.js'

/**
 * Trains on trajectory groups.
 *
 * @returns events: `training_started`, then one `gradient_step` per optimizer step; the outcome is the return value. When
 *   nothing can be trained on, `num_sequences` is 0 and the outcome is the starting point
 * @throws {TrainingError} `non_finite_loss`; {DataError} for trajectories that cannot be tokenized
 */
export async function* trainRl(job: RlJob, context: JobContext): AsyncGenerator<TrainingEvent, TrainingOutcome> {
  const { groups } = job
  const { progress } = context
  const outline = outlineRl(job, context)
  const { steps, started, groupsTrainable } = outline
  if (context.resumePoint === null) yield started
  if (steps.length > 0) yield* trainSteps(job, context, outline)
  return {
    metrics: {
      ...logMetrics(groups, 'train'),
      ...(job.currentStep === undefined ? {} : offPolicyMetrics(groups, job.currentStep)),
      ...averageSteps(progress),
      ...passMetrics(progress.report),
      'data/step_num_gradient_steps': progress.stepCount,
      'data/step_trainer_tokens': progress.report.trainedTokens,
      'data/step_num_groups_trainable': groupsTrainable,
    },
  }
}

/** Prepare; for each step: its gradient, maybe a shorter way, what is noted of it. */
async function* trainSteps(job: RlJob, context: JobContext, outline: RlOutline): AsyncGenerator<TrainingEvent, void> {
  const { progress, clock } = context
  const { length } = outline.order
  const run = await prepareRun(job, context, outline)
  try {
    const parts = await openParts(run)
    for (let at = progress.stepCount; at < length; at += 1) {
      const startedMs = clock.monotonicMs()
      const made = await makeStep(run, parts, at)
      if (made === null) break
      const movement = await shortenStep(run, parts, made)
      const data = noteRlStep(run, at, { ...made, movement, elapsedMs: clock.monotonicMs() - startedMs })
      yield { type: 'gradient_step', data }
      if (at + 1 < length && context.isStopRequested?.() === true) {
        progress.report.hasStoppedEarly = true
        break
      }
    }
  } finally {
    await run.learner.park()
  }
}

/** What is the same for all steps of a job. */
interface RlRun {
  readonly job: RlJob
  readonly context: JobContext
  readonly learner: Learner
  readonly outline: RlOutline
  readonly hyperparameters: RlHyperparameters
  /** The parts of each step, with old log-probabilities and those of the reference. */
  readonly prepared: readonly PreparedBatch[][]
  readonly settings: ReturnType<typeof optimizerSettings>
  /** Rows are scored by the current weights between steps, too. */
  readonly isScored: boolean
  readonly isKlMeanGiven: boolean
}

async function prepareRun(job: RlJob, context: JobContext, outline: RlOutline): Promise<RlRun> {
  const hyperparameters = withRecomputation(job.hyperparameters, context)
  // Before anything is scored: what cannot fit fails at once.
  const batches = outline.steps.map(({ rows }) => rowBatches(rows))
  const largest = largestRowBatch(batches.flat())
  const isScored = isScoredBetweenSteps(batches, hyperparameters)
  const needs = {
    loss: 'policy' as const,
    largest,
    measured: isScored ? largest : null,
    hasKeptSets: outline.hasKeptSets,
  }
  const memory = planMemory(context.prepared.config, needs, context.availableBytes ?? null)
  context.progress.report.facts['memory'] = memoryFacts(memory)
  const longestRow = maxOf(outline.steps.flatMap(({ rows }) => rows.map(({ tokens }) => tokens.length)))
  const rows = { longestRow, hasKeptSets: outline.hasKeptSets, isRecomputed: memory.isRecomputed }
  const learner = await openLearner(context, { precision: hyperparameters.precision, rows })
  const reference = job.reference ?? null
  const prepared = await prepareSteps(outline, hyperparameters, context, { learner, reference })
  const isKlMeanGiven = hyperparameters.policyLoss.kl !== null && isMeanGiven(batches)
  await applyResumePoint(learner, context)
  const settings = optimizerSettings(hyperparameters)
  return { job, context, learner, outline, hyperparameters, prepared, settings, isScored, isKlMeanGiven }
}

/** What makes the steps of a job, and what scores rows between them where something asks for it. */
interface RlParts {
  readonly trainer: Trainer
  readonly score: Score | null
  readonly region: TrustRegion | null
}

async function openParts({ context, learner, settings, isScored, ...run }: RlRun): Promise<RlParts> {
  const { policyLoss, targetKl } = run.hyperparameters
  if (isScored) await learner.prepare('scores')
  const score = isScored ? scoreOf(learner) : null
  const region = score === null || targetKl === null ? null : createTrustRegion(learner, targetKl)
  const kl = policyLoss.kl === null ? null : { ...policyLoss.kl, isMeanGiven: run.isKlMeanGiven }
  const loss = { kind: 'policy' as const, options: { ...policyLoss, kl } }
  const trainer = await createTrainer({ ...context, learner, loss, settings })
  return { trainer, score, region }
}

/** A step as it was computed. */
interface MadeStep {
  readonly laidOut: readonly LaidOutBatch[]
  readonly result: StepResult
}

/**
 * Makes a step, once more where the trainer's log-probabilities have to replace the sampler's first.
 *
 * @param at number of the step over all passes, from 0
 * @returns null where a further pass over the same rows has drifted too far: the job ends there
 */
async function makeStep(run: RlRun, parts: RlParts, at: number): Promise<MadeStep | null> {
  const { context, learner, outline, hyperparameters, prepared, isScored } = run
  const first = await tryStep(run, parts, at)
  if (first.result.isMade) return first
  if (at >= outline.steps.length) {
    notePasses(context.progress.report, passesOf(run), driftOfStep(first.laidOut, first.result.outputs))
    return null
  }
  await fillScores(prepared, { key: 'trainerLogp', score: scoreOf(learner), hyperparameters }, context)
  // the memory plan has no scores between steps
  if (!isScored) await learner.park()
  return await tryStep(run, parts, at)
}

async function tryStep(run: RlRun, { trainer, score, region }: RlParts, at: number): Promise<MadeStep> {
  const { context, hyperparameters, isKlMeanGiven } = run
  const { steps, order } = run.outline
  const { ratioLevel: level, formula, kl } = hyperparameters.policyLoss
  const multiplier =
    (steps[order[at] ?? 0]?.sequenceCount ?? 1) ** hyperparameters.numTrajectoriesLearningRateMultiplierPower
  const laidOut = partsOf(run, at).map((part) => ({ ...part, batch: toRowBatch(part.rows, layoutOf(hyperparameters)) }))
  const klMean = score === null || kl === null || !isKlMeanGiven ? null : await stepKlMean(laidOut, kl.source, score)
  await region?.remember()
  const result = await trainer.step(toMicroBatches(laidOut, { level, formula, klMean }), {
    learningRate: rateOf(hyperparameters, at, order.length) * multiplier,
    gradientStep: context.progress.stepCount + 1,
    isWanted: (outputs) => isStepWanted(run, at, laidOut, outputs),
  })
  return { laidOut, result }
}

/**
 * Whether a step is made with these log-probabilities: of a further pass, unless the policy has drifted too far; of the first step, unless the
 * sampler's numbers differ so much from the trainer's that the trainer's are taken.
 */
function isStepWanted(
  run: RlRun,
  at: number,
  laidOut: readonly LaidOutBatch[],
  outputs: readonly TokenOutputs[],
): boolean {
  const { job, hyperparameters } = run
  const { stepCount, report, decisions } = run.context.progress
  if (at >= run.outline.steps.length) return driftOfStep(laidOut, outputs) <= driftLimit(hyperparameters)
  // Weights are those of the start only before the first update.
  if (stepCount > 0 || decisions.sampler !== null) return true
  const mismatch = measureMismatch(laidOut, outputs, hyperparameters)
  if (mismatch === null) return true
  const isPrecalculated = hyperparameters.precalculateLogprobs
  const isRecomputed = !isPrecalculated && shouldRecompute(mismatch, job.groups, job.currentStep)
  decisions.sampler = { ...mismatch, isRecomputed }
  report.facts['sampler_mismatch'] = mismatchFacts(decisions.sampler)
  append(report.notes, mismatchNotes(decisions.sampler, isPrecalculated))
  return !isRecomputed
}

/** Takes back part of a step that went further than the trust region allows. */
async function shortenStep({ context }: RlRun, { region }: RlParts, made: MadeStep): Promise<Movement | null> {
  if (region === null) return null
  const { report } = context.progress
  const madeMs = context.clock.monotonicMs()
  const movement = await region.shorten(made.laidOut, made.result.outputs)
  report.seconds.scores += (context.clock.monotonicMs() - madeMs) / 1000
  noteMovement(report, movement, region.targetKl)
  return movement
}

/** @returns the numbers of the step's event */
function noteRlStep(
  run: RlRun,
  at: number,
  {
    laidOut,
    result,
    movement,
    elapsedMs,
  }: MadeStep & { readonly movement: Movement | null; readonly elapsedMs: number },
): Record<string, number> {
  const { job, hyperparameters, settings } = run
  const { steps, order, groupsTrainable } = run.outline
  const { progress } = run.context
  const isFirstPass = at < steps.length
  // of several passes over the same rows the first is noted
  if (isFirstPass) job.rollouts?.addStep(progress.stepCount + 1, laidOut, result.outputs)
  const data = rlStepMetrics(laidOut, result, {
    groups: job.groups,
    groupsTrainable,
    learningRate: rateOf(hyperparameters, at, order.length),
    hyperparameters,
    elapsedMs,
    movement,
    pass: hyperparameters.numPasses === 1 ? null : Math.floor(at / steps.length) + 1,
  })
  countStep(progress, data, GRADIENT_METRICS)
  notePasses(progress.report, passesOf(run), null)
  noteStep(progress.report, {
    ...result,
    tokens: partsOf(run, at)
      .flatMap(({ rows }) => rows)
      .reduce((sum, { usedLength }) => sum + usedLength, 0),
    trainedTokens: laidOut.reduce((sum, { batch }) => sum + batch.trained.length, 0),
    maxGradientNorm: settings.maxGradientNorm,
    // of a second look the divergence from the sampler is what the first one taught, and no sign of trouble
    kl: isFirstPass ? data['kl_div'] : undefined,
  })
  return data
}

function partsOf({ prepared, outline }: RlRun, at: number): readonly PreparedBatch[] {
  return prepared[outline.order[at] as number] as PreparedBatch[]
}

function passesOf({ hyperparameters, outline, context }: RlRun) {
  const { numPasses } = hyperparameters
  return { numPasses, stepCount: context.progress.stepCount, stepsPerPass: outline.steps.length }
}

/** A job that goes on has decided before its first step whether the sampler's numbers are used. */
function withRecomputation(hyperparameters: RlHyperparameters, { resumePoint }: JobContext): RlHyperparameters {
  const wasRecomputed = resumePoint?.progress.decisions.sampler?.isRecomputed === true
  return wasRecomputed ? { ...hyperparameters, precalculateLogprobs: true } : hyperparameters
}
