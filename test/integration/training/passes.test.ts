/**
 * Several passes over one rollout: the whole course of a job against PyTorch in float64, what is computed once, and how a job
 * ends early. Losses to 1e-4, norms and divergences to 2e-4 of their size, the adapter to 1e-4 of its largest movement.
 */
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import type { JsonObject } from '#base/util/json.js'
import { parseTrajectoryGroups } from '#formats/rows/parse.js'
import type { DecoderConfig } from '#model/architectures/decoder-config.js'
import { passOrder } from '#training/kinds/rl/passes.js'
import { trainRl } from '#training/kinds/rl/rl-job.js'
import { outlineRl } from '#training/kinds/rl/rl-outline.js'
import type { TrajectoryText } from '#training/rows/turns.js'
import type { JobContext, TrainingEvent, TrainingOutcome } from '#training/trainer/job.js'
import {
  type DecoderGolden,
  formulaAdapter,
  type PackedArray,
  readGolden,
  unpack,
} from '../../support/model/decoder-goldens.js'
import { resolveRlConfig } from '../../support/model/job-options.js'
import { createTrainingFixture, type TrainingFixture } from '../../support/model/training-fixture.js'

interface Golden {
  readonly variant: string
  readonly order: readonly number[]
  readonly learning_rate: number
  readonly beta: number
  readonly items: readonly {
    readonly prompt: readonly number[]
    readonly answer: readonly number[]
    readonly reward: number
    readonly logprobs: readonly number[]
  }[]
  readonly steps: readonly { readonly loss: number; readonly grad_norm: number; readonly kl_div: number }[]
  readonly adapter: Readonly<Record<string, PackedArray>>
}

const golden = readGolden<Golden>('policy-passes.json')
const { config } = readGolden<DecoderGolden>(`decoder-${golden.variant}.json`) as { config: DecoderConfig }
/** Three answers of 11 tokens each. */
const STEP_TOKENS = 33

let fixture: TrainingFixture
beforeAll(async () => {
  fixture = await createTrainingFixture(config)
})
afterAll(() => fixture.close())

const text: TrajectoryText = {
  vocabularySize: config.vocabularySize,
  renderPrompt: () => [1],
  renderLastTurn: () => ({ tokenIds: [1], mask: [1] }),
  leftOutOf: () => [],
  textOf: (ids) => ids.join(' '),
  isControl: () => false,
  tokenIdOf: () => null,
}

const groups = parseTrajectoryGroups(
  JSON.parse(
    JSON.stringify([
      {
        trajectories: golden.items.map(({ prompt, answer, reward, logprobs }) => ({
          reward,
          messages_and_choices: [
            { role: 'user', content: 'x' },
            {
              index: 0,
              finish_reason: 'stop',
              message: { role: 'assistant', content: 'y' },
              prompt_token_ids: prompt,
              token_ids: answer,
              logprobs: {
                content: answer.map((id, t) => ({ token: `token_id:${id}`, logprob: logprobs[t], top_logprobs: [] })),
              },
            },
          ],
        })),
      },
    ]),
  ),
)

/** A job from the adapter of the goldens. */
const contextOf = (): JobContext => ({ ...fixture.context('passes'), adapter: formulaAdapter(config, 4, 8) })
const jobOf = (options: JsonObject) => ({
  groups,
  hyperparameters: resolveRlConfig({
    loss_fn: 'ppo',
    tokens_per_step: STEP_TOKENS,
    learning_rate: golden.learning_rate,
    ...options,
  }),
  text,
  padTokenId: 0,
})

async function train(options: JsonObject, context = contextOf()) {
  const job: AsyncGenerator<TrainingEvent, TrainingOutcome> = trainRl(jobOf(options), context)
  const events: TrainingEvent[] = []
  for (let next = await job.next(); ; next = await job.next()) {
    if (next.done === true) {
      const steps = events.slice(1).map(({ data }) => data)
      return { started: events[0]!.data, steps, outcome: next.value, context, report: context.progress.report }
    }
    events.push(next.value)
  }
}

/** Sessions that a context's runtime loads, counted. */
function counting(context: JobContext) {
  const runs: string[] = []
  const loadSession: typeof context.runtime.loadSession = async (...given) => {
    const session = await context.runtime.loadSession(...given)
    const run: typeof session.run = (feeds, fetches) => {
      runs.push(session.outputNames.includes('loss') ? 'gradient' : 'score')
      return session.run(feeds, fetches)
    }
    return { ...session, run }
  }
  return { runs, context: { ...context, runtime: { ...context.runtime, loadSession } } }
}

