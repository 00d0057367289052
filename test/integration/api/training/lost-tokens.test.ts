/**
 * Answers that hold what a base model cannot write: said where it is listed, in the plan of a job, and on the job's record. Real
 * engine and worker on a copy of the built-in model in which `%` has the row of `!`.
 */
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, test } from 'vitest'
import type { JsonObject } from '#base/util/json.js'
import type { BaseModel } from '#contract/wire/models.js'
import type { TrainingPlan } from '#contract/wire/training/plan.js'
import type { TrainingJob } from '#contract/wire/training-jobs.js'
import { modelWithLostSign } from '../../../support/model/lost-sign.js'
import { createTestService, type TestService } from '../../../support/service/create-test-service.js'

let folder: string
let service: TestService
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'trainyard-lost-'))
  const sourcePath = await modelWithLostSign(folder, '%', '!')
  service = await createTestService({ scripted: false, threads: 1, baseModels: [{ name: 'lost', sourcePath }] })
})
afterAll(async () => {
  await service.dispose()
  await rm(folder, { recursive: true, force: true })
})

const address = (rows: readonly JsonObject[]): string =>
  `data:application/jsonl;base64,${Buffer.from(rows.map((row) => JSON.stringify(row)).join('\n')).toString('base64')}`
const NOTE =
  'answers hold what the base model can neither read nor write, whatever it is shown, for its weights do not tell these tokens from others: "%" (2 times, first line 1)'

async function said(route: string, body: JsonObject): Promise<readonly (readonly string[])[]> {
  const { body: model } = await service.json<{ id: string }>('/v1/preview/models', {
    json: { project: 'tests', name: route, base_model: 'lost' },
  })
  const json = { model_id: model.id, ...body }
  const plan = await service.json<TrainingPlan>(`/v1/preview/${route}?plan=true`, { json })
  expect(plan.status).toBe(200)
  const made = await service.json<TrainingJob>(`/v1/preview/${route}`, { json })
  const job = await service.waitForJob(made.body.id)
  expect(job.status).toBe('completed')
  return [plan.body.warnings, job.warnings ?? []]
}

test('the base model lists what it cannot tell apart, with what the tokens say', async () => {
  const { body } = await service.json<BaseModel>('/v1/preview/base-models/lost')
  const texts = body.lost_tokens?.map(({ text }) => text)
  expect(texts).toContain('%')
  expect(texts).toContain('!')
  expect(texts).not.toContain('?')
})

test('a plan and a job on examples say it once for all rows, and say nothing of the loss besides', async () => {
  const row = (content: string): JsonObject => ({
    messages: [
      { role: 'user', content: 'How much? 7%' },
      { role: 'assistant', content },
    ],
  })
  const rows = [row('7%'), row('8%')]
  const config = { batch_size: 1, epochs: 1 }
  for (const warnings of await said('sft-training-jobs', { training_data_url: address(rows), config })) {
    expect(warnings).toContain(NOTE)
    expect(warnings.filter((each) => /loss/.test(each))).toEqual([])
  }
})

test('of preferences the better answer counts', async () => {
  const pairs = [
    { prompt: 'a', chosen: '7%', rejected: '7' },
    { prompt: 'b', chosen: '8%', rejected: '8' },
    { prompt: 'c', chosen: '9', rejected: '9%' },
  ]
  const config = { batch_size: 1, epochs: 1 }
  for (const warnings of await said('dpo-training-jobs', { training_data_url: address(pairs), config }))
    expect(warnings).toContain(NOTE)
})
