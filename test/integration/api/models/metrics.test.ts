/**
 * The curves of a model: they outlive weights, end with the model, and are thinned without losing a spike.
 */
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import type { ModelMetrics } from '#contract/wire/model-metrics.js'
import { createTestService, sampleGroup, type TestService } from '../../../support/service/create-test-service.js'

let service: TestService
beforeAll(async () => {
  service = await createTestService()
})
afterAll(() => service.dispose())

/** No two jobs alike: an equal one would be taken for a repeated request. */
let reward = 0.5

async function train(model: string, count = 1): Promise<void> {
  for (let i = 0; i < count; i += 1) {
    reward += 0.125
    const json = { model_id: model, trajectory_groups: [sampleGroup([0.25, reward])] }
    const { body } = await service.json<{ id: string }>('/v1/preview/training-jobs', { json })
    expect((await service.waitForJob(body.id)).status).toBe('completed')
  }
}

const curves = async (model: string, query = '') =>
  (await service.json<ModelMetrics>(`/v1/preview/models/${model}/metrics${query}`)).body

const log = (model: string, rewards: readonly number[]) =>
  service.json(`/v1/preview/models/${model}/log`, { json: { split: 'val', trajectory_groups: [sampleGroup(rewards)] } })

/** Writes steps as jobs of an earlier day would have left them. */
async function writeSteps(model: string, steps: readonly (readonly [number, object])[]): Promise<void> {
  const { db, close } = await service.openRows()
  const rows = steps.map(([step, metrics]) => ({
    model_id: model,
    step,
    source: 'job',
    metrics: JSON.stringify(metrics),
    created_at_ms: 1_760_000_000_000 + step,
  }))
  await db.insertInto('model_metrics').values(rows).execute()
  await close()
}

describe('the metrics of a model', () => {
  it('hold what jobs recorded and what was logged, from the base model on', async () => {
    const model = await service.createModel('curve')
    expect(await curves(model)).toMatchObject({ steps: [], times: [], tokens: [], series: {}, keys: [] })
    await log(model, [0, 1])
    await train(model, 2)
    await log(model, [1, 1])
    const { data } = (
      await service.json<{ data: { step: number; metrics: Record<string, number> }[] }>(
        `/v1/preview/models/${model}/checkpoints`,
      )
    ).body
    const found = await curves(model)
    expect(found.steps).toEqual([0, 1, 2])
    expect(found.series['val/reward']).toEqual([0.5, null, 1])
    for (const { step, metrics } of data) {
      for (const [key, value] of Object.entries(metrics)) expect(found.series[key]?.[step], key).toBe(value)
    }
    expect(found.keys.find(({ key }) => key === 'val/reward')).toEqual({
      key: 'val/reward',
      source: 'log',
      split: 'val',
      count: 2,
    })
    expect(found.keys.filter(({ source }) => source === 'job').length).toBeGreaterThan(0)
    for (const time of found.times) expect(Number.isNaN(Date.parse(time))).toBe(false)
  })

  it('name the job that made each step, also where its checkpoint is gone', async () => {
    const model = await service.createModel('made')
    await log(model, [0, 1])
    await train(model, 21)
    await service.json(`/v1/preview/models/${model}/checkpoints`, { method: 'DELETE', json: { steps: [1, 2] } })
    const found = await curves(model)
    expect(found.job_ids).toHaveLength(22)
    expect(found.job_ids[0]).toBeNull()
    expect(found.session_ids).toEqual(found.steps.map(() => null))
    for (const step of [1, 2, 21]) {
      const { body } = await service.json<{ step: number; model_id: string }>(
        `/v1/preview/training-jobs/${found.job_ids[step]}`,
      )
      expect(body).toMatchObject({ step, model_id: model })
    }
    expect((await curves(model, '?from_step=20')).job_ids).toEqual(found.job_ids.slice(20))
  })

  it('stay when checkpoints are deleted, and go with the model', async () => {
    const model = await service.createModel('outlives')
    await train(model, 3)
    await log(model, [1, 0])
    const before = await curves(model)
    expect(before.steps).toEqual([1, 2, 3])
    const path = `/v1/preview/models/${model}`
    await service.json(`${path}/checkpoints`, { method: 'DELETE', json: { steps: [1, 2, 3] } })
    expect((await service.json<{ data: unknown[] }>(`${path}/checkpoints`)).body.data).toEqual([])
    expect(await curves(model)).toEqual(before)
    // the number of a step is never used again, so no other job's point takes its place
    await train(model)
    expect((await curves(model)).steps).toEqual([1, 2, 3, 4])
    expect((await service.fetch(path, { method: 'DELETE' })).status).toBe(200)
    expect((await service.fetch(`${path}/metrics`)).status).toBe(404)
    const { db, close } = await service.openRows()
    const left = await db.selectFrom('model_metrics').selectAll().where('model_id', '=', model).execute()
    await close()
    expect(left).toEqual([])
  })

  it('are had by key and range, tokens counted from the first step; what no step has is named', async () => {
    const model = await service.createModel('ranges')
    const tokens = { 'data/step_trainer_tokens': 10 }
    await writeSteps(model, [
      [1, { a: 1, ...tokens }],
      [2, { a: 2, constructor: 5, ...tokens }],
      [3, { b: 3 }],
      [4, { a: 4, ...tokens }],
    ])
    expect(await curves(model, '?keys=a&from_step=2')).toMatchObject({
      steps: [2, 4],
      tokens: [20, 30],
      series: { a: [2, 4] },
      keys: ['a', 'b', 'constructor', 'data/step_trainer_tokens'].map((key) => ({ key })),
    })
    expect((await curves(model, '?keys=constructor,b')).series).toEqual({ constructor: [5, null], b: [null, 3] })
    expect((await curves(model, '?to_step=1')).keys.map(({ key }) => key)).toEqual(['a', 'data/step_trainer_tokens'])
    const response = await service.fetch(`/v1/preview/models/${model}/metrics?keys=a,nothing&color=red`)
    expect(response.headers.get('x-trainyard-ignored-fields')).toContain('keys.nothing')
    expect(response.headers.get('x-trainyard-ignored-fields')).toContain('color')
    for (const query of ['?points=3', '?points=2001', '?from_step=-1', '?x=money', '?to_step=a']) {
      expect((await service.fetch(`/v1/preview/models/${model}/metrics${query}`)).status, query).toBe(422)
    }
  })

  it('of two thousand steps keep their spikes in a few hundred points, along every axis', async () => {
    const model = await service.createModel('long')
    const valueAt = (step: number) => (step === 777 ? 50 : step === 1500 ? -50 : Math.sin(step / 40))
    const all = Array.from({ length: 2000 }, (_, i) => i + 1)
    await writeSteps(
      model,
      all.map((step) => [step, { spiky: valueAt(step), flat: 1, 'data/step_trainer_tokens': step % 5 }] as const),
    )
    for (const x of ['step', 'time', 'tokens']) {
      const { steps, series } = await curves(model, `?keys=spiky&points=100&x=${x}`)
      expect(steps.length, x).toBeLessThanOrEqual(100)
      expect(steps, x).toEqual(expect.arrayContaining([1, 777, 1500, 2000]))
      expect(series['spiky']).toEqual(steps.map(valueAt))
    }
    expect((await curves(model, '?keys=spiky&points=2000')).steps).toEqual(all)
  })
})
