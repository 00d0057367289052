/**
 * Which checkpoints of a model stay: the rule over the API, what it deletes at the next sweep, and the states of optimizers of old steps.
 */
import { afterEach, beforeEach, expect, it } from 'vitest'
import { createTestService, type TestService } from '../../../support/service/create-test-service.js'

let service: TestService
beforeEach(async () => {
  service = await createTestService({ keepOptimizers: 1 })
})
afterEach(() => service.dispose())

/** Trains on answers of its own: the same once more would be the same job. */
async function train(modelId: string): Promise<void> {
  answers += 1
  const job = {
    model_id: modelId,
    trajectory_groups: [{ trajectories: [0, 1].map((reward) => ({ reward, messages_and_choices: turnsOf(answers) })) }],
  }
  const { status, body } = await service.json<{ id: string }>('/v1/preview/training-jobs', { json: job })
  expect(status, JSON.stringify(body)).toBeLessThan(300)
  expect((await service.waitForJob(body.id)).status).toBe('completed')
}

let answers = 0
const turnsOf = (number: number) => [
  { role: 'user', content: 'q' },
  { finish_reason: 'stop', index: 0, message: { role: 'assistant', content: `a ${number}` } },
]

const path = (modelId: string): string => `/v1/preview/models/${modelId}`
const ruleOf = (modelId: string, rule?: string | null) =>
  service.json(`${path(modelId)}/keep-rule`, rule === undefined ? {} : { method: 'PUT', json: { rule } })
const stepsOf = async (modelId: string): Promise<number[]> => {
  const { body } = await service.json<{ data: { step: number }[] }>(`${path(modelId)}/checkpoints`)
  return body.data.map(({ step }) => step)
}
const filesOf = async (modelId: string, step: number): Promise<string[]> => {
  const { body } = await service.json<{ files: { name: string }[] }>(`${path(modelId)}/checkpoints/${step}/files`)
  return body.files.map(({ name }) => name)
}

it('a rule says what it deletes, and deletes it of its model alone; old steps lose their optimizer, curves stay', async () => {
  const [ruled, free] = [await service.createModel('ruled'), await service.createModel('free')]
  for (const id of [ruled, ruled, ruled, ruled, free, free]) await train(id)
  expect(await ruleOf(ruled)).toEqual({
    status: 200,
    body: { model_id: ruled, rule: null, server_rule: 'all', keep_optimizers: 1, drops: [] },
  })
  expect(await ruleOf(ruled, 'the best ones')).toMatchObject({
    status: 422,
    body: {
      error: { message: expect.stringContaining('expected all, or parts of "last 5, best val/reward, every 10"') },
    },
  })
  expect(await ruleOf(ruled, 'last 2, every 4')).toMatchObject({ status: 200, body: { drops: [1, 2] } })
  expect(await stepsOf(ruled)).toEqual([1, 2, 3, 4])
  service = await service.restart()
  expect(await stepsOf(ruled)).toEqual([3, 4])
  expect(await stepsOf(free)).toEqual([1, 2])
  expect(await filesOf(ruled, 4)).toContain('optimizer.safetensors')
  for (const [id, step] of [
    [ruled, 3],
    [free, 1],
  ] as const) {
    expect(await filesOf(id, step)).toEqual(['adapter_config.json', 'adapter_model.safetensors', 'manifest.json'])
  }
  await train(ruled)
  expect(await stepsOf(ruled)).toEqual([3, 4, 5])
  // what the server keeps of models without a rule
  service = await service.restart({ keepCheckpoints: 'last 1' })
  expect([await stepsOf(ruled), await stepsOf(free)]).toEqual([[4, 5], [2]])
  expect(await ruleOf(ruled, null)).toMatchObject({ body: { rule: null, server_rule: 'last 1', drops: [4] } })
})

it('a rule of the server that says nothing keeps it from starting', async () => {
  await expect(service.restart({ keepCheckpoints: 'last' })).rejects.toThrow(/keep-checkpoints is no rule/)
  service = await service.restart({ keepCheckpoints: 'all' })
})
