/**
 * `target_kl`: how far one optimizer step may move the policy. What is kept is compared with the update without a limit, and the
 * distance with log-probabilities from a session of the test's own.
 */
import { afterAll, beforeAll, expect, it } from 'vitest'
import type { JsonObject } from '#base/util/json.js'
import { parseTrajectoryGroups } from '#formats/rows/parse.js'
import type { AdapterWeights } from '#model/weights/adapter.js'
import { trainRl } from '#training/kinds/rl/rl-job.js'
import { outlineRl } from '#training/kinds/rl/rl-outline.js'
import { rowBatches } from '#training/kinds/rl/rl-rows.js'
import { layoutOf } from '#training/kinds/rl/rl-scores.js'
import type { TrajectoryText } from '#training/rows/turns.js'
import type { JobContext } from '#training/trainer/job.js'
import { adapterParameters } from '#training/trainer/learner/parameters.js'
import { toRowBatch } from '#training/trainer/row-batch.js'
import { resolveRlConfig } from '../../support/model/job-options.js'
import {
  copyAdapter,
  createTrainingFixture,
  openSessionsBehindFailures,
  randomSequence,
  SMALL_CONFIG,
  type TrainingFixture,
  withRandomB,
} from '../../support/model/training-fixture.js'

let fixture: TrainingFixture
beforeAll(async () => {
  fixture = await createTrainingFixture()
})
afterAll(() => fixture.close())

const text: TrajectoryText = {
  vocabularySize: SMALL_CONFIG.vocabularySize,
  renderPrompt: () => [1, 2, 3],
  renderLastTurn: () => ({ tokenIds: [1], mask: [1] }),
  leftOutOf: () => [],
  textOf: (ids) => ids.join(' '),
  isControl: () => false,
  tokenIdOf: () => null,
}

const ANSWER_TOKENS = 16
const trajectories = Array.from({ length: 6 }, (_, i) => {
  const ids = [...randomSequence(`answer ${i}`, ANSWER_TOKENS, 0).tokenIds]
  const content = ids.map((id) => ({ token: `token_id:${id}`, logprob: -4, top_logprobs: [] }))
  const message = { role: 'assistant', content: 'y' }
  const choice = {
    index: 0,
    finish_reason: 'stop',
    message,
    prompt_token_ids: [4, 5, 6 + i],
    token_ids: ids,
    logprobs: { content },
  }
  return { reward: i % 2, messages_and_choices: [{ role: 'user', content: 'x' }, choice] }
})
const groups = parseTrajectoryGroups(JSON.parse(JSON.stringify([{ trajectories }])))

/** All six sequences in one optimizer step. */
const ONE_STEP = { packed_sequence_length: 128, seed: 1 }
const LEARNING_RATE = 0.02

interface Run {
  readonly steps: JsonObject[]
  readonly before: AdapterWeights
  readonly after: AdapterWeights
  readonly facts: Readonly<Record<string, Readonly<Record<string, number>>>>
  readonly context: JobContext
}

async function train(config: JsonObject, fresh: JobContext = fixture.context('region')): Promise<Run> {
  const context = { ...fresh, adapter: withRandomB(fresh.adapter, 'region') }
  const before = copyAdapter(context.adapter)
  const hyperparameters = resolveRlConfig({ ...ONE_STEP, learning_rate: LEARNING_RATE, ...config })
  const job = trainRl({ groups, hyperparameters, text, padTokenId: 0, reference: null }, context)
  const steps: JsonObject[] = []
  for (let next = await job.next(); ; next = await job.next()) {
    if (next.done === true) break
    if (next.value.type === 'gradient_step') steps.push(next.value.data)
  }
  return { steps, before, after: context.adapter, facts: context.progress.report.facts, context }
}

const valuesOf = (adapter: AdapterWeights): number[] =>
  [...adapterParameters(adapter).values()].flatMap((values) => [...values])

