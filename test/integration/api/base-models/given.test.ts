/**
 * Which base models a server has: the built-in one by default, otherwise those given, built-in ones by name.
 */
import { mkdtemp, readdir, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, it } from 'vitest'
import { writeRandomModel } from '#model/built-in/tiny-random.js'
import { readSafetensors, toFloat32, writeSafetensors } from '#model/weights/safetensors.js'
import { float32Tensor } from '#numerics/tensor/host-tensor.js'
import { createService } from '#plugins/service.js'
import { expectCode } from '../../../support/expect-code.js'
import {
  createTestService,
  sampleGroup,
  type TestServiceOptions,
} from '../../../support/service/create-test-service.js'

const own = (name: string) => ({ name, sourcePath: '/no/such/folder' })

async function servedBy(baseModels: NonNullable<TestServiceOptions['baseModels']>): Promise<unknown> {
  const service = await createTestService({ baseModels })
  try {
    return (await service.json<unknown>('/v1/preview/base-models')).body
  } finally {
    await service.dispose()
  }
}

it('serves trainyard/spark when none is given', async () => {
  expect(await servedBy([])).toEqual(['trainyard/spark'])
})

it('serves only what is given, in that order; built-in ones by name', async () => {
  expect(await servedBy([own('mine')])).toEqual(['mine'])
  expect(await servedBy([own('mine'), 'trainyard/tiny-random', 'trainyard/spark'])).toEqual([
    'mine',
    'trainyard/tiny-random',
    'trainyard/spark',
  ])
})

it('refuses a name that is given twice, also a built-in one', async () => {
  const dataDir = await mkdtemp(join(tmpdir(), 'trainyard-test-'))
  const start = (baseModels: NonNullable<TestServiceOptions['baseModels']>) => () =>
    createService({ dataDir, port: 0, logLevel: 'error', baseModels })
  await expectCode(start([own('mine'), own('mine')]), 'duplicate_base_model', '"mine"')
  await expectCode(start(['trainyard/spark', own('trainyard/spark')]), 'duplicate_base_model', '"trainyard/spark"')
  await rm(dataDir, { recursive: true })
})

it.each([
  ['{"name":"mine","path":"./mine"}', '"path":"./mine"'],
  ['"some/model"', '"some/model"'],
  ['null', 'null'],
])('refuses what is no base model and says what one is: %s', async (json, named) => {
  const dataDir = await mkdtemp(join(tmpdir(), 'trainyard-test-'))
  const model: NonNullable<TestServiceOptions['baseModels']>[number] = JSON.parse(json)
  const start = () => createService({ dataDir, port: 0, logLevel: 'error', baseModels: [model] })
  await expectCode(start, 'invalid_base_model', named)
  await expectCode(start, 'invalid_base_model', '{ name, sourcePath }')
  await rm(dataDir, { recursive: true })
})

it('a model of a base model that is no longer served says so when asked', async () => {
  const service = await createTestService({ baseModels: ['trainyard/tiny-random'] })
  await service.createModel('old')
  const later = await service.restart({ baseModels: ['trainyard/spark'] })
  try {
    const { status, body } = await later.json<{ error: { message: string } }>('/v1/chat/completions', {
      json: { model: 'old', messages: [{ role: 'user', content: 'Hi.' }] },
    })
    expect(status, JSON.stringify(body)).toBe(404)
    expect(body.error.message).toContain('trainyard/tiny-random')
  } finally {
    await later.dispose()
  }
})

it.each([
  ['model.norm.weight', 3, Number.NaN],
  ['model.embed_tokens.weight', 4095, Number.POSITIVE_INFINITY],
])(
  'weights that are no numbers are refused, by chat and by a job, and nothing is prepared: %s',
  async (name, at, value) => {
    const folder = await mkdtemp(join(tmpdir(), 'trainyard-test-'))
    const sourcePath = join(folder, 'broken')
    await writeRandomModel(sourcePath, {})
    const file = join(sourcePath, 'model.safetensors')
    const { tensors } = await readSafetensors(file)
    const tensor = tensors.get(name)
    const values = toFloat32(tensor!, name).slice()
    values[at] = value
    await writeSafetensors(file, new Map(tensors).set(name, float32Tensor(values, tensor!.shape)))
    const service = await createTestService({
      scripted: false,
      threads: 1,
      baseModels: ['trainyard/tiny-random', { name: 'broken', sourcePath }],
    })
    try {
      const chat = (model: string) =>
        service.json<{ error: { message: string } }>('/v1/chat/completions', {
          json: { model, messages: [{ role: 'user', content: 'Hi.' }], max_tokens: 1 },
        })
      const said = `tensor "${name}" has ${value} at element ${at}`
      const answer = await chat('broken')
      expect(answer.status).toBe(503)
      expect(answer.body.error.message).toContain(said)
      expect((await chat('trainyard/tiny-random')).status).toBe(200)

      const model = await service.json<{ id: string }>('/v1/preview/models', {
        json: { project: 'tests', name: 'learner', base_model: 'broken' },
      })
      const job = await service.json<{ id: string }>('/v1/preview/training-jobs', {
        json: { model_id: model.body.id, trajectory_groups: [sampleGroup()] },
      })
      expect(await service.waitForJob(job.body.id)).toMatchObject({
        status: 'failed',
        error_code: 'non_finite_weights',
        error_message: expect.stringContaining(said),
      })
      const prepared = await readdir(join(service.dataDir, 'prepared'), { recursive: true })
      expect(prepared.filter((entry) => /manifest.*json$/.test(entry)).length).toBe(1)
    } finally {
      await service.dispose()
      await rm(folder, { recursive: true, force: true, maxRetries: 20 })
    }
  },
)
