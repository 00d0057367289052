/**
 * The demo's loops against the real service on the tiny random model: jobs really run, checkpoints really appear, and an
 * interruption leaves no job behind. The task is the test's own, because random weights answer nothing that fits a sentence.
 */
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import type { DemoEvent, DemoFinished, DemoStep } from '#plugins/demo/events.js'
import { createDemoModel } from '#plugins/demo/model.js'
import { runDemo } from '#plugins/demo/run.js'
import type { DemoTask } from '#plugins/demo/task.js'
import { systemClock } from '../../../src/base/util/clock.js'
import { requireCompleted } from '../../../src/cli/views/watch.js'
import { createClient } from '../../../src/sdk/client/client.js'
import { inferenceName } from '../../../src/sdk/client/inference-name.js'
import { createTestService, type TestService } from '../../support/service/create-test-service.js'

const itemOf = (prompt: string) => ({ prompt, reference: 'e', expected: ['e'] })
/** The share of the letters e to z among the bytes of an answer: varies with every sample. */
const letters: DemoTask = {
  name: 'letters',
  teaches: 'write letters',
  rule: 'the share of letters',
  maxTokens: 6,
  training: Array.from({ length: 12 }, (_, i) => itemOf(`training ${i}`)),
  heldOut: [itemOf('held out 0'), itemOf('held out 1')],
  reward: (_item, answer) => (answer.match(/[e-z]/g)?.length ?? 0) / Math.max(1, answer.length),
}

let service: TestService
beforeAll(async () => {
  service = await createTestService({ scripted: false })
})
afterAll(() => service.dispose())

async function start(options: { kind: 'rl' | 'sft'; task?: DemoTask; steps: number; signal?: AbortSignal }) {
  const client = createClient({ baseUrl: service.url, apiKey: service.apiKey })
  const signal = options.signal ?? new AbortController().signal
  const baseModel = (await client.baseModels.list()).find((name) => name === 'trainyard/tiny-random') ?? ''
  const model = await createDemoModel(client, { baseModel, name: 'demo-x', project: 'p', entity: null, signal })
  const task = options.task ?? letters
  const clock = systemClock
  const budget = { clock, startMs: clock.monotonicMs(), budgetMs: 600_000, longestMs: 600_000 }
  const nameAt = (step: number) => inferenceName(model, step)
  return {
    client,
    model,
    events: runDemo({ ...options, ...budget, client, model, task, seed: 1, signal, nameAt, requireCompleted }),
  }
}
async function collect(events: AsyncGenerator<DemoEvent>): Promise<readonly DemoEvent[]> {
  const all: DemoEvent[] = []
  for await (const event of events) all.push(event)
  return all
}
const stepsOf = (events: readonly DemoEvent[]) =>
  events.filter((event): event is DemoStep => event.object === 'demo.step')
const endOf = (events: readonly DemoEvent[]) => events.at(-1) as DemoFinished

describe('reinforcement learning', () => {
  test('every turn with differing rewards makes one checkpoint; the curve has the beginning and every step', async () => {
    const { client, model, events } = await start({ kind: 'rl', steps: 3 })
    const all = await collect(events)
    expect(all[0]).toMatchObject({ object: 'demo.started', kind: 'rl', task: 'letters', model: 'demo-x-1', seed: 1 })
    expect(all[1]).toMatchObject({ object: 'demo.measured', step: 0, answers: 8 })
    expect(stepsOf(all).map((event) => event.step)).toEqual([1, 2, 3])
    for (const event of stepsOf(all)) {
      expect(event.trained_groups).toBeGreaterThan(0)
      expect(event.gradient_steps).toBeGreaterThan(0)
      expect(event.loss).toEqual(expect.any(Number))
      expect(event.tokens).toBeGreaterThan(0)
    }
    const end = endOf(all)
    expect(end).toMatchObject({ object: 'demo.finished', reason: 'steps', step: 3, model_id: model.id })
    expect(end.held_out.map((point) => point.step)).toEqual([0, 1, 2, 3])
    expect(end.samples).toHaveLength(2)
    expect(end.gain).toBeCloseTo(end.after - end.before, 12)
    expect((await client.models.get(model.id)).step).toBe(3)
  })
  test('rewards that never differ end the demo without a job', async () => {
    const { client, model, events } = await start({ kind: 'rl', steps: 9, task: { ...letters, reward: () => 0 } })
    const end = endOf(await collect(events))
    expect(end).toMatchObject({ reason: 'nothing_to_learn', step: 0, gain: 0 })
    expect((await client.trainingJobs.list({ model_id: model.id })).data).toEqual([])
  })
  test('a held-out reward at the goal ends it early', async () => {
    const task: DemoTask = {
      ...letters,
      reward: (item, answer) => (item.prompt.startsWith('held') ? 1 : letters.reward(item, answer)),
    }
    const end = endOf(await collect((await start({ kind: 'rl', steps: 9, task })).events))
    expect(end.reason).toBe('goal')
    expect(end.step).toBeLessThan(9)
  })
  test('an interruption cancels the running job', async () => {
    const controller = new AbortController()
    const { client, model, events } = await start({ kind: 'rl', steps: 9, signal: controller.signal })
    const reason = new Error('stop')
    const run = async () => {
      for await (const event of events) if (event.object === 'demo.gradient_step') controller.abort(reason)
    }
    await expect(run()).rejects.toBe(reason)
    const [job] = (await client.trainingJobs.list({ model_id: model.id })).data
    const ended = await service.waitForJob(job?.id ?? '')
    expect(['cancelled', 'completed']).toContain(ended.status)
    expect(ended.is_cancel_requested || ended.status === 'completed').toBe(true)
  })
})

describe('fine-tuning', () => {
  test('every round over the examples makes one checkpoint, and the loss falls', async () => {
    const { client, model, events } = await start({ kind: 'sft', steps: 2 })
    const all = await collect(events)
    const [first, second] = stepsOf(all)
    expect(first).toMatchObject({ step: 1, reward: null, groups: 12, gradient_steps: 2 })
    expect(second?.loss).toBeLessThan(first?.loss ?? 0)
    expect(endOf(all).held_out.map((point) => point.step)).toEqual([0, 1, 2])
    expect((await client.models.get(model.id)).step).toBe(2)
  })
})

describe('the model', () => {
  test('gets the next free number', async () => {
    const { model } = await start({ kind: 'rl', steps: 1 })
    const { model: next } = await start({ kind: 'rl', steps: 1 })
    const numberOf = (name: string) => Number(name.slice('demo-x-'.length))
    expect(numberOf(next.name)).toBe(numberOf(model.name) + 1)
  })
  test('an unknown base model is refused with those there are', async () => {
    const client = createClient({ baseUrl: service.url, apiKey: service.apiKey })
    const { signal } = new AbortController()
    await expect(
      createDemoModel(client, { baseModel: 'no/such', name: 'demo-x', project: 'p', entity: null, signal }),
    ).rejects.toMatchObject({
      category: 'not_found',
      code: 'base_model_not_found',
      hint: expect.stringContaining('--base-model'),
    })
  })
})
