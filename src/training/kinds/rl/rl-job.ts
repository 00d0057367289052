/**
 * A reinforcement-learning job: trajectory groups to optimizer steps, each computed in packed rows.
 *
 * Formulas: `src/docs/how-training-works.md`. An optimizer step covers what ART's packing puts into one row, and is computed in
 * rows of any shape whose gradients add up. Old log-probabilities and those of the KL reference are computed for all rows before
 * the first step, in a session of their own that is gone before training starts.
 */

import { createLifetimes } from '#base/util/lifetimes.js'
import { append, maxOf } from '#base/util/lists.js'
import { logMetrics, offPolicyMetrics } from '#formats/rows/metrics.js'
import { mismatchFacts } from '#training/trainer/decisions.js'
import { rateOf } from '#training/trainer/epochs/schedule.js'
import { type JobContext, rowSettings, type TrainingEvent, type TrainingOutcome } from '#training/trainer/job.js'
import { memoryFacts, planMemory } from '#training/trainer/memory.js'
import { optimizerSettings } from '#training/trainer/optimizer-settings.js'
import { averageSteps, countStep } from '#training/trainer/progress.js'
import { noteStep } from '#training/trainer/report.js'
import { applyResumePoint } from '#training/trainer/resume-point.js'
import { toRowBatch } from '#training/trainer/row-batch.js'
import { openScores, type ScoringContext } from '#training/trainer/scores.js'
import { createTrainer } from '#training/trainer/trainer.js'
import { measureMismatch, mismatchNotes, shouldRecompute } from './mismatch.js'
import { driftLimit, driftOfStep, notePasses, passMetrics } from './passes.js'
import type { RlHyperparameters } from './rl-hyperparameters.js'
import { GRADIENT_METRICS, rlStepMetrics } from './rl-metrics.js'
import { largestRowBatch, outlineRl, type RlJob, type RlOutline } from './rl-outline.js'
import { isMeanGiven, isScoredBetweenSteps, type PreparedBatch, rowBatches, toMicroBatches } from './rl-rows.js'
import { fillScores, layoutOf, prepareSteps, stepKlMean } from './rl-scores.js'
import { createTrustRegion, type Movement, noteMovement } from './trust-region.js'

/**
 * Trains on trajectory groups.
 *
 * @returns events: `training_started`, then one `gradient_step` per optimizer step; the outcome is the return value. When
 *   nothing can be trained on, `num_sequences` is 0 and the outcome is the starting point
 * @throws {TrainingError} `non_finite_loss`; {DataError} for trajectories that cannot be tokenized
 */
