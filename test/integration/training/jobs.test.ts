/**
 * RL and SFT jobs as a driver sees them: events, learning rates, batches that are passed over, what a step reports.
 */
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import type { JsonObject } from '#base/util/json.js'
import { addLossesOf } from '#contract/jobs/losses.js'
import { NO_REFUSALS } from '#formats/rows/examples/batches.js'
import { parseTrajectoryGroups } from '#formats/rows/parse.js'
import type { SftBatch, SftSequence } from '#formats/rows/sft-data.js'
import { type AdapterWeights, createAdapter } from '#model/weights/adapter.js'
import { createAdamWState } from '#numerics/optim/adamw.js'
import { literature } from '#plugins/literature/plugin.js'
import { trainRl } from '#training/kinds/rl/rl-job.js'
import { trainSft } from '#training/kinds/sft/sft-job.js'
import type { TrajectoryText } from '#training/rows/turns.js'
import type { JobContext, TrainingEvent, TrainingOutcome } from '#training/trainer/job.js'
import { MICRO_BATCH_TOKENS, recomputedBytes } from '#training/trainer/memory.js'
import { createProgress } from '#training/trainer/progress.js'
import { resolveRlConfig, resolveSftConfig } from '../../support/model/job-options.js'
import {
  createTrainingFixture,
  randomSequence,
  SMALL_CONFIG,
  type TrainingFixture,
  withRandomB,
} from '../../support/model/training-fixture.js'

let fixture: TrainingFixture
beforeAll(async () => {
  fixture = await createTrainingFixture()
  await addLossesOf([literature])
})
afterAll(() => fixture.close())

async function drive(job: AsyncGenerator<TrainingEvent, TrainingOutcome>) {
  const events: TrainingEvent[] = []
  for (let next = await job.next(); ; next = await job.next()) {
    if (next.done === true) return { events, steps: events.slice(1).map(({ data }) => data), outcome: next.value }
    events.push(next.value)
  }
}

