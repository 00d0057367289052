/**
 * What is known of a base model when it is added, told where people look: its record, the command that adds it, the plan of a job,
 * the system check. Real inspection and real plans.
 */
import { cp, mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, test } from 'vitest'
import type { SystemCheckResponse } from '#contract/wire/health.js'
import type { BaseModel } from '#contract/wire/models.js'
import type { TrainingPlan } from '#contract/wire/training/plan.js'
import { ensureTinyRandomModel } from '#model/built-in/tiny-random.js'
import { decodeSafetensors } from '#model/weights/safetensors.js'
import { createTestService, type TestService } from '../../../support/service/create-test-service.js'
import { runCli } from '../../../support/service/run-cli.js'

const SENTENCE =
  /^its files name "<\|endoftext\|>" as the end, its chat template writes "<\|im_end\|>" behind an answer/

let folder: string
let service: TestService
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'trainyard-test-'))
  const whole = await ensureTinyRandomModel(join(folder, 'whole'))
  // as base models that were given a chat template: their files name another end than it writes
  const eos = join(folder, 'eos')
  await cp(whole, eos, { recursive: true })
  const change = async (name: string, fields: object) => {
    const before = JSON.parse(await readFile(join(eos, name), 'utf8'))
    const end = before.eos_token_id?.[1] ?? before.eos_token_id
    await writeFile(
      join(eos, name),
      JSON.stringify({ ...before, ...fields, ...(end === undefined ? {} : { eos_token_id: end }) }),
    )
  }
  await change('tokenizer_config.json', { eos_token: '<|endoftext|>' })
  await change('generation_config.json', {})
  const config = JSON.parse(await readFile(join(eos, 'config.json'), 'utf8'))
  const generation = JSON.parse(await readFile(join(eos, 'generation_config.json'), 'utf8'))
  await writeFile(join(eos, 'config.json'), JSON.stringify({ ...config, eos_token_id: generation.eos_token_id }))
  service = await createTestService({
    scripted: false,
    threads: 1,
    baseModels: ['trainyard/tiny-random', { name: 'eos', sourcePath: eos }],
  })
})
afterAll(async () => {
  await service.dispose()
  await rm(folder, { recursive: true, force: true, maxRetries: 20 })
})

const recordOf = async (name: string): Promise<BaseModel> =>
  (await service.json<BaseModel>(`/v1/preview/base-models/${name}`)).body

test('stands in its record, and a model that is whole has none', async () => {
  expect((await recordOf('eos')).warnings).toEqual([expect.stringMatching(SENTENCE)])
  expect((await recordOf('trainyard/tiny-random')).warnings).toEqual([])
})

test('is said by the command that adds one and the one that lists them, also of what an earlier version stored', async () => {
  const cli = (...args: string[]) =>
    runCli(args, { fetch, env: { TRAINYARD_URL: service.url, TRAINYARD_API_KEY: service.apiKey } })
  await cp(join(folder, 'eos'), join(service.dataDir, 'base-models', 'incoming-1'), { recursive: true })
  const json = { name: 'added', path: 'incoming-1' }
  const { body } = await service.json<BaseModel>('/v1/preview/base-models', { json })
  expect(body.warnings).toEqual([expect.stringMatching(SENTENCE)])
  const listed = await cli('base-models', 'list')
  expect([listed.exitCode, listed.stderr.replace(/\s+/g, ' ')]).toEqual([
    0,
    expect.stringContaining('warning: added: its files name "<|endoftext|>" as the end'),
  ])
  const shelf = join(service.dataDir, 'base-models')
  const [name = ''] = (await readdir(shelf)).filter((each) => each.endsWith('.json'))
  const stored = JSON.parse(await readFile(join(shelf, name), 'utf8'))
  const { warnings: _, ...facts } = stored.facts
  await writeFile(join(shelf, name), JSON.stringify({ ...stored, facts }))
  service = await service.restart()
  expect((await recordOf('added')).warnings).toEqual([expect.stringMatching(SENTENCE)])
})

