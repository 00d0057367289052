/**
 * The shape of an adapter, through the API and a real trainer: chosen by a model's first job, kept by the later ones, answering and exported.
 */
import { afterAll, beforeAll, expect, it } from 'vitest'
import type { TrainingJob } from '#contract/wire/training-jobs.js'
import { decodeAdapter } from '#model/weights/adapter.js'
import { createTestService, type TestService } from '../../../support/service/create-test-service.js'

const ROWS = Array.from({ length: 2 }, (_, i) =>
  JSON.stringify({
    messages: [
      { role: 'user', content: `Count to ${i + 3}.` },
      { role: 'assistant', content: '1, 2, 3' },
    ],
  }),
)
const LORA = {
  rank: 4,
  alpha: 6,
  target_modules: 'attention',
  use_rslora: true,
  rank_pattern: { v_proj: 2, 'layers.0.self_attn.q_proj': 5 },
}

let service: TestService
let data: string
beforeAll(async () => {
  service = await createTestService({ scripted: false, threads: 1 })
  const file = await service.json<{ id: string }>('/v1/files?filename=x.jsonl', {
    method: 'POST',
    body: ROWS.join('\n'),
  })
  data = file.body.id
})
afterAll(() => service.dispose())

const submit = (model: string, config: object) =>
  service.json<TrainingJob>('/v1/preview/sft-training-jobs', {
    json: { model_id: model, training_data_url: data, config: { learning_rate: 1e-3, seed: 1, ...config } },
  })

it('is chosen by the first job, and kept by later ones, also where they do not name it', async () => {
  const model = await service.createModel('m')
  const file = async (step: number, name: string): Promise<Buffer> => {
    const path = `/v1/preview/models/${model}/checkpoints/${step}/files/${name}`
    return Buffer.from(await (await service.fetch(path)).arrayBuffer())
  }
  let step = 0
  for (const lora of [LORA, undefined, LORA, { rank: 4, alpha: 6 }]) {
    const { status, body } = await submit(model, { lora, seed: step })
    expect(status, JSON.stringify(body)).toBe(200)
    if (lora === LORA) {
      const targets = ['q_proj', 'k_proj', 'v_proj', 'o_proj']
      expect(body.resolved_config).toMatchObject({ lora: { ...LORA, target_modules: targets } })
    }
    step += 1
    expect(await service.waitForJob(body.id)).toMatchObject({ status: 'completed', step })
    const names = ['adapter_config.json', 'adapter_model.safetensors']
    const files = new Map(await Promise.all(names.map(async (name) => [name, await file(step, name)] as const)))
    expect(decodeAdapter(files).config).toEqual({
      rank: 4,
      alpha: 6,
      targets: ['k_proj', 'o_proj', 'q_proj', 'v_proj'],
      usesRslora: true,
      rankPattern: LORA.rank_pattern,
    })
  }
  const others: [object, string][] = [
    [{ target_modules: 'all-linear' }, 'has k_proj, o_proj, q_proj, v_proj'],
    [{ use_rslora: false }, 'has use_rslora true'],
    [{ rank_pattern: { v_proj: 3 } }, 'has rank_pattern'],
    [{ alpha: 7 }, 'has rank 4 and alpha 6'],
  ]
  for (const [other, has] of others) {
    const { status, body } = await submit(model, { lora: { ...LORA, ...other } })
    expect([status, JSON.stringify(body)]).toEqual([422, expect.stringContaining(has)])
  }
  const answer = await service.json<{ choices: unknown[] }>('/v1/chat/completions', {
    json: { model: 'm', messages: [{ role: 'user', content: 'x' }], max_tokens: 2 },
  })
  expect([answer.status, answer.body.choices.length]).toEqual([200, 1])
})

it('ends a job that gives a rank to a module that the base model does not have', async () => {
  const model = await service.createModel('deep')
  const { body } = await submit(model, { lora: { rank_pattern: { 'layers.99.mlp.up_proj': 2 } } })
  const job = await service.waitForJob(body.id)
  expect([job.status, job.error_message]).toEqual(['failed', expect.stringContaining('"layers.99.mlp.up_proj"')])
})
