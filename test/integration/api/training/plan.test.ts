/**
 * Plans of jobs: what `?plan=true` answers is what the job's own events and report say after it ran, and nothing is left
 * behind. Real processes on the built-in model.
 */
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import type { JsonObject } from '#base/util/json.js'
import { type TrainingPlan, trainingPlanSchema } from '#contract/wire/training/plan.js'
import type { TrainingJob } from '#contract/wire/training-jobs.js'
import { createTestService, type TestService } from '../../../support/service/create-test-service.js'

const ROUTES = {
  rl: '/v1/preview/training-jobs',
  sft: '/v1/preview/sft-training-jobs',
  dpo: '/v1/preview/dpo-training-jobs',
}
type Kind = keyof typeof ROUTES

let service: TestService
beforeAll(async () => {
  service = await createTestService({ scripted: false, baseModels: ['trainyard/spark'], threads: 1 })
})
afterAll(() => service.dispose())

let modelCount = 0
async function createModel(): Promise<string> {
  modelCount += 1
  const { body } = await service.json<{ id: string }>('/v1/preview/models', {
    json: { project: 'tests', name: `plan-${modelCount}`, base_model: 'trainyard/spark' },
  })
  return body.id
}

interface Failure {
  readonly error?: { readonly code: string; readonly message: string }
}

async function plan(kind: Kind, json: JsonObject): Promise<TrainingPlan> {
  const { status, body } = await service.json<TrainingPlan & Failure>(`${ROUTES[kind]}?plan=true`, { json })
  expect([status, body.error]).toEqual([200, undefined])
  expect(trainingPlanSchema.parse(body)).toEqual(body)
  // what the job would run with, defaults included
  expect(body.resolved_config).toMatchObject({ learning_rate: expect.any(Number), precision: 'f32' })
  return body
}

async function run(kind: Kind, json: JsonObject): Promise<TrainingJob> {
  const { status, body } = await service.json<TrainingJob & Failure>(ROUTES[kind], { json })
  expect([status, body.error]).toEqual([200, undefined])
  return service.waitForJob(body.id)
}

/** An assistant turn as a sampler would have returned it: every character a token of the built-in byte vocabulary. */
const choice = (text: string) => ({
  finish_reason: 'stop',
  index: 0,
  message: { role: 'assistant', content: text },
  logprobs: {
    content: [...text].map((token) => ({ token, logprob: -1.5, bytes: [...Buffer.from(token)], top_logprobs: [] })),
  },
})
const trajectory = (question: string, answer: string, reward: number) => ({
  messages_and_choices: [{ role: 'user', content: question }, choice(answer)],
  reward,
})
const groups = [
  { trajectories: [trajectory('a?', 'one', 1), trajectory('a?', 'two', 0), trajectory('a?', 'three', 0.25)] },
  { trajectories: [trajectory('b?', 'four', 1), trajectory('b?', 'five', 1)] },
  { trajectories: [trajectory('c?', 'six', 1)] },
  { trajectories: [trajectory('d?', 'seven '.repeat(80), 0), trajectory('d?', 'eight', 1)] },
]
const address = (rows: readonly unknown[]): string =>
  `data:application/jsonl;base64,${Buffer.from(rows.map((row) => JSON.stringify(row)).join('\n')).toString('base64')}`
const conversation = (answer: string) => ({
  messages: [
    { role: 'user', content: 'Say it.' },
    { role: 'assistant', content: answer },
  ],
})
const rows = [...['one', 'two', 'three', 'four', 'five'].map(conversation), conversation('long '.repeat(3000))]
const pairs = ['rain', 'bread', 'music'].map((thing) => ({
  prompt: `What of ${thing}?`,
  chosen: `Thank you for ${thing}.`,
  rejected: `Go away with ${thing}.`,
}))

const REQUESTS: Readonly<Record<Kind, JsonObject>> = {
  rl: {
    trajectory_groups: groups,
    experimental_config: { learning_rate: 1e-3, seed: 7, tokens_per_step: 64, packed_sequence_length: 256 },
  },
  sft: {
    training_data_url: address(rows),
    validation_data_url: address(rows.slice(0, 2)),
    config: { batch_size: 2, epochs: 2, learning_rate: 1e-3 },
  },
  dpo: { training_data_url: address(pairs), config: { batch_size: 2, epochs: 3, learning_rate: 1e-4 } },
}

