/**
 * What was logged at two steps, in pairs: means, outcomes and the interval against numbers that were worked out by hand.
 */
import { afterAll, beforeAll, expect, test } from 'vitest'
import type { LogComparison } from '#contract/wire/log-comparison.js'
import { loggedGroups } from '../../support/log-answers.js'
import { createTestService, sampleGroup, type TestService } from '../../support/service/create-test-service.js'

let service: TestService
let id: string

async function log(groups: readonly object[], split = 'val'): Promise<void> {
  const { status, body } = await service.json(`/v1/preview/models/${id}/log`, {
    json: { split, trajectory_groups: groups },
  })
  expect(status, JSON.stringify(body)).toBe(200)
}
const compare = (query: string) =>
  service.json<LogComparison>(`/v1/preview/models/${id}/log/compare?split=val&a=0&b=1${query}`)

beforeAll(async () => {
  service = await createTestService()
  id = await service.createModel()
  await log(
    loggedGroups([
      { asked: 'one', answers: [['a', 1]] },
      {
        asked: 'two',
        answers: [
          ['b', 0],
          ['b2', 1],
        ],
      },
      { asked: 'three', answers: [['c', 0.5]] },
      { asked: 'before', answers: [['d', 0]], id: 'x' },
      { asked: 'only before', answers: [['e', 0]] },
    ]),
  )
  const job = await service.json<{ id: string }>('/v1/preview/training-jobs', {
    json: { model_id: id, trajectory_groups: [sampleGroup()] },
  })
  await service.waitForJob(job.body.id)
  // the second log of the same prompt at a step is pooled with the first
  await log(loggedGroups([{ asked: 'one', answers: [['z', 0]] }]))
  await log(
    loggedGroups([
      { asked: 'one', answers: [['y', 0.5]] },
      { asked: 'two', answers: [['y', 1]] },
      { asked: 'three', answers: [['y', 0.5]] },
      { asked: 'said otherwise, but the same id', answers: [['y', 1]], id: 'x' },
    ]),
  )
  await log(loggedGroups([{ asked: 'one', answers: [['w', 1]] }]), 'other')
})
afterAll(() => service?.dispose())

test('prompts are paired by their id, else by what was asked, and the worst comes first', async () => {
  const { status, body } = await compare('')
  expect(status).toBe(200)
  expect(body.a).toEqual({ step: 0, logs: 1, prompts: 5, answers: 6 })
  expect(body.b).toEqual({ step: 1, logs: 2, prompts: 4, answers: 5 })
  expect(body.pairs.map(({ rewards }) => rewards)).toEqual([
    [1, 0.25],
    [0.5, 0.5],
    [0.5, 1],
    [0, 1],
  ])
  expect(body.pairs.map(({ outcome }) => outcome)).toEqual(['worse', 'same', 'better', 'better'])
  expect([body.wins, body.ties, body.losses, body.prompts, body.unpaired]).toEqual([2, 1, 1, 4, 1])
  const [worst] = body.pairs
  expect(worst?.messages).toEqual([{ role: 'user', content: 'one' }])
  expect(worst?.answers).toEqual([
    [{ text: 'a', reward: 1 }],
    [
      { text: 'z', reward: 0 },
      { text: 'y', reward: 0.5 },
    ],
  ])
  expect(body.pairs.at(-1)?.id).toBe('x')
})

test('the interval is that of the differences -0.75, 0, 0.5, 1', async () => {
  const { body } = await compare('')
  expect(body.difference).toBeCloseTo(0.1875, 12)
  // deviation 0.746520; its half width is Student's 3.182446 (three degrees of freedom) times that over the root of 4
  expect(body.interval?.[0]).toBeCloseTo(0.1875 - 1.1878798, 5)
  expect(body.interval?.[1]).toBeCloseTo(0.1875 + 1.1878798, 5)
})

test('one outcome, by pages', async () => {
  const first = await compare('&outcome=better&limit=1')
  expect(first.body.pairs.map(({ rewards }) => rewards)).toEqual([[0.5, 1]])
  expect(first.body.has_more).toBe(true)
  const second = await compare('&outcome=better&limit=1&offset=1')
  expect(second.body.pairs.map(({ rewards }) => rewards)).toEqual([[0, 1]])
  expect(second.body.has_more).toBe(false)
})

test('steps that nothing was logged at have no pairs; a missing step of the query is named', async () => {
  const none = await service.json<LogComparison>(`/v1/preview/models/${id}/log/compare?split=val&a=0&b=7`)
  expect([none.status, none.body.prompts, none.body.interval]).toEqual([200, 0, null])
  const wrong = await service.json(`/v1/preview/models/${id}/log/compare?split=val&a=0`)
  expect(wrong.status).toBe(422)
  expect(JSON.stringify(wrong.body)).toContain('"b"')
})

test('another model is judged on the same prompts; one of somebody else is not there', async () => {
  const other = await service.createModel('other')
  const { status } = await service.json(`/v1/preview/models/${other}/log`, {
    json: {
      split: 'val',
      trajectory_groups: loggedGroups([
        { asked: 'one', answers: [['v', 1]] },
        { asked: 'three', answers: [['v', 0.75]] },
        { asked: 'nobody else was asked', answers: [['v', 1]] },
      ]),
    },
  })
  expect(status).toBe(200)
  const { body } = await service.json<LogComparison>(
    `/v1/preview/models/${id}/log/compare?split=val&a=1&b=0&b_model_id=${other}`,
  )
  // "one" was answered twice at step 1: 0 and 0.5
  expect(body).toMatchObject({
    model_id: id,
    b_model_id: other,
    prompts: 2,
    wins: 2,
    losses: 0,
    rewards: [0.375, 0.875],
    a: { step: 1 },
    b: { step: 0, prompts: 3 },
  })
  expect((await compare('')).body.b_model_id).toBe(id)
  const { key } = await service.createKey({ entity: 'others' })
  const own = await service.json<{ id: string }>('/v1/preview/models', {
    json: { project: 'tests', name: 'theirs', base_model: 'trainyard/tiny-random' },
    headers: { authorization: `Bearer ${key}` },
  })
  expect(own.status).toBe(200)
  const foreign = await service.json(`/v1/preview/models/${id}/log/compare?split=val&a=1&b=0&b_model_id=${own.body.id}`)
  expect(foreign.status).toBe(404)
})
