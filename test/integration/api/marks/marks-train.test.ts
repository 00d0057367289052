/**
 * Jobs train on the files that are made of marks, as they are: supervised ones and preference ones, with the real worker.
 */
import { afterAll, beforeAll, expect, test } from 'vitest'
import type { TrainingPlan } from '#contract/wire/training/plan.js'
import type { TrainingJob } from '#contract/wire/training-jobs.js'
import { createTestService, type TestService } from '../../../support/service/create-test-service.js'

let service: TestService
beforeAll(async () => {
  service = await createTestService({ scripted: false, threads: 1 })
})
afterAll(() => service.dispose())

test('a supervised and a preference job train on the marks of a model, and their plans say on what', async () => {
  const modelId = await service.createModel('m')
  const marks = `/v1/preview/models/${modelId}/marks`
  const say = (content: string) => ({ role: 'assistant', content })
  for (const [i, thing] of ['rain', 'bread', 'music'].entries()) {
    const messages = [
      { role: 'user', content: 'Hello.' },
      say('Hello yourself.'),
      { role: 'user', content: `And ${thing}?` },
    ]
    const bad = { mark: 'bad', messages, answer: say(`Go away with ${thing}.`) }
    const json = [
      { ...bad, edited: `I like ${thing}.` },
      { ...bad, other: say(`I like ${thing}.`) },
      { ...bad, mark: 'good', answer: say(`I like ${thing}.`) },
    ][i]
    expect((await service.json(marks, { json })).status).toBe(200)
  }
  await service.json(marks, {
    json: { mark: 'bad', messages: [{ role: 'user', content: 'And you?' }], answer: say('No.') },
  })
  for (const [form, rows] of [
    ['sft', 2],
    ['dpo', 2],
  ] as const) {
    const file = await service.json<{ id: string; rows: number }>('/v1/files/from-marks', {
      json: { model_id: modelId, form },
    })
    expect([file.status, file.body.rows]).toEqual([200, rows])
    const path = `/v1/preview/${form}-training-jobs`
    const json = { model_id: modelId, training_data_url: file.body.id }
    const plan = await service.json<TrainingPlan>(`${path}?plan=true`, { json })
    expect(plan.status, JSON.stringify(plan.body)).toBe(200)
    const trained = plan.body.sequences.flatMap(({ spans }) => spans.filter((span) => span.is_trained))
    const text = trained.map((span) => span.text).join(' ')
    // what stood before the marked answer is read and not learned
    expect(text).toContain('I like rain.')
    expect(text).not.toContain('yourself')
    const { status, body } = await service.json<TrainingJob>(path, { json })
    expect(status, JSON.stringify(body)).toBe(200)
    const job = await service.waitForJob(body.id)
    expect([job.status, job.error_message ?? null, job.kind]).toEqual(['completed', null, form])
  }
})
