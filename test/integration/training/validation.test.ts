/**
 * SFT with validation rows on a real graph: the measured loss is the training loss of the same rows, a job that no longer gets
 * better stops, and the best state is what it leaves behind.
 */
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import type { JsonObject } from '#base/util/json.js'
import { NO_REFUSALS } from '#formats/rows/examples/batches.js'
import type { SftBatch, SftSequence } from '#formats/rows/sft-data.js'
import { trainSft } from '#training/kinds/sft/sft-job.js'
import { largestMicroBatch } from '#training/kinds/sft/sft-rows.js'
import type { JobContext } from '#training/trainer/job.js'
import { adapterParameters } from '#training/trainer/learner/parameters.js'
import { forwardBytes, recomputedBytes } from '#training/trainer/memory.js'
import { resolveSftConfig } from '../../support/model/job-options.js'
import {
  createTrainingFixture,
  openSessionsBehindFailures,
  randomSequence,
  type TrainingFixture,
} from '../../support/model/training-fixture.js'

let fixture: TrainingFixture
beforeAll(async () => {
  fixture = await createTrainingFixture()
})
afterAll(() => fixture.close())

const sequence = (seed: string): SftSequence => ({ ...randomSequence(seed, 12, 6), lineNumber: 1 })

function rowsOf(batches: readonly (readonly SftSequence[])[]) {
  const list: SftBatch[] = batches.map((sequences, index) => ({
    index,
    sequences,
    exampleCount: sequences.length,
    droppedCount: 0,
    untrainableCount: 0,
    leftOutLines: { overlength: [], untrainable: [] },
    leftOutMessages: { count: 0, examples: [] },
    refused: NO_REFUSALS,
    splitCount: 0,
    lostCount: 0,
    notes: [],
    orderNotes: [],
    tokenCount: sequences.length * 12,
    trainableTokenCount: sequences.reduce((sum, { lossMask }) => sum + lossMask.reduce((a, b) => a + b, 0), 0),
    longestLength: 12,
  }))
  const trainableTokenCount = list.reduce((sum, batch) => sum + batch.trainableTokenCount, 0)
  return {
    survey: {
      exampleCount: list.length,
      batchCount: list.length,
      trainableBatchCount: list.length,
      droppedCount: 0,
      untrainableCount: 0,
      leftOutLines: { overlength: [], untrainable: [] },
      leftOutMessages: { count: 0, examples: [] },
      refused: NO_REFUSALS,
      splitCount: 0,
      lostCount: 0,
      notes: [],
      orderNotes: [],
      tokenCount: list.length * 12,
      trainableTokenCount,
      longestLength: 12,
    },
    openBatches: async function* () {
      yield* list
    },
  }
}

async function run(
  batches: readonly (readonly SftSequence[])[],
  validation: readonly (readonly SftSequence[])[],
  config: JsonObject,
  context: JobContext,
) {
  const job = trainSft(
    { ...rowsOf(batches), hyperparameters: resolveSftConfig(config), validation: rowsOf(validation) },
    context,
  )
  const steps: Readonly<Record<string, number>>[] = []
  const states: Float32Array[] = []
  const state = () => Float32Array.from([...adapterParameters(context.adapter).values()].flatMap((a) => [...a]))
  const before = state()
  for (let next = await job.next(); ; next = await job.next()) {
    if (next.done === true) {
      return { steps, states: [before, ...states], outcome: next.value, end: state(), report: context.progress.report }
    }
    if (next.value.type === 'gradient_step') {
      steps.push(next.value.data)
      states.push(state())
    }
  }
}