describe('SFT job', () => {
  const sequence = (seed: string, length = 10): SftSequence => ({ ...randomSequence(seed, length, 4), lineNumber: 1 })

  function run(batches: readonly (readonly SftSequence[])[], config: JsonObject, context: JobContext) {
    const list: SftBatch[] = batches.map((sequences, index) => ({
      index,
      sequences,
      exampleCount: 2,
      droppedCount: 0,
      untrainableCount: 2 - sequences.length,
      leftOutLines: { overlength: [], untrainable: [] },
      leftOutMessages: { count: 0, examples: [] },
      refused: NO_REFUSALS,
      splitCount: 0,
      lostCount: 0,
      notes: [],
      tokenCount: sequences.reduce((sum, { tokenIds }) => sum + tokenIds.length, 0),
      trainableTokenCount: sequences.reduce((sum, { lossMask }) => sum + lossMask.reduce((a, b) => a + b, 0), 0),
      longestLength: Math.max(0, ...sequences.map(({ tokenIds }) => tokenIds.length)),
    }))
    const total = (read: (batch: SftBatch) => number) => list.reduce((sum, batch) => sum + read(batch), 0)
    const survey = {
      exampleCount: total((batch) => batch.exampleCount),
      batchCount: list.length,
      trainableBatchCount: list.filter((batch) => batch.trainableTokenCount > 0).length,
      droppedCount: 0,
      untrainableCount: total((batch) => batch.untrainableCount),
      leftOutLines: { overlength: [], untrainable: [] },
      leftOutMessages: { count: 0, examples: [] },
      refused: NO_REFUSALS,
      splitCount: 0,
      lostCount: 0,
      notes: [],
      orderNotes: [],
      tokenCount: total((batch) => batch.tokenCount),
      trainableTokenCount: total((batch) => batch.trainableTokenCount),
      longestLength: Math.max(...list.map((batch) => batch.longestLength)),
    }
    async function* stream() {
      yield* list
    }
    return drive(
      trainSft({ survey, openBatches: stream, hyperparameters: resolveSftConfig(config), validation: null }, context),
    )
  }

  it('passes over batches without trainable tokens and keeps the learning rate of each batch', async () => {
    const { events, steps } = await run(
      [[sequence('a')], [], [sequence('b'), sequence('c')]],
      { learning_rate: [0.1, 0.2, 0.3] },
      fixture.context('rates'),
    )
    expect(events[0]).toMatchObject({ type: 'training_started', data: { num_sequences: 2, num_trajectories: 6 } })
    expect(steps.map((data) => data['learning_rate'])).toEqual([0.1, 0.3])
    expect(steps.map((data) => data['num_trajectories'])).toEqual([1, 2])
  })

  it('trains a row of more than 1,024 tokens through blocks of attention, and shorter ones beside it, bit-identical again', async () => {
    const batches = [[sequence('short', 40)], [sequence('long', 1100)]]
    const runs = await Promise.all(
      ['long rows', 'long rows'].map(async (seed) => {
        const context = fixture.context(seed)
        return { ...(await run(batches, { learning_rate: 0.01 }, context)), adapter: context.adapter }
      }),
    )
    const [first, second] = runs
    expect(first!.steps).toHaveLength(2)
    for (const [path, values] of first!.adapter.b) expect(second!.adapter.b.get(path)).toEqual(values)
    // The same row alone is computed whole, by a dense bias.
    const alone = await run(batches.slice(0, 1), { learning_rate: 0.01 }, fixture.context('long rows'))
    expect(first!.steps[0]!['loss']).toBeCloseTo(alone.steps[0]!['loss']!, 5)
    expect(first!.steps[0]!['grad_norm']).toBeCloseTo(alone.steps[0]!['grad_norm']!, 4)
  })

  it('is refused with the figures before a session opens where it cannot fit, and computes layers again where that helps', async () => {
    const size = { rows: MICRO_BATCH_TOKENS / 64, length: 64 }
    const least = Math.ceil(recomputedBytes(SMALL_CONFIG, size))
    const long = [[sequence('long', size.length)]]
    let sessionCount = 0
    const counted = (availableBytes: number): JobContext => {
      const context = fixture.context('memory')
      const loadSession: typeof context.runtime.loadSession = (...given) => {
        sessionCount += 1
        return context.runtime.loadSession(...given)
      }
      return { ...context, availableBytes, runtime: { ...context.runtime, loadSession } }
    }
    await expect(run(long, {}, counted(least - 1))).rejects.toMatchObject({
      code: 'out_of_memory',
      message: expect.stringMatching(
        /row of 64 tokens needs about [\d.]+ MB beside the weights, but [\d.]+ MB are available/,
      ),
    })
    expect(sessionCount).toBe(0)
    const [short, plenty] = [counted(least), counted(1e12)]
    await run(long, {}, short)
    await run(long, {}, plenty)
    expect(sessionCount).toBe(2)
    expect(short.progress.report.facts['memory']).toMatchObject({ recomputed: 1, available_bytes: least })
    expect(plenty.progress.report.facts['memory']).toMatchObject({ recomputed: 0 })
    expect(short.adapter).toEqual(plenty.adapter)
  })

  it('makes of a row of weight 2 what two copies make, and of one of weight 0.5 a half', async () => {
    const [a, b] = [sequence('a', 20), sequence('b', 12)]
    const tokens = (rows: readonly SftSequence[]) =>
      rows.reduce((sum, { lossMask }) => sum + lossMask.reduce((ones, bit) => ones + bit, 0), 0)
    const pull = async (rows: readonly SftSequence[]) => {
      const context = { ...fixture.context('weights'), adapter: withRandomB(fixture.context('weights').adapter, 'w') }
      const { steps } = await run([rows], { learning_rate: 0, max_grad_norm: 0 }, context)
      return { norm: steps[0]!['grad_norm']! * tokens(rows), loss: steps[0]!['loss']! * tokens(rows) }
    }
    const [weighted, copied] = [await pull([{ ...a, weight: 2 }, b]), await pull([a, a, b])]
    expect(weighted.loss).toBeCloseTo(copied.loss, 3)
    expect(weighted.norm / copied.norm).toBeCloseTo(1, 5)
    const [half, whole] = [await pull([{ ...a, weight: 0.5 }]), await pull([a])]
    expect(half.norm / whole.norm).toBeCloseTo(0.5, 5)
    expect((await pull([a, b])).norm / copied.norm).not.toBeCloseTo(1, 2)
  })

  it('passes over the data once per epoch, with one schedule over all of them', async () => {
    const batches = [[sequence('a')], [], [sequence('b')]]
    const twice = fixture.context('epochs')
    const { events, steps, outcome } = await run(
      batches,
      { epochs: 2, learning_rate: 0.01, learning_rate_schedule: 'linear', warmup_steps: 2, min_learning_rate: 0.001 },
      twice,
    )
    expect(events[0]).toMatchObject({ data: { num_sequences: 4, num_epochs: 2 } })
    // Six batches, of which the second of each epoch trains nothing and keeps its place in the schedule.
    const rates = [0.0055, 0.01, 0.007, 0.001]
    for (const [n, data] of steps.entries()) expect(data['learning_rate']).toBeCloseTo(rates[n]!, 9)
    const flat = fixture.context('epochs')
    await run([...batches, ...batches], { learning_rate: [0.0055, 0, 0.01, 0.007, 0, 0.001] }, flat)
    expect(outcome.metrics['data/step_num_gradient_steps']).toBe(4)
    for (const [path, values] of twice.adapter.b) {
      for (const [i, value] of values.entries())
        expect(Math.abs(value - flat.adapter.b.get(path)![i]!)).toBeLessThan(1e-7)
    }
  })

  it('decays weights by rate times decay, whatever the gradient', async () => {
    const change = async (decay: number) => {
      const context = fixture.context('decay')
      await run([[sequence('a')]], { learning_rate: 0.1, weight_decay: decay }, context)
      return context.adapter.a
    }
    const [plain, decayed, start] = [await change(0), await change(0.5), fixture.context('decay').adapter.a]
    for (const [path, values] of decayed) {
      values.forEach((value, i) => {
        expect(Math.abs(value - (plain.get(path)![i]! - 0.05 * start.get(path)![i]!))).toBeLessThan(1e-6)
      })
    }
  })

  it('moves B by the ratio of LoRA+ as often as far, and A as without it', async () => {
    const change = async (ratio: number) => {
      const context = fixture.context('plus')
      await run([[sequence('a')]], { learning_rate: 1e-3, loraplus_lr_ratio: ratio }, context)
      return context.adapter
    }
    const [plain, plus] = [await change(1), await change(16)]
    expect(plus.a).toEqual(plain.a)
    for (const [path, values] of plus.b) {
      values.forEach((value, i) => {
        expect(Math.abs(value - 16 * plain.b.get(path)![i]!)).toBeLessThan(1e-7)
      })
    }
  })

  it('refuses a list of learning rates of another length before it starts', async () => {
    await expect(run([[sequence('a')]], { learning_rate: [0.1, 0.2] }, fixture.context('list'))).rejects.toMatchObject({
      code: 'learning_rate_count',
    })
  })

  it('makes no step and leaves the adapter when nothing is trainable', async () => {
    const context = fixture.context('empty')
    const before = new Map([...context.adapter.a].map(([path, values]) => [path, values.slice()]))
    const { events } = await run([[], []], {}, context)
    expect(events.map(({ type, data }) => [type, data['num_sequences']])).toEqual([['training_started', 0]])
    expect(context.adapter.a).toEqual(before)
    expect(context.optimizer.stepCount).toBe(0)
  })

  it('reports the mean loss of an untrained model as about ln V, and averages steps into the checkpoint', async () => {
    const { steps, outcome } = await run(
      [[sequence('a', 90)], [sequence('b', 90)]],
      { learning_rate: 0 },
      fixture.context('ln V'),
    )
    for (const data of steps) expect(Math.abs(data['loss']! - Math.log(SMALL_CONFIG.vocabularySize))).toBeLessThan(1.5)
    expect(outcome.metrics['loss/train']).toBeCloseTo((steps[0]!['loss']! + steps[1]!['loss']!) / 2, 6)
    expect(outcome.metrics['data/step_num_gradient_steps']).toBe(2)
  })

  it('metric_logging puts the means of the call under sft/ on the checkpoint', async () => {
    const train = async (enabled: boolean) => {
      const config = { learning_rate: [0.1, 0.3], metric_logging: { enabled, target_training_step: 1 } }
      return await run([[sequence('a')], [sequence('b')]], config, fixture.context('logged'))
    }
    const { steps, outcome } = await train(true)
    const mean = (name: string) => (steps[0]![name]! + steps[1]![name]!) / 2
    const logged = Object.fromEntries(Object.entries(outcome.metrics).filter(([name]) => name.startsWith('sft/')))
    expect(logged).toEqual({
      'sft/loss': expect.closeTo(mean('loss'), 6),
      'sft/grad_norm': expect.closeTo(mean('grad_norm'), 6),
      'sft/learning_rate': expect.closeTo(0.2, 9),
    })
    const unlogged = await train(false)
    expect(Object.keys(unlogged.outcome.metrics).filter((name) => name.startsWith('sft/'))).toEqual([])
  })
})

