/**
 * The list of options: what it names a job takes, with the defaults that a job runs with.
 */
import { afterAll, beforeAll, expect, test } from 'vitest'
import { resolveOptions } from '#contract/jobs/resolve.js'
import type { TrainingOptions } from '#contract/wire/training/option-list.js'
import { createTestService, type TestService } from '../../../support/service/create-test-service.js'

let service: TestService
beforeAll(async () => {
  service = await createTestService()
})
afterAll(() => service?.dispose())

const list = async (query = '') => service.json<TrainingOptions>(`/v1/preview/training-options${query}`)

test('every kind is listed, and its defaults are those that a job without options runs with', async () => {
  const { status, body } = await list()
  expect(status).toBe(200)
  expect(body.data.map(({ kind }) => kind)).toEqual(['rl', 'sft', 'dpo'])
  for (const { kind, options } of body.data) {
    const resolved = resolveOptions(kind, {})
    for (const { name, default: value, word, suggested } of options) {
      expect(resolved, name).toHaveProperty(name)
      if (value !== null && value !== word) expect(resolved[name], name).toEqual(value)
      // no model was named: nothing is known of its size
      if (suggested !== null) expect(options.find((each) => each.name === name)?.suggested_by).toBe('advice')
    }
  }
})

test('what suits a base model goes with its size, and is what a job takes', async () => {
  const { body } = await list('?kind=rl&base_model=trainyard/tiny-random')
  expect(body.parameters).toBeGreaterThan(0)
  const suggested = body.data[0]?.options.filter((option) => option.suggested_by === 'size') ?? []
  expect(suggested.map(({ name }) => name)).toEqual([
    'learning_rate',
    'advantage_balance',
    'target_kl',
    'tokens_per_step',
  ])
  const config = Object.fromEntries(suggested.map((option) => [option.name, option.suggested]))
  expect(resolveOptions('rl', config)).toMatchObject(config)
})

test('an unknown kind or base model is named', async () => {
  expect((await list('?kind=grpo')).status).toBe(422)
  const missing = await list('?base_model=no/such')
  expect(missing.status).toBe(404)
  expect(JSON.stringify(missing.body)).toContain('no/such')
})
