/**
 * The list of models: found by a part of the name, in every order without loss, with summaries that say what the parts say.
 */
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import type { ListedModel } from '#contract/wire/models.js'
import type { DatabaseHandle } from '#service/storage/database.js'
import { createTestService, sampleGroup, type TestService } from '../../../support/service/create-test-service.js'
import { until } from '../../../support/until.js'

let service: TestService
beforeAll(async () => {
  service = await createTestService()
})
afterAll(() => service.dispose())

const MODELS = '/v1/preview/models'
const list = async (query = '') =>
  (await service.json<{ data: ListedModel[]; has_more: boolean }>(`${MODELS}?${query}`)).body
const names = async (query: string) => (await list(query)).data.map(({ name }) => name)
const summaryOf = async (id: string) =>
  (await list('include=summary&limit=100')).data.find((model) => model.id === id)?.summary
let reward = 0.5

async function train(model: string, options: object = {}): Promise<string> {
  reward += 0.125
  const json = { model_id: model, trajectory_groups: [sampleGroup([0.25, reward])], ...options }
  return (await service.json<{ id: string }>('/v1/preview/training-jobs', { json })).body.id
}

async function onDatabase(action: (db: DatabaseHandle) => Promise<unknown>): Promise<void> {
  const { db, close } = await service.openRows()
  try {
    await action(db)
  } finally {
    await close()
  }
}

/** Walks over all pages. */
async function walk(query: string): Promise<string[]> {
  const seen: string[] = []
  for (let after = ''; ; ) {
    const { data, has_more: hasMore } = await list(`${query}&limit=2${after}`)
    seen.push(...data.map(({ name }) => name))
    if (!hasMore) return seen
    after = `&after=${data.at(-1)?.id}`
  }
}

describe('a list of models', () => {
  it('comes in the order that was asked for, page by page, and by a part of the name', async () => {
    const ids = new Map<string, string>()
    for (const name of ['beta', 'Alpha', 'gamma', 'delta_1', 'delta%1']) ids.set(name, await service.createModel(name))
    const made = ['beta', 'Alpha', 'gamma', 'delta_1', 'delta%1']
    expect(await walk('project=tests')).toEqual(made)
    expect(await walk('sort=-created')).toEqual([...made].reverse())
    expect(await walk('sort=name')).toEqual([...made].sort())
    await service.waitForJob(await train(ids.get('Alpha') ?? ''))
    await service.json(`${MODELS}/${ids.get('beta')}/log`, {
      json: { split: 'val', trajectory_groups: [sampleGroup()] },
    })
    expect(await walk('sort=-last_active')).toEqual(['beta', 'Alpha', 'delta%1', 'delta_1', 'gamma'])
    expect(await names('query=ALPH')).toEqual(['Alpha'])
    expect(await names('query=a%25')).toEqual(['delta%1'])
    expect(await names('query=elta&sort=-created')).toEqual(['delta%1', 'delta_1'])
    expect(await names('query=zeta')).toEqual([])
    const refused = await service.json(`${MODELS}?sort=size`)
    expect([refused.status, JSON.stringify(refused.body)]).toEqual([422, expect.stringContaining('-last_active')])
  })

  it('has no summaries unless they are asked for', async () => {
    expect((await list()).data.every((model) => !('summary' in model))).toBe(true)
    expect((await service.fetch(`${MODELS}?include=everything`)).status).toBe(422)
  })
})

