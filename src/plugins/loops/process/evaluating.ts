/**
 * Measures a checkpoint on the held-out rows: the same seeds at each, so that less of a difference is chance.
 */
import type { JsonObject } from '#base/util/json.js'
import type { Model } from '#contract/wire/models.js'
import { nameMeasurement } from '#plugins/rl-library/measurement.js'
import { ApiError } from '#sdk/client/errors.js'
import type { TrajectoryGroup } from '#sdk/rl/trajectory.js'
import type { LoopStep } from '../loop-service.js'
import { type Facts, factsOf, metricsData } from './metrics.js'
import { seedOf } from './rows.js'
import { type Run, sampleRows, say } from './run.js'
import { examplesOf, stepNumbers } from './step-numbers.js'

/** Answers of a checkpoint to the held-out rows, graded. */
export async function evaluate(run: Run, step: number) {
  const { spec, heldOut, grading } = run
  const begunMs = performance.now()
  const model = await run.modelNow()
  const asked = heldOut.map((row, i) => ({ row, seed: seedOf(spec.seed, 'held out', i) }))
  const { groups } = await sampleRows(run, { model, step }, asked, spec.answersPerHeldOut)
  const graded = await grading.grade(groups, heldOut)
  // what is logged is at the model's newest step, which another job may have moved
  const warning = model.step === step ? await log(run, model, graded.groups) : null
  return {
    facts: factsOf(grading.grader, graded.answers),
    examples: examplesOf(groups, graded.answers),
    seconds: (performance.now() - begunMs) / 1000,
    used: run.usedBy(graded.answers, graded.groups),
    events: warning === null ? [] : [say('warn', warning)],
  }
}

/** Stores an evaluation beside the model's others. @returns why it could not be */
async function log(
  { client, spec, heldOut }: Run,
  model: Model,
  groups: readonly TrajectoryGroup[],
): Promise<string | null> {
  const prompts = heldOut.map(({ messages }) => messages)
  const measurement = nameMeasurement(prompts, [spec.grader, spec.sampling, spec.responseFormat])
  try {
    const body = { split: 'val', measurement, trajectory_groups: groups.map((group) => group.toJSON()) }
    await client.models.log(model.id, body)
    return null
  } catch (error) {
    if (!(error instanceof ApiError) || error.code !== 'other_measurement') throw error
    return `the evaluation is not among those of the model: ${error.message}`
  }
}

/** What a step came to, for charts and lists. */
export const toStep = (
  { grading }: Pick<Run, 'grading'>,
  at: Pick<LoopStep, 'loopStep' | 'checkpointStep' | 'jobId'>,
  facts: { readonly train: Facts | null; readonly valid: Facts | null },
  own: JsonObject,
): LoopStep => ({
  ...at,
  trainReward: facts.train?.reward ?? null,
  validReward: facts.valid === null ? null : (facts.valid.reward ?? 0),
  numbers: stepNumbers(grading.grader, facts, own),
})

/** Measures the model as it is before the first step. */
export async function evaluateFirst(run: Run): Promise<void> {
  const { spec, heldOut, grading } = run
  if (heldOut.length === 0) return
  await run.report({ phase: 'evaluating' })
  const { step } = await run.modelNow()
  const { facts, examples, seconds, used, events } = await evaluate(run, step)
  const at = { step: 0, totalSteps: spec.steps, times: { eval: seconds }, own: { checkpoint_step: step } }
  const data = metricsData(grading.grader, at, null, facts)
  const message = `Evaluated before the first step: full_valid_mean_reward ${round(facts.reward)}`
  await run.report({
    reached: toStep(
      run,
      { loopStep: 0, checkpointStep: step, jobId: null },
      { train: null, valid: facts },
      { 'seconds/evaluating': seconds },
    ),
    examples,
    events: [{ type: 'metrics', level: 'info', message, data }, ...events],
    used,
  })
}

export const round = (value: number | null): string => (value === null ? 'none' : String(Number(value.toFixed(4))))