describe('passes over one rollout', () => {
  it('make the losses, norms, divergences and the adapter of three passes in PyTorch', async () => {
    const options = { num_passes: 3, beta: golden.beta, learning_rate_schedule: 'linear' }
    const { steps: rows, order } = outlineRl(jobOf(options), contextOf())
    const members = rows.map(({ rows: [row] }) =>
      golden.items.findIndex(({ answer }) => answer.every((id, t) => row!.tokens[5 + t] === id)),
    )
    expect(order.map((step) => members[step]! / 3)).toEqual(golden.order)

    const { started, steps, outcome, context, report } = await train(options)
    expect(started).toMatchObject({ num_sequences: 12, num_passes: 3 })
    expect(steps.map(({ pass }) => pass)).toEqual([1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3])
    golden.steps.forEach(({ loss, grad_norm: norm, kl_div: kl }, at) => {
      const data = steps[at]!
      expect(data['learning_rate'], `step ${at}`).toBeCloseTo(golden.learning_rate * (1 - at / 11), 9)
      expect(Math.abs(data['loss']! - loss), `loss of step ${at}`).toBeLessThan(1e-4)
      expect(Math.abs(data['grad_norm']! / norm - 1), `norm of step ${at}`).toBeLessThan(2e-4)
      expect(Math.abs(data['kl_div']! - kl), `divergence of step ${at}`).toBeLessThan(2e-4 * Math.max(kl, 0.01))
    })
    const start = formulaAdapter(config, 4, 8)
    for (const [name, packed] of Object.entries(golden.adapter)) {
      const path = name.replace(/\.lora_[AB]\.weight$/, '')
      const side = name.includes('lora_A') ? 'a' : 'b'
      const [values, before, expected] = [context.adapter[side].get(path)!, start[side].get(path)!, unpack(packed)]
      const moved = Math.max(...expected.map((value, i) => Math.abs(value - before[i]!)))
      expect(moved).toBeGreaterThan(1e-3)
      values.forEach((value, i) => {
        expect(Math.abs(value - expected[i]!), `${name} at ${i}`).toBeLessThan(1e-4 * moved + 1e-6)
      })
    }
    expect(report.facts['passes']).toEqual({ planned: 3, made: 3, ended_by_target_kl: 0 })
    expect(outcome.metrics).toMatchObject({
      'data/step_num_gradient_steps': 12,
      'data/step_num_passes': 3,
      'data/step_passes_ended_by_target_kl': 0,
    })
  })

  it('score every step once under the reference and under the start, however many passes train on it', async () => {
    const options = { num_passes: 3, beta: 0.1, precalculate_logprobs: true }
    const { runs, context } = counting(contextOf())
    await train(options, context)
    expect(runs.filter((run) => run === 'score')).toHaveLength(2 * 4)
    expect(runs.filter((run) => run === 'gradient')).toHaveLength(3 * 4)
  })

  it('end before a step of a later pass whose tokens have moved further than ten times target_kl, and say so', async () => {
    const limit = 0.06
    const free = await train({ num_passes: 3, learning_rate: 3e-3 })
    const first = free.steps.findIndex(({ kl_div: kl }, at) => at >= 4 && kl! > limit)
    expect(first).toBeGreaterThanOrEqual(4)
    // the limit shortens updates as well, so the course is another: what is tested is the rule on its own numbers
    const { steps, outcome, context, report, started } = await train({
      num_passes: 3,
      learning_rate: 3e-3,
      target_kl: limit / 10,
    })
    expect(started['num_sequences']).toBe(12)
    expect(steps.length).toBeGreaterThanOrEqual(4)
    expect(steps.length).toBeLessThan(12)
    for (const { kl_div: kl } of steps.slice(4)) expect(kl!).toBeLessThanOrEqual(limit)
    expect(report.facts['passes']).toMatchObject({ planned: 3, made: steps.length / 4, ended_by_target_kl: 1 })
    expect(report.facts['passes']!['kl']).toBeGreaterThan(limit)
    expect(outcome.metrics).toMatchObject({
      'data/step_num_gradient_steps': steps.length,
      'data/step_passes_ended_by_target_kl': 1,
    })
    expect(context.optimizer.stepCount).toBe(steps.length)
  })

  it('change nothing of a job that has one', async () => {
    const [plain, one] = [await train({}), await train({ num_passes: 1 })]
    expect(one.context.adapter).toEqual(plain.context.adapter)
    expect(one.outcome.metrics).not.toHaveProperty('data/step_num_passes')
    expect(one.steps[0]).not.toHaveProperty('pass')
  })

  it('compare answers without log-probabilities with those of the start', () => {
    const resolved = resolveRlConfig({ num_passes: 2, allow_training_without_logprobs: true })
    expect(resolved.precalculateLogprobs).toBe(true)
    expect(resolveRlConfig({ allow_training_without_logprobs: true }).precalculateLogprobs).toBe(false)
  })
})

describe('the order of passes', () => {
  it('holds every step once in each, in an order of its own by the seed', () => {
    const order = passOrder(20, { passes: 3, seed: 'a' })
    const passes = [order.slice(0, 20), order.slice(20, 40), order.slice(40)]
    for (const pass of passes) expect([...pass].sort((a, b) => a - b)).toEqual([...Array(20).keys()])
    expect(passes[0]).toEqual([...Array(20).keys()])
    expect(passes[1]).not.toEqual(passes[0])
    expect(passes[2]).not.toEqual(passes[1])
    expect(passOrder(20, { passes: 3, seed: 'a' })).toEqual(order)
    expect(passOrder(20, { passes: 3, seed: 'b' })).not.toEqual(order)
  })
})
