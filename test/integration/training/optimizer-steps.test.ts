/**
 * The gradients of an optimizer step do not depend on the rows it is computed in: packed with shared prompts, in rows of any
 * length, one at a time or several together, they are those of the step's sequences run one by one.
 */
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import type { JsonObject } from '#base/util/json.js'
import { createRng } from '#base/util/rng.js'
import { parseTrajectoryGroups } from '#formats/rows/parse.js'
import { rowBatches, toMicroBatches } from '#training/kinds/rl/rl-rows.js'
import { stepKlMean } from '#training/kinds/rl/rl-scores.js'
import type { PackedRow } from '#training/rows/pack.js'
import { buildTrainingBatch, type PackedStep } from '#training/rows/training-batch.js'
import { sequenceRow, toRowBatch } from '#training/trainer/row-batch.js'
import { scoreOf } from '#training/trainer/scores.js'
import { resolveRlConfig } from '../../support/model/job-options.js'
import { createWordText } from '../../support/model/random-trajectories.js'
import {
  createTrainingFixture,
  SMALL_CONFIG,
  type TrainingFixture,
  withRandomB,
} from '../../support/model/training-fixture.js'

let fixture: TrainingFixture
beforeAll(async () => {
  fixture = await createTrainingFixture()
})
afterAll(() => fixture.close())

/** Groups with prompts in common, of their own, and answers of all lengths; log-probabilities near those of an untrained model. */
function randomGroups(seed: string) {
  const rng = createRng(seed)
  const ids = (length: number) => Array.from({ length }, () => rng.integer(SMALL_CONFIG.vocabularySize))
  const group = () => {
    const prompt = ids(3 + rng.integer(30))
    return {
      trajectories: Array.from({ length: 3 + rng.integer(4) }, (_, i) => {
        const answer = ids(1 + rng.integer(30))
        return {
          reward: i + rng.uniform(),
          messages_and_choices: [
            { role: 'user', content: 'x' },
            {
              index: 0,
              finish_reason: 'stop',
              message: { role: 'assistant', content: 'y' },
              prompt_token_ids: rng.uniform() < 0.8 ? prompt : ids(4),
              token_ids: answer,
              logprobs: {
                content: answer.map((id) => ({
                  token: `token_id:${id}`,
                  logprob: -3.5 - rng.uniform(),
                  top_logprobs: [],
                })),
              },
            },
          ],
        }
      }),
    }
  }
  return parseTrajectoryGroups(JSON.parse(JSON.stringify([group(), group(), group()])))
}

/** The sequences of a row, each as a plain causal row. */
function unpacked(row: PackedRow): PackedRow[] {
  return row.sequences.map(({ prefixStart, prefixLength, start, end }) => {
    const at = [...row.tokens.keys()].filter(
      (t) => (t >= prefixStart && t < prefixStart + prefixLength) || (t >= start && t < end),
    )
    const floats = (values: Float32Array) => Float32Array.from(at, (t) => values[t]!)
    const lossMask = Uint8Array.from(at, (t) => row.lossMask[t]!)
    return {
      ...row,
      ...sequenceRow(
        Int32Array.from(at, (t) => row.tokens[t]!),
        lossMask,
      ),
      logprobs: floats(row.logprobs),
      advantages: floats(row.advantages),
      weights: floats(row.weights),
    }
  })
}

const layOut = (rows: readonly PackedRow[]) => ({
  rows,
  batch: toRowBatch(rows),
  trainerLogp: null,
  referenceLogp: null,
})

describe.each([
  {},
  { ppo: true, importance_sampling_level: 'sequence' },
  { importance_sampling_level: 'average', loss_aggregation: 'constant' },
  { kl_penalty_coef: 0.5 },
  { loss_fn: 'gspo', entropy_coef: 0.1 },
  { loss_fn: 'dr_grpo', advantage_estimator: 'leave_one_out', max_completion_length: 20 },
  { loss_fn: 'dro', beta: 0.2, advantage_estimator: 'batch' },
] as JsonObject[])('an optimizer step with %j', (config) => {
  const hyperparameters = resolveRlConfig({ ...config, tokens_per_step: 120 })
  const { kl, klBeta, ratioLevel: level } = hyperparameters.policyLoss
  const options = { ...hyperparameters.policyLoss, kl: kl === null ? null : { ...kl, isMeanGiven: true } }
  const loss = { kind: 'policy', options } as const

  function stepsIn(rowLength: number | undefined, seed: string): readonly PackedStep[] {
    const batchOptions = {
      ...hyperparameters,
      text: createWordText(),
      contextLength: SMALL_CONFIG.contextLength,
      padTokenId: 0,
    }
    return buildTrainingBatch(randomGroups(seed), { ...batchOptions, rowLength, seed }).steps
  }

  async function gradients(parts: readonly (readonly PackedRow[])[]) {
    const adapter = withRandomB(fixture.context('steps').adapter, 'steps')
    if (kl === null && klBeta === 0)
      return fixture.gradients(adapter, loss, toMicroBatches(parts.map(layOut), { level }))
    const learner = await fixture.learner({ adapter })
    const step = []
    for (const part of parts.map(layOut)) step.push({ ...part, referenceLogp: await learner.score(part.batch, 'base') })
    const klMean = kl === null ? null : await stepKlMean(step, kl.source, scoreOf(learner))
    await learner.release()
    return fixture.gradients(adapter, loss, toMicroBatches(step, { level, klMean }))
  }

  it.each(['a', 'b'])('has the same gradients in rows of every shape, groups %s', async (seed) => {
    const shapes = [64, undefined].map((rowLength) => stepsIn(rowLength, seed))
    expect(shapes[0]!.length).toBeGreaterThan(2)
    for (const [at, step] of shapes[0]!.entries()) {
      const expected = await gradients(step.rows.flatMap(unpacked).map((row) => [row]))
      const norm = Math.hypot(...[...expected.values()].map((values) => Math.hypot(...values)))
      for (const steps of shapes) {
        expect(steps.length).toBe(shapes[0]!.length)
        const found = await gradients(rowBatches(steps[at]!.rows))
        for (const [name, values] of expected) {
          values.forEach((value, i) => {
            expect(Math.abs(value - found.get(name)![i]!)).toBeLessThan(1e-6 * norm)
          })
        }
      }
    }
  })
})