describe('a summary', () => {
  it('says what checkpoints, metrics and jobs say, and follows them', async () => {
    const model = await service.createModel('summed')
    const created = (await service.json<{ created_at: string }>(`${MODELS}/${model}`)).body.created_at
    expect(await summaryOf(model)).toEqual({
      checkpoints: 0,
      size_bytes: 0,
      last_active_at: created,
      running_job: null,
      description: '',
      tags: [],
      metrics: {},
      warnings: [],
    })
    for (let i = 0; i < 2; i += 1) await service.waitForJob(await train(model))
    const log = (rewards: number[]) =>
      service.json(`${MODELS}/${model}/log`, { json: { split: 'held_out', trajectory_groups: [sampleGroup(rewards)] } })
    await log([1, 0])
    const { data } = (
      await service.json<{ data: { size_bytes: number; metrics: Record<string, number> }[] }>(
        `${MODELS}/${model}/checkpoints`,
      )
    ).body
    const first = await summaryOf(model)
    expect(first).toMatchObject({
      checkpoints: 2,
      size_bytes: data.reduce((sum, { size_bytes }) => sum + size_bytes, 0),
    })
    const trained = data.map(({ metrics }) => metrics['train/reward'] ?? Number.NaN)
    expect(first?.metrics['train/reward']).toMatchObject({ last: trained[1], last_step: 2, spark: trained })
    expect(first?.metrics['held_out/reward']).toEqual({
      last: 0.5,
      last_step: 2,
      best: 0.5,
      best_step: 2,
      spark: [0.5],
    })
    expect(Date.parse(first?.last_active_at ?? '')).toBeGreaterThan(Date.parse(created))
    // a second log of the step changes a number and adds no row
    await log([1, 1])
    expect((await summaryOf(model))?.metrics['held_out/reward']?.last).toBe(0.75)
    await service.json(`${MODELS}/${model}/checkpoints`, { method: 'DELETE', json: { steps: [1, 2] } })
    const after = await summaryOf(model)
    expect(after).toMatchObject({ checkpoints: 0, size_bytes: 0 })
    expect(after?.metrics['train/reward']?.spark).toEqual(trained)
  })

  it('names the job that runs, else the one that comes next', async () => {
    const model = await service.createModel('busy')
    const slow = { experimental_config: { stand_in: { steps: 1_000_000, delay_ms: 10 } } }
    const running = await train(model, slow)
    const waiting = await train(model, slow)
    const runs = async () =>
      (await service.json<{ status: string }>(`/v1/preview/training-jobs/${running}`)).body.status
    await until(async () => (await runs()) === 'running', 'a job that runs')
    expect((await summaryOf(model))?.running_job).toMatchObject({ id: running, kind: 'rl', status: 'running' })
    expect((await list('sort=-last_active&limit=1')).data[0]?.id).toBe(model)
    for (const id of [waiting, running]) {
      await service.fetch(`/v1/preview/training-jobs/${id}/cancel`, { method: 'POST' })
      await service.waitForJob(id)
    }
    expect((await summaryOf(model))?.running_job).toBeNull()
  })

  it('knows the best step by the way in which a metric is better, and keeps peaks in thirty points', async () => {
    const model = await service.createModel('long')
    const rows = Array.from({ length: 500 }, (_, index) => {
      const step = index + 1
      const metrics = { 'train/reward': step === 321 ? 9 : step / 500, 'loss/train': step === 123 ? -9 : 1, other: 1 }
      return { model_id: model, step, source: 'job', metrics: JSON.stringify(metrics) }
    })
    await onDatabase((db) => db.insertInto('model_metrics').values(rows).execute())
    const metrics = (await summaryOf(model))?.metrics ?? {}
    expect(Object.keys(metrics).sort()).toEqual(['loss/train', 'train/reward'])
    expect(metrics['train/reward']).toMatchObject({ last: 1, last_step: 500, best: 9, best_step: 321 })
    expect(metrics['loss/train']).toMatchObject({ last: 1, best: -9, best_step: 123 })
    const spark = metrics['train/reward']?.spark ?? []
    expect(spark.length).toBeLessThanOrEqual(30)
    expect(spark).toEqual(expect.arrayContaining([1 / 500, 9, 1]))
  })

  it('carries the sentences of the newest job', async () => {
    const model = await service.createModel('warned')
    const id = await train(model)
    await service.waitForJob(id)
    await onDatabase((db) =>
      db.updateTable('training_jobs').set({ report: '{"warnings":["too fast"]}' }).where('id', '=', id).execute(),
    )
    expect((await summaryOf(model))?.warnings).toEqual(['too fast'])
  })
})