export async function* trainRl(job: RlJob, context: JobContext): AsyncGenerator<TrainingEvent, TrainingOutcome> {
  const { groups, hyperparameters } = job
  const { progress } = context
  const outline = outlineRl(job, context)
  const { steps, started, groupsTrainable } = outline
  if (context.resumePoint === null) yield started
  if (steps.length > 0) {
    const longestRow = maxOf(steps.flatMap(({ rows }) => rows.map(({ tokens }) => tokens.length)))
    const { precision } = hyperparameters
    const settings = await rowSettings(context, { precision, longestRow, hasKeptSets: outline.hasKeptSets })
    yield* trainSteps(job, { ...context, ...settings }, outline)
  }
  return {
    adapter: context.adapter,
    optimizer: context.optimizer,
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

async function* trainSteps(
  job: RlJob,
  context: ScoringContext,
  outline: RlOutline,
): AsyncGenerator<TrainingEvent, void> {
  const { groups, reference = null } = job
  const { steps, order, groupsTrainable, hasKeptSets } = outline
  const { progress, clock } = context
  const { report, decisions } = progress
  const hyperparameters = withRecomputation(job.hyperparameters, context)
  const { ratioLevel: level, kl } = hyperparameters.policyLoss
  // Before anything is scored: what cannot fit fails at once.
  const batches = steps.map(({ rows }) => rowBatches(rows))
  const largest = largestRowBatch(batches.flat())
  const isScored = isScoredBetweenSteps(batches, hyperparameters)
  const needs = { loss: 'policy' as const, largest, measured: isScored ? largest : null, hasKeptSets }
  const memory = planMemory(context.prepared.config, needs, context.availableBytes ?? null)
  report.facts['memory'] = memoryFacts(memory)
  const prepared = await prepareSteps(outline, hyperparameters, context, reference)
  const isKlMeanGiven = kl !== null && isMeanGiven(batches)
  const options = { ...hyperparameters.policyLoss, kl: kl === null ? null : { ...kl, isMeanGiven: isKlMeanGiven } }
  applyResumePoint(context, context.resumePoint)
  const settings = optimizerSettings(hyperparameters)
  const { targetKl } = hyperparameters
  const sessions = createLifetimes()
  try {
    const learner = isScored ? await openScores(context, context.adapter) : null
    if (learner !== null) sessions.add('learner', learner.release)
    const region =
      learner === null || targetKl === null ? null : createTrustRegion(context.adapter, learner.score, targetKl)
    const loss = { kind: 'policy' as const, options }
    const trainer = await createTrainer({ ...context, loss, settings, ...memory })
    sessions.add('trainer', trainer.release)

    const passesMade = () => ({
      numPasses: hyperparameters.numPasses,
      stepCount: progress.stepCount,
      stepsPerPass: steps.length,
    })

    /** @param at number of the step over all passes, from 0 */
    async function makeStep(step: readonly PreparedBatch[], at: number) {
      const multiplier =
        (steps[order[at] ?? 0]?.sequenceCount ?? 1) ** hyperparameters.numTrajectoriesLearningRateMultiplierPower
      const laidOut = step.map((part) => ({ ...part, batch: toRowBatch(part.rows, layoutOf(hyperparameters)) }))
      const klMean =
        learner === null || kl === null || !isKlMeanGiven ? null : await stepKlMean(laidOut, kl.source, learner.score)
      region?.remember()
      const result = await trainer.step(toMicroBatches(laidOut, { level, klMean }), {
        learningRate: rateOf(hyperparameters, at, order.length) * multiplier,
        gradientStep: progress.stepCount + 1,
        // Weights are those of the start only before the first update.
        isWanted: (outputs) => {
          if (at >= steps.length) return driftOfStep(laidOut, outputs) <= driftLimit(hyperparameters)
          if (progress.stepCount > 0 || decisions.sampler !== null) return true
          const mismatch = measureMismatch(laidOut, outputs, hyperparameters)
          if (mismatch === null) return true
          const isPrecalculated = hyperparameters.precalculateLogprobs
          const isRecomputed = !isPrecalculated && shouldRecompute(mismatch, groups, job.currentStep)
          decisions.sampler = { ...mismatch, isRecomputed }
          report.facts['sampler_mismatch'] = mismatchFacts(decisions.sampler)
          append(report.notes, mismatchNotes(decisions.sampler, isPrecalculated))
          return !isRecomputed
        },
      })
      return { laidOut, result }
    }

    for (let at = progress.stepCount; at < order.length; at += 1) {
      const step = prepared[order[at] as number] as PreparedBatch[]
      const startedMs = clock.monotonicMs()
      let made = await makeStep(step, at)
      if (!made.result.isMade) {
        if (at >= steps.length) {
          notePasses(report, passesMade(), driftOfStep(made.laidOut, made.result.outputs))
          break
        }
        await fillScores(prepared, { key: 'trainerLogp', adapter: context.adapter, hyperparameters }, context)
        made = await makeStep(step, at)
      }
      const { laidOut, result } = made
      // of several passes over the same rows the first is noted
      if (at < steps.length) job.rollouts?.addStep(progress.stepCount + 1, laidOut, result.outputs)
      let movement: Movement | null = null
      if (region !== null) {
        const madeMs = clock.monotonicMs()
        movement = await region.shorten(laidOut, result.outputs)
        report.seconds.scores += (clock.monotonicMs() - madeMs) / 1000
        noteMovement(report, movement, region.targetKl)
      }
      const elapsedMs = clock.monotonicMs() - startedMs
      const data = rlStepMetrics(laidOut, result, {
        groups,
        groupsTrainable,
        learningRate: rateOf(hyperparameters, at, order.length),
        hyperparameters,
        elapsedMs,
        movement,
        pass: hyperparameters.numPasses === 1 ? null : Math.floor(at / steps.length) + 1,
      })
      countStep(progress, data, GRADIENT_METRICS)
      notePasses(report, passesMade(), null)
      noteStep(report, {
        ...result,
        tokens: step.flatMap(({ rows }) => rows).reduce((sum, { usedLength }) => sum + usedLength, 0),
        trainedTokens: laidOut.reduce((sum, { batch }) => sum + batch.trained.length, 0),
        maxGradientNorm: settings.maxGradientNorm,
        // of a second look the divergence from the sampler is what the first one taught, and no sign of trouble
        kl: at < steps.length ? data['kl_div'] : undefined,
      })
      yield { type: 'gradient_step', data }
      if (at + 1 < order.length && context.isStopRequested?.() === true) {
        report.hasStoppedEarly = true
        break
      }
    }
  } finally {
    await sessions.end()
  }
}

/** A job that goes on has decided before its first step whether the sampler's numbers are used. */
function withRecomputation(hyperparameters: RlHyperparameters, { resumePoint }: ScoringContext): RlHyperparameters {
  const wasRecomputed = resumePoint?.progress.decisions.sampler?.isRecomputed === true
  return wasRecomputed ? { ...hyperparameters, precalculateLogprobs: true } : hyperparameters
}
