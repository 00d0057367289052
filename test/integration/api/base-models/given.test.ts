/**
 * Which base models a server has: the built-in one by default, otherwise those given, built-in ones by name.
 */
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, it } from 'vitest'
import { createService } from '#service/create-service.js'
import { expectCode } from '../../../support/expect-code.js'
import { createTestService, type TestServiceOptions } from '../../../support/service/create-test-service.js'

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