/** Mean of exp(x) - x - 1 over the trained tokens, x = after - before, by log-probabilities of a session of its own. */
async function distance({ context, before }: Run, after: AdapterWeights): Promise<number> {
  const hyperparameters = resolveRlConfig(ONE_STEP)
  const { steps } = outlineRl({ groups, hyperparameters, text, padTokenId: 0 }, context)
  const batches = steps
    .flatMap(({ rows }) => rowBatches(rows))
    .map((rows) => toRowBatch(rows, layoutOf(hyperparameters)))
  async function logps(adapter: AdapterWeights): Promise<number[]> {
    const learner = await fixture.learner({ adapter })
    const all: number[] = []
    for (const batch of batches) all.push(...(await learner.score(batch, 'current')).slice(0, batch.trained.length))
    await learner.release()
    return all
  }
  const [from, to] = [await logps(before), await logps(after)]
  expect(to.length).toBe(trajectories.length * ANSWER_TOKENS)
  return to.reduce((sum, logp, n) => sum + Math.exp(logp - from[n]!) - (logp - from[n]!) - 1, 0) / to.length
}

/** `before` moved by a share of the way to `after`. */
function between(before: AdapterWeights, after: AdapterWeights, scale: number): AdapterWeights {
  const moved = copyAdapter(before)
  const ends = adapterParameters(after)
  for (const [name, values] of adapterParameters(moved)) {
    for (let i = 0; i < values.length; i++) values[i] = values[i]! + scale * (ends.get(name)![i]! - values[i]!)
  }
  return moved
}

it('leaves no session open when a further one cannot be loaded', async () => {
  const left = await openSessionsBehindFailures(
    () => fixture.context('sessions'),
    (context) => train({ target_kl: 0.1 }, context),
  )
  // the one that scores between steps, and the one that trains
  expect(left).toEqual([
    { loaded: 0, open: 0 },
    { loaded: 1, open: 0 },
  ])
})

it('halves an update until the policy moves no further, and no more often than needed', async () => {
  const free = await train({})
  expect(free.steps).toEqual([expect.not.objectContaining({ update_kl: expect.anything() })])
  const whole = await distance(free, free.after)
  const targetKl = whole / 10
  const limited = await train({ target_kl: targetKl })
  const { update_kl: kl, update_scale: scale } = limited.steps[0] as { update_kl: number; update_scale: number }

  expect(scale).toBeLessThan(1)
  expect(Number.isInteger(Math.log2(scale))).toBe(true)
  expect(kl).toBeLessThanOrEqual(targetKl)
  expect(await distance(limited, limited.after)).toBeCloseTo(kl, 6)
  expect(await distance(free, between(free.before, free.after, 2 * scale))).toBeGreaterThan(targetKl)
  expect(valuesOf(limited.after)).toEqual(valuesOf(between(free.before, free.after, scale)))
  expect(limited.context.optimizer).toEqual(free.context.optimizer)
  expect(limited.facts['trust_region']).toEqual({
    target_kl: targetKl,
    updates: 1,
    shortened: 1,
    smallest_scale: scale,
    moved: kl,
  })
})

it('changes no bit where updates stay within', async () => {
  const several = { packed_sequence_length: 32 }
  const [free, limited] = [await train(several), await train({ ...several, target_kl: 50 })]
  expect(free.steps.length).toBe(6)
  expect(valuesOf(limited.after)).toEqual(valuesOf(free.after))
  expect(limited.steps.map(({ update_scale }) => update_scale)).toEqual(Array.from({ length: 6 }, () => 1))
  expect(limited.steps.every(({ update_kl }) => Number(update_kl) > 0)).toBe(true)
})

it('leaves an update out that moves too far at a thousandth of its length', async () => {
  const run = await train({ target_kl: 1e-6, learning_rate: 1 })
  expect(run.steps).toEqual([expect.objectContaining({ update_kl: 0, update_scale: 0 })])
  expect(valuesOf(run.after)).toEqual(valuesOf(run.before))
})

it.each([0, -1, 1000, 'far'])('refuses %j as a limit', (target_kl) => {
  expect(() => resolveRlConfig({ target_kl })).toThrow('experimental_config.target_kl')
})