describe('validation', () => {
  const training = ['a', 'b', 'c', 'd'].map((seed) => [sequence(seed)])

  it('leaves no session open when a further one cannot be loaded', async () => {
    const rows = training.slice(0, 2)
    const left = await openSessionsBehindFailures(
      () => fixture.context('sessions'),
      (context) => run(rows, rows, {}, context),
    )
    expect(left).toEqual([
      { loaded: 0, open: 0 },
      { loaded: 1, open: 0 },
    ])
  })

  it('is refused with the figures before a session opens where its rows do not fit beside the training', async () => {
    const context = fixture.context('memory')
    const rows = rowsOf([[sequence('a')]])
    const long = { ...rows, survey: { ...rows.survey, longestLength: 512 } }
    const [largest, measured] = [largestMicroBatch(rows.survey), largestMicroBatch(long.survey)]
    const { config } = context.prepared
    const availableBytes = Math.floor(recomputedBytes(config, largest) + forwardBytes(config, measured)) - 1
    // enough for the rows that are trained on
    expect(recomputedBytes(config, largest)).toBeLessThan(availableBytes)
    let sessionCount = 0
    const loadSession: typeof context.runtime.loadSession = (...given) => {
      sessionCount += 1
      return context.runtime.loadSession(...given)
    }
    const job = trainSft(
      { ...rows, hyperparameters: resolveSftConfig({}), validation: long },
      { ...context, availableBytes, runtime: { ...context.runtime, loadSession } },
    )
    expect((await job.next()).value).toMatchObject({ type: 'training_started' })
    await expect(job.next()).rejects.toMatchObject({
      code: 'out_of_memory',
      message: expect.stringContaining('the longest validation row of 512 together need about'),
    })
    expect(sessionCount).toBe(0)
  })

  it('is the loss that training reports for the same rows and weights', async () => {
    // the first step's loss is computed before its update, with the weights that the first measurement sees
    const { steps, report } = await run([training[0]!], [training[0]!], {}, fixture.context('same'))
    expect(report.validation[0]!.loss).toBeCloseTo(steps[0]!['loss']!, 5)
    expect(report.validation.map(({ step }) => step)).toEqual([0, 1])
  })

  it('divides by the tokens of all rows, however they are batched', async () => {
    const rows = [...training.flat(), sequence('e')]
    const one = await run([training[0]!], [rows], {}, fixture.context('batched'))
    const many = await run(
      [training[0]!],
      rows.map((row) => [row]),
      {},
      fixture.context('batched'),
    )
    expect(many.report.validation[0]!.loss).toBeCloseTo(one.report.validation[0]!.loss, 5)
  })

  it('is measured before training, at the interval and at the end, and stands in the events', async () => {
    const { steps, report, outcome } = await run(
      training,
      [[sequence('v')]],
      { epochs: 2, validation_interval: 3, learning_rate: 1e-3 },
      fixture.context('interval'),
    )
    expect(report.validation.map(({ step }) => step)).toEqual([0, 3, 6, 8])
    expect(steps.flatMap((data, i) => (data['val/loss'] === undefined ? [] : [i + 1]))).toEqual([3, 6, 8])
    expect(outcome.metrics['val/loss']).toBe(report.validation.at(-1)!.loss)
  })

  it('without an interval measures after each epoch', async () => {
    const { report } = await run(training, [[sequence('v')]], { epochs: 2 }, fixture.context('epochs'))
    expect(report.validation.map(({ step }) => step)).toEqual([0, 4, 8])
  })

  it('stops a job that no longer gets better, and keeps the best state and its optimizer', async () => {
    // training learns its own rows by heart with a large rate: other random rows only get worse
    const context = fixture.context('early')
    const { steps, states, end, report, outcome } = await run(
      training,
      [[sequence('v1'), sequence('v2')]],
      { epochs: 50, validation_interval: 2, early_stopping_patience: 2, learning_rate: 2e-2 },
      context,
    )
    const losses = report.validation.map(({ loss }) => loss)
    const best = report.validation.reduce((a, b) => (b.loss < a.loss ? b : a))
    expect(steps.length).toBeLessThan(200)
    expect(report.hasStoppedEarly).toBe(true)
    expect(losses.slice(-2).every((loss) => loss >= best.loss)).toBe(true)
    expect(report.keptStep).toBe(best.step)
    expect(end).toEqual(states[best.step])
    expect(context.optimizer.stepCount).toBe(best.step)
    expect(outcome.metrics['val/loss']).toBe(best.loss)
    expect(outcome.metrics['data/step_num_gradient_steps']).toBe(steps.length)
  })

  it('keeps the last state unless asked for the best', async () => {
    const { states, end, report } = await run(
      training,
      [[sequence('v1')]],
      { epochs: 3, early_stopping_patience: 1, keep_best: false, validation_interval: 1, learning_rate: 2e-2 },
      fixture.context('last'),
    )
    expect(end).toEqual(states.at(-1))
    expect(report.keptStep).toBeNull()
  })

  it('refuses validation rows in which nothing would train', async () => {
    const empty = { ...sequence('x'), lossMask: new Uint8Array(12) }
    await expect(run(training, [[empty]], {}, fixture.context('empty'))).rejects.toMatchObject({
      code: 'no_trainable_tokens',
    })
  })
})