describe('RL job', () => {
  const text: TrajectoryText = {
    vocabularySize: SMALL_CONFIG.vocabularySize,
    renderPrompt: () => [1, 2, 3],
    renderLastTurn: () => ({ tokenIds: [1], mask: [1] }),
    leftOutOf: () => [],
    textOf: (ids) => ids.join(' '),
    isControl: () => false,
    tokenIdOf: () => null,
  }

  /** `count` trajectories with rewards 0 and 1 in turn; logprobs far from the truth unless NaN. */
  function groups(count: number, length: number) {
    const value = [
      {
        trajectories: Array.from({ length: count }, (_, i) => {
          const ids = [...randomSequence(`rl ${i}`, length, 0).tokenIds]
          return {
            reward: i % 2,
            messages_and_choices: [
              { role: 'user', content: 'x' },
              {
                index: 0,
                finish_reason: 'stop',
                message: { role: 'assistant', content: 'y' },
                prompt_token_ids: [4, 5, 6 + i],
                token_ids: ids,
                logprobs: { content: ids.map((id) => ({ token: `token_id:${id}`, logprob: -4, top_logprobs: [] })) },
              },
            ],
          }
        }),
      },
    ]
    return parseTrajectoryGroups(JSON.parse(JSON.stringify(value)))
  }

  function run(
    config: JsonObject,
    context: JobContext,
    trajectories = groups(6, 20),
    reference: AdapterWeights | null = null,
  ) {
    const hyperparameters = resolveRlConfig(config)
    return drive(trainRl({ groups: trajectories, hyperparameters, text, padTokenId: 0, reference }, context))
  }

  it('makes one step per packed row, or per rows asked for, and says how many beforehand', async () => {
    const single = await run({ packed_sequence_length: 32 }, fixture.context('rows'))
    expect(single.events[0]!.data['num_sequences']).toBe(6)
    expect(single.steps.length).toBe(6)
    const joined = await run({ packed_sequence_length: 32, grad_accumulation_sequences: 4 }, fixture.context('rows'))
    expect(joined.events[0]!.data['num_sequences']).toBe(2)
    expect(joined.steps.map((data) => data['num_trainable_tokens'])).toEqual([80, 40])
    expect(joined.outcome.metrics).toMatchObject({
      'data/step_num_gradient_steps': 2,
      'data/step_trainer_tokens': 120,
    })
  })

  it.each([
    { loss_fn: 'gspo' },
    { loss_fn: 'dr_grpo', max_completion_length: 32 },
    { loss_fn: 'importance_sampling', advantage_estimator: 'leave_one_out', loss_aggregation: 'constant' },
    { loss_fn: 'dro', dro_beta: 0.1 },
    { beta: 0.1, entropy_coef: 0.01 },
    { advantage_estimator: 'batch', soft_overlength_limit: 20 },
    { loss_fn: 'dual_clip', delta: 2 },
    { loss_fn: 'sapo', advantage_estimator: 'group_batch_std' },
    { loss_fn: 'gpg' },
    { loss_fn: 'luspo', advantage_estimator: 'reinforce_plus_plus_baseline' },
    { loss_fn: 'gspo_token' },
    { loss_fn: 'gmpo' },
  ])('makes what was rewarded likelier with %j', async (config) => {
    const options = { learning_rate: 0.01, precalculate_logprobs: true, ...config }
    const context = fixture.context('variants')
    const answers = groups(6, 20)
    const gain = async (): Promise<number> => {
      const fresh = { ...context, progress: createProgress(), optimizer: createAdamWState() }
      const scored = await run({ learning_rate: 0, precalculate_logprobs: true }, fresh, answers)
      return scored.steps[0]!['loss']!
    }
    // the loss of CISPO at ratio 1 is minus the mean of advantage times log-probability
    const before = await gain()
    const { steps } = await run(options, context, answers)
    expect(steps.length).toBeGreaterThan(0)
    expect(await gain()).toBeLessThan(before)
  })

  it('raises entropy where that is asked for, and nothing else is', async () => {
    const context = fixture.context('entropy')
    const adapter = withRandomB(context.adapter, 'entropy')
    const options = { packed_sequence_length: 32, learning_rate: 0.01, entropy_coef: 1e4 }
    const { steps } = await run(options, { ...context, adapter }, groups(6, 20))
    const entropies = steps.map((data) => data['entropy']!)
    expect(entropies.at(-1)).toBeGreaterThan(entropies[0]! + 0.005)
  })

  it('lowers the rewards of long answers before it takes advantages, and says how many', async () => {
    const equal = groups(6, 20).map((group) => ({
      ...group,
      trajectories: group.trajectories.map((trajectory, i) => ({
        ...trajectory,
        reward: 1,
        histories: i === 0 ? groups(1, 12)[0]!.trajectories[0]!.histories : trajectory.histories,
      })),
    }))
    const config = { soft_overlength_limit: 20, soft_overlength_buffer: 5 }
    const { events, steps, outcome } = await run(config, fixture.context('length'), equal)
    expect(events[0]!.data).toMatchObject({ num_penalized_overlength: 5, num_trained_trajectories: 6 })
    // rewards are reported as they came
    expect(steps[0]).toMatchObject({ reward: 1, reward_std_dev: 0, num_groups_trainable: 1 })
    expect(outcome.metrics['train/reward']).toBe(1)
    const without = await run({}, fixture.context('length'), equal)
    expect(without.steps).toEqual([])
  })

  it('gives the same losses and gradients whatever `logprob_calculation_chunk_size` is', async () => {
    const train = async (config: JsonObject) => {
      const context = fixture.context('chunks')
      const options = { packed_sequence_length: 64, kl_penalty_coef: 0.1, precalculate_logprobs: true, ...config }
      const { steps } = await run(options, { ...context, adapter: withRandomB(context.adapter, 'chunks') })
      return steps.flatMap(({ loss, grad_norm, entropy }) => [loss, grad_norm, entropy].map(Number))
    }
    const whole = await train({})
    expect(whole.length).toBeGreaterThan(3)
    for (const chunk of [1, 7, 64]) {
      const values = await train({ logprob_calculation_chunk_size: chunk })
      expect(values, `chunk ${chunk}`).toEqual(whole.map((value) => expect.closeTo(value, 5)))
    }
  })

  it('uses its own log-probabilities where data of its own step carries others, and says so', async () => {
    const own = groups(6, 20).map((group) => ({
      ...group,
      trajectories: group.trajectories.map((each) => ({ ...each, initialPolicyVersion: 3, finalPolicyVersion: 3 })),
    }))
    const train = async (trajectories: ReturnType<typeof groups>, config: JsonObject) => {
      const context = fixture.context('mismatch')
      const hyperparameters = resolveRlConfig({ packed_sequence_length: 32, learning_rate: 1e-2, ...config })
      const job = { groups: trajectories, hyperparameters, text, padTokenId: 0, currentStep: 3 }
      return { ...(await drive(trainRl(job, context))), report: context.progress.report, adapter: context.adapter }
    }
    // the fixture's answers are not the text of their ids, which is another note
    const notesOf = ({ report }: Awaited<ReturnType<typeof train>>) =>
      report.notes.filter((note) => !note.includes('their token ids spell'))
    const unasked = await train(own, {})
    expect(unasked.steps[0]!['importance_ratio_mean']).toBeCloseTo(1, 5)
    expect(unasked.report.facts['sampler_mismatch']).toMatchObject({ tokens: 20, recomputed: 1 })
    expect(notesOf(unasked)).toEqual([expect.stringContaining('the trainer computed them again')])
    // the same bits as when it had been asked for
    const asked = await train(own, { precalculate_logprobs: true })
    expect(unasked.adapter).toEqual(asked.adapter)
    expect(notesOf(asked)).toEqual([])
    const foreign = await train(groups(6, 20), {})
    expect(foreign.report.facts['sampler_mismatch']).toMatchObject({ recomputed: 0 })
    expect(notesOf(foreign)).toEqual([expect.stringContaining('sampled from other weights')])
    expect(foreign.steps[0]!['importance_ratio_mean']).not.toBeCloseTo(1, 2)
  })

  it('starts with a ratio of 1 when log-probabilities are calculated beforehand', async () => {
    const context = fixture.context('precalculated')
    const { steps } = await run(
      { precalculate_logprobs: true },
      { ...context, adapter: withRandomB(context.adapter, 'p') },
    )
    expect(steps[0]!['importance_ratio_mean']).toBeCloseTo(1, 5)
    const sampled = await run({}, fixture.context('sampled'))
    expect(Math.abs(sampled.steps[0]!['importance_ratio_mean']! - 1)).toBeGreaterThan(0.05)
  })

  it('measures the KL penalty to the base model without its adapter', async () => {
    const context = fixture.context('kl')
    const trained = await run({ kl_penalty_coef: 0.1 }, { ...context, adapter: withRandomB(context.adapter, 'kl') })
    expect(Math.abs(trained.steps[0]!['kl_policy_ref']!)).toBeGreaterThan(1e-4)
    const fresh = await run({ kl_penalty_coef: 0.1 }, fixture.context('kl'))
    expect(Math.abs(fresh.steps[0]!['kl_policy_ref']!)).toBeLessThan(1e-6)
  })

  it('measures the KL penalty to another adapter, of another rank too', async () => {
    const learner = withRandomB(fixture.context('reference').adapter, 'learner')
    const klTo = async (reference: AdapterWeights) => {
      const { steps } = await run(
        { kl_penalty_coef: 0.1, learning_rate: 0 },
        { ...fixture.context('reference'), adapter: learner },
        groups(6, 20),
        reference,
      )
      return Math.abs(steps[0]!['kl_policy_ref']!)
    }
    expect(await klTo(learner)).toBeLessThan(1e-6)
    const modules = [...learner.a].map(([path, a]) => ({
      path,
      inputSize: a.length / learner.config.rank,
      outputSize: learner.b.get(path)!.length / learner.config.rank,
    }))
    const other = createAdapter(modules, { rank: 3, alpha: 3, seed: 'other' })
    expect(await klTo(withRandomB(other, 'other'))).toBeGreaterThan(1e-3)
  })

  it('multiplies the learning rate by a power of the completions, and reports the one asked for', async () => {
    const change = async (power: number) => {
      const context = fixture.context('power')
      const { steps } = await run(
        { learning_rate: 1e-4, num_trajectories_learning_rate_multiplier_power: power },
        context,
        groups(4, 20),
      )
      expect(steps.map((data) => data['learning_rate'])).toEqual([1e-4])
      return [...context.adapter.b.values()].reduce((sum, b) => sum + b.reduce((s, value) => s + Math.abs(value), 0), 0)
    }
    // One row of four completions; Adam's first step is the learning rate in every element.
    expect((await change(1)) / (await change(0))).toBeCloseTo(4, 3)
  })

  it('gives the same adapter when the same job is run again', async () => {
    const [one, two] = [fixture.context('same'), fixture.context('same')]
    for (const context of [one, two]) await run({ packed_sequence_length: 32 }, context)
    expect(two.adapter).toEqual(one.adapter)
    expect(one.adapter).not.toEqual(fixture.context('same').adapter)
  })
})