test('of two templates or two sets of weights the one counts that transformers takes, and the record says so', async () => {
  const add = async (name: string, change: (path: string) => Promise<void>) => {
    const incoming = `incoming-${name}`
    const path = join(service.dataDir, 'base-models', incoming)
    await cp(join(folder, 'whole'), path, { recursive: true })
    await change(path)
    return (await service.json<BaseModel>('/v1/preview/base-models', { json: { name, path: incoming } })).body
  }
  const configure = async (path: string, chat_template: unknown) => {
    const file = join(path, 'tokenizer_config.json')
    await writeFile(file, JSON.stringify({ ...JSON.parse(await readFile(file, 'utf8')), chat_template }))
  }
  const template = (word: string) => `{% for m in messages %}${word}{{ m.content }}<|im_end|>{% endfor %}`
  const tokenize = (model: string) =>
    service.json<{ tokens: number[] }>('/tokenize', { json: { model, messages: [{ role: 'user', content: 'Hi' }] } })

  const two = await add('two', async (path) => {
    await configure(path, template('OLD'))
    await writeFile(join(path, 'chat_template.jinja'), template('NEW'))
  })
  expect(two.warnings).toContainEqual(expect.stringContaining('another template in tokenizer_config.json is not'))
  const { tokens } = (await tokenize('two')).body
  const { body: text } = await service.json<{ prompt: string }>('/detokenize', { json: { model: 'two', tokens } })
  expect(text.prompt).toContain('NEWHi')

  const named = await add('named', (path) => configure(path, [{ name: 'tool_use', template: template('TOOLS') }]))
  expect(named.warnings).toContainEqual(expect.stringContaining('are named tool_use and none of them default'))
  expect(await tokenize('named')).toMatchObject({
    status: 400,
    body: { error: { message: expect.stringContaining('templates named tool_use and none named default') } },
  })

  const sets = await add('sets', async (path) => {
    const shard = 'model-00001-of-00001.safetensors'
    await cp(join(path, 'model.safetensors'), join(path, shard))
    const { tensors } = decodeSafetensors(await readFile(join(path, shard)), shard)
    const weight_map = Object.fromEntries([...tensors.keys()].map((key) => [key, shard]))
    await writeFile(join(path, 'model.safetensors.index.json'), JSON.stringify({ weight_map }))
  })
  expect(sets.warnings).toContainEqual(expect.stringContaining('two sets of weights: model.safetensors is read'))
})

test('is said by the plan of a job, with the name of the base model', async () => {
  const model = { project: 'p', name: 'm', base_model: 'eos' }
  const { body: made } = await service.json<{ id: string }>('/v1/preview/models', { json: model })
  const row = {
    messages: [
      { role: 'user', content: 'a' },
      { role: 'assistant', content: 'b' },
    ],
  }
  const url = `data:,${encodeURIComponent(JSON.stringify(row))}`
  const { body } = await service.json<TrainingPlan>('/v1/preview/sft-training-jobs?plan=true', {
    json: { model_id: made.id, training_data_url: url },
  })
  expect(body.warnings).toContainEqual(expect.stringMatching(/^base model eos: its files name "<\|endoftext\|>"/))
})

test('is a warning of the system check, which still succeeds; so is one that cannot be used', async () => {
  const broken = await createTestService({
    baseModels: ['trainyard/tiny-random', { name: 'gone', sourcePath: '/no/such/folder' }],
  })
  try {
    const { body } = await broken.json<SystemCheckResponse>('/v1/system-check')
    const check = body.checks?.find(({ name }) => name === 'base_models')
    expect(check).toMatchObject({ success: true, warnings: [expect.stringMatching(/^gone cannot be used: /)] })
    const env = { TRAINYARD_URL: broken.url, TRAINYARD_API_KEY: broken.apiKey }
    const { stdout } = await runCli(['system-check', '--server-only'], { fetch, env })
    expect(stdout).toMatch(/WARN\tserver\tbase_models\tthe files of 2 base models were looked at.*gone cannot be used/)
  } finally {
    await broken.dispose()
  }
})