describe('a plan', () => {
  test('of rows whose last turns say that they do not train has nothing to train on', async () => {
    const [asked, answered] = conversation('first').messages
    const row = { messages: [asked, answered, asked, { ...answered, content: 'BAD', weight: 0 }] }
    const json = { model_id: await createModel(), training_data_url: address([row, row]) }
    const last = await plan('sft', { ...json, config: { assistant_turns: 'last' } })
    expect(last).toMatchObject({ num_gradient_steps: 0, trained_tokens: 0, sequences: [] })
    expect(last.warnings).toEqual([expect.stringMatching(/^2 .* have nothing to train on$/), expect.anything()])
    const all = await plan('sft', json)
    const trained = all.sequences[0]?.spans.filter(({ is_trained }) => is_trained).map(({ text }) => text)
    expect(trained).toEqual([expect.stringContaining('first')])
  })

  test.each(['rl', 'sft', 'dpo'] as const)('of an %s job says what the job then does', async (kind) => {
    const modelId = await createModel()
    const json = { model_id: modelId, ...REQUESTS[kind] }
    const planned = await plan(kind, json)
    expect(planned).toMatchObject({ object: 'training_plan', model_id: modelId, kind, refusal: null })
    expect(planned.time).toMatchObject({ basis: 'calibration' })
    expect(planned.time.predicted_seconds).toBeGreaterThan(0)
    const { body: before } = await service.json<{ data: unknown[] }>(`${ROUTES.rl}?model_id=${modelId}`)
    expect(before.data).toEqual([])

    const job = await run(kind, json)
    expect(job).toMatchObject({ status: 'completed', step: 1 })
    const [started, ...events] = await service.allEvents(job.id)
    expect(planned.started).toEqual(started!.data)
    const steps = events.filter(({ type }) => type === 'gradient_step')
    expect(planned.num_gradient_steps).toBe(steps.length)
    const { tokens, trained_tokens, left_out, facts } = job.report!
    expect(planned).toMatchObject({ tokens, trained_tokens, left_out })
    expect(planned.memory).toMatchObject({
      needed_bytes: facts['memory']!['needed_bytes'],
      is_recomputed: facts['memory']!['recomputed'] === 1,
    })
    expect(left_out.length > 0).toBe(kind !== 'dpo')

    // what the job took is what the next plan goes by
    const again = await plan(kind, json)
    expect(again.time.basis).toBe('earlier_job')
    expect(again.memory.needed_bytes).toBe(planned.memory.needed_bytes)
  })

  test('counts the session that scores between steps, as the job does', async () => {
    const modelId = await createModel()
    const needed = async (more: JsonObject): Promise<number> => {
      const config = { ...(REQUESTS.rl['experimental_config'] as JsonObject), ...more }
      const json = { model_id: modelId, ...REQUESTS.rl, experimental_config: config }
      const planned = await plan('rl', json)
      const job = await run('rl', json)
      expect(planned.memory.needed_bytes).toBe(job.report!.facts['memory']!['needed_bytes'])
      return planned.memory.needed_bytes!
    }
    expect(await needed({ target_kl: 0.05 })).toBeGreaterThan(await needed({}))
  })

  test('shows which tokens train, the advantages of each group and why groups are left out', async () => {
    const planned = await plan('rl', { model_id: await createModel(), ...REQUESTS.rl })
    expect(planned.groups.map((group) => group.left_out)).toEqual([null, 'equal_rewards', 'single_trajectory', null])
    const [a, b, c] = planned.groups[0]!.advantages as [number, number, number]
    expect(a + b + c).toBeCloseTo(0, 5)
    expect(a).toBeGreaterThan(c)
    expect(c).toBeGreaterThan(b)
    // the long answer is left out after its group's mean is taken
    expect(planned.left_out).toContainEqual({
      reason: 'overlength',
      count: 1,
      examples: ['trajectory_groups[3].trajectories[0]'],
    })
    expect(planned.num_sequences).toBe(4)
    const [first] = planned.sequences
    expect(first).toMatchObject({ source: 'trajectory_groups[0].trajectories[0]', omitted_spans: 0 })
    const trained = first!.spans.filter((span) => span.is_trained)
    expect(trained.map(({ text }) => text)).toEqual(['one'])
    expect(first!.spans[0]).toMatchObject({ is_trained: false })
    expect(first!.spans[0]!.text).toContain('a?')
    expect(first!.tokens).toBe(first!.spans.reduce((sum, span) => sum + span.tokens, 0))
    expect(planned.num_rows).toBe(planned.started['num_packed_sequences'])
  })

  test('of data in which nothing trains says so and predicts nothing', async () => {
    const planned = await plan('rl', { model_id: await createModel(), trajectory_groups: [groups[1]!] })
    expect(planned).toMatchObject({
      num_gradient_steps: 0,
      num_rows: 0,
      tokens: 0,
      time: { predicted_seconds: 0, basis: null },
    })
    expect(planned.warnings.join()).toContain('reward variance zero in 100% of groups')
  })

  test.each(['sft', 'dpo'] as const)('of an %s job says that its warm-up ends behind the last batch', async (kind) => {
    const { config, ...json } = REQUESTS[kind] as { config: JsonObject }
    const planned = await plan(kind, {
      model_id: await createModel(),
      ...json,
      config: { ...config, warmup_steps: 90 },
    })
    expect(planned.warnings.join()).toMatch(/warmup_steps is 90, but the job has \d+ batches: .* never reaches 0\.00/)
  })

  test('refuses what the job would refuse: options, rows, models of others', async () => {
    const refused = async (kind: Kind, json: JsonObject) => {
      const { status, body } = await service.json<Failure>(`${ROUTES[kind]}?plan=true`, { json })
      return [status, body.error?.code]
    }
    const modelId = await createModel()
    expect(await refused('sft', { model_id: modelId, training_data_url: 'data:,{"messages":1}' })).toEqual(
      await (async () => {
        const { status, body } = await service.json<Failure>(ROUTES.sft, {
          json: { model_id: modelId, training_data_url: 'data:,{"messages":1}' },
        })
        return [status, body.error?.code]
      })(),
    )
    expect(await refused('dpo', { ...REQUESTS.dpo, model_id: '00000000-0000-7000-8000-000000000000' })).toEqual([
      404,
      'model_not_found',
    ])
    const json = { model_id: modelId, ...REQUESTS.rl, experimental_config: { learning_rate: -1 } }
    expect((await refused('rl', json))[0]).toBe(422)
  })

  test('that computes without getting on is given up, and the next one is made', async () => {
    const hurried = await createTestService({ tuning: { plans: { stuckMs: 1 } } })
    try {
      const json = { model_id: await hurried.createModel(), ...REQUESTS.dpo }
      for (const attempt of [1, 2]) {
        const { status, body } = await hurried.json<Failure>(`${ROUTES.dpo}?plan=true`, { json })
        expect([attempt, status, body.error?.code]).toEqual([attempt, 400, 'plan_too_large'])
      }
    } finally {
      await hurried.dispose()
    }
  })
})
