/**
 * Logs that say what they measure: the newest of the same counts, another is refused at its place, and those without a word are
 * pooled as before.
 */
import { afterAll, beforeAll, expect, test } from 'vitest'
import type { LogComparison } from '#contract/wire/log-comparison.js'
import { loggedGroups } from '../../support/log-answers.js'
import { createTestService, type TestService } from '../../support/service/create-test-service.js'

let service: TestService
let id: string
beforeAll(async () => {
  service = await createTestService()
  id = await service.createModel()
})
afterAll(() => service.dispose())

const log = (reward: number, measurement?: string | null, split = 'val') =>
  service.json<{ error?: { code: string; message: string; hint: string } }>(`/v1/preview/models/${id}/log`, {
    json: {
      split,
      ...(measurement === undefined ? {} : { measurement }),
      trajectory_groups: loggedGroups([{ asked: 'one', answers: [['a', reward]] }]),
    },
  })
const rewardOf = async (split = 'val') => {
  const path = `/v1/preview/models/${id}/metrics?keys=${split}/reward`
  const { body } = await service.json<{ series: Record<string, readonly (number | null)[]> }>(path)
  return body.series[`${split}/reward`]?.[0]
}

test('the newest of the same replaces, in the metrics and where steps are compared', async () => {
  expect((await log(0.2, 'a')).status).toBe(200)
  expect((await log(0.6, 'a')).status).toBe(200)
  expect(await rewardOf()).toBe(0.6)
  const { body } = await service.json<LogComparison>(`/v1/preview/models/${id}/log/compare?split=val&a=0&b=0`)
  expect(body.a).toMatchObject({ logs: 1, answers: 1 })
})

test('another is refused with what to do, and has a split of its own', async () => {
  const { status, body } = await log(1, 'b')
  expect([status, body.error?.code]).toEqual([409, 'other_measurement'])
  expect(body.error?.hint).toContain('--split')
  expect(await rewardOf()).toBe(0.6)
  expect((await log(1, 'b', 'val-b')).status).toBe(200)
  expect(await rewardOf('val-b')).toBe(1)
})

test('logs that do not say are pooled, with those that do as well, and belong to no measurement then', async () => {
  expect((await log(0.1, null, 'old')).status).toBe(200)
  expect((await log(0.3, undefined, 'old')).status).toBe(200)
  expect(await rewardOf('old')).toBeCloseTo(0.2, 12)
  expect((await log(0, 'c', 'mixed')).status).toBe(200)
  expect((await log(1, undefined, 'mixed')).status).toBe(200)
  expect(await rewardOf('mixed')).toBe(0.5)
  expect((await log(0, 'c', 'mixed')).status).toBe(409)
})

test('a name that is too long is refused', async () => {
  expect((await log(0, 'x'.repeat(129))).status).toBe(422)
})
