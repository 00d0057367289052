/**
 * OpenAI's hyperparameters of reinforcement jobs as numbers of a loop: prompts and answers of a step, steps, evaluations.
 */
import type { JsonObject } from '#base/util/json.js'
import { measuredRate, publishedRate } from '#contract/jobs/size-defaults.js'
import { JOB_KIND_OF_METHOD, type ReinforcementHyperparameters } from '../wire.js'

const KIND = JOB_KIND_OF_METHOD.reinforcement
/** Prompts of a step where nobody says otherwise. */
const BATCH = 16
/** Answers to a prompt at a compute multiplier of 1, and their bounds: of one there is nothing to compare. */
const [ANSWERS, FEWEST_ANSWERS, MOST_ANSWERS] = [8, 2, 64]
/** Steps of a job that leaves its passes open. */
const [FEWEST_STEPS, MOST_STEPS] = [20, 200]
const MOST_EPOCHS = 50
/** Evaluations of a job that leaves their interval open. */
const EVALUATIONS = 10

interface ChosenLoop {
  /** As the job shows them. */
  readonly shown: Readonly<Record<keyof ReinforcementHyperparameters, number | string>>
  readonly loop: {
    readonly promptsPerStep: number
    readonly answersPerPrompt: number
    readonly steps: number
    readonly evaluateEvery: number
    readonly answersPerHeldOut: number
    readonly training: JsonObject
  }
}

/** @param at rows that are trained on, and parameters of the base model, null where nobody knows them */
export function chooseLoop(
  wanted: ReinforcementHyperparameters,
  { rows, parameters }: { readonly rows: number; readonly parameters: number | null },
): ChosenLoop {
  const batchSize = Math.min(rows, given(wanted.batch_size) ?? BATCH)
  const stepsOf = (passes: number): number => Math.ceil((rows * passes) / batchSize)
  const openEpochs = Math.max(1, Math.min(MOST_EPOCHS, Math.ceil((FEWEST_STEPS * batchSize) / rows)))
  const epochs = given(wanted.n_epochs)
  const steps = epochs === null ? Math.min(MOST_STEPS, stepsOf(openEpochs)) : stepsOf(epochs)
  const multiplier = given(wanted.learning_rate_multiplier) ?? 1
  const compute = given(wanted.compute_multiplier) ?? 1
  const evaluateEvery = given(wanted.eval_interval) ?? Math.max(1, Math.floor(steps / EVALUATIONS))
  const answersPerHeldOut = given(wanted.eval_samples) ?? 1
  const rate = (measuredRate(KIND, parameters) ?? publishedRate(KIND)) * multiplier
  return {
    shown: {
      batch_size: batchSize,
      compute_multiplier: compute,
      n_epochs: epochs ?? (steps < stepsOf(openEpochs) ? 'auto' : openEpochs),
      learning_rate_multiplier: multiplier,
      eval_interval: evaluateEvery,
      eval_samples: answersPerHeldOut,
      reasoning_effort: wanted.reasoning_effort ?? 'default',
    },
    loop: {
      promptsPerStep: batchSize,
      answersPerPrompt: Math.max(FEWEST_ANSWERS, Math.min(MOST_ANSWERS, Math.round(ANSWERS * compute))),
      steps,
      evaluateEvery,
      answersPerHeldOut,
      training: { learning_rate: Math.min(1, rate) },
    },
  }
}

/** Rows that are held out where no file has them: a tenth, four to two hundred, and half of them at most. */
export function heldOutOf(rows: number): number {
  const [FEWEST, MOST] = [4, 200]
  return Math.min(Math.max(FEWEST, Math.round(rows / 10)), MOST, Math.floor(rows / 2))
}

function given(value: number | 'auto' | null | undefined): number | null {
  return typeof value === 'number' ? value : null
}
