/**
 * Models that begin as something else than their base model: forks of a checkpoint, adapters from elsewhere.
 */
import { afterAll, beforeAll, expect, test } from 'vitest'
import type { JsonObject } from '#base/util/json.js'
import type { Checkpoint, CheckpointFiles } from '#contract/wire/checkpoints.js'
import type { BaseModel, Model } from '#contract/wire/models.js'
import { sparkDirectory } from '#model/built-in/spark.js'
import { type AdapterWeights, decodeAdapter, encodeAdapter } from '#model/weights/adapter.js'
import { decodeSafetensors, encodeSafetensors } from '#model/weights/safetensors.js'
import { float32Tensor } from '#numerics/tensor/host-tensor.js'
import { noisyAdapter } from '../../support/model/export-fixture.js'
import { createTestService, type TestService } from '../../support/service/create-test-service.js'

let service: TestService
let adapter: AdapterWeights
let counter = 0

beforeAll(async () => {
  service = await createTestService({
    baseModels: ['trainyard/spark', 'trainyard/tiny-random'],
    scripted: false,
    threads: 1,
  })
  adapter = await noisyAdapter(sparkDirectory(), undefined, 0.5)
})
afterAll(() => service.dispose())

async function upload(name: string, bytes: Uint8Array): Promise<string> {
  const form = new FormData()
  form.set('file', new Blob([new Uint8Array(bytes)]), name)
  const response = await service.fetch('/v1/files', { method: 'POST', body: form })
  return ((await response.json()) as { id: string }).id
}

/** Creates a model from an adapter's files, changed by `change`. */
async function importFiles(
  files: ReadonlyMap<string, Uint8Array>,
  change: { readonly base?: string; readonly config?: Record<string, unknown> } = {},
): Promise<{ status: number; body: Model & { error?: { message: string } } }> {
  const config: Record<string, unknown> = {
    ...JSON.parse(new TextDecoder().decode(files.get('adapter_config.json'))),
    ...change.config,
  }
  const from = {
    adapter_config: await upload('adapter_config.json', new TextEncoder().encode(JSON.stringify(config))),
    adapter_model: await upload(
      'adapter_model.safetensors',
      files.get('adapter_model.safetensors') ?? new Uint8Array(),
    ),
  }
  return create({ base_model: change.base ?? 'trainyard/spark', from_adapter: from })
}

function create(fields: Record<string, unknown>): ReturnType<typeof importFiles> {
  return service.json('/v1/preview/models', { json: { project: 'p', name: `m${counter++}`, ...fields } })
}

const encode = (weights: AdapterWeights): ReadonlyMap<string, Uint8Array> =>
  encodeAdapter(weights, { baseModelName: 'b' })

async function storedAdapter(model: Model, step: number): Promise<AdapterWeights> {
  const root = `/v1/preview/models/${model.id}/checkpoints/${step}/files`
  const { body } = await service.json<CheckpointFiles>(root)
  const files = new Map<string, Uint8Array>()
  for (const { name } of body.files) {
    if (name.startsWith('adapter_')) {
      files.set(name, new Uint8Array(await (await service.fetch(`${root}/${name}`)).arrayBuffer()))
    }
  }
  return decodeAdapter(files)
}

async function ask(model: string): Promise<string> {
  const { body } = await service.json<{ choices: { message: { content: string } }[] }>('/v1/chat/completions', {
    json: { model, messages: [{ role: 'user', content: 'Tell me a story.' }], temperature: 0, max_tokens: 12 },
  })
  return body.choices[0]?.message.content ?? ''
}

test('an adapter from elsewhere becomes step 1, answers as such, trains on, and is forked with its step', async () => {
  const { status, body: model } = await importFiles(encode(adapter))
  expect({ status, step: model.step }).toEqual({ status: 200, step: 1 })
  expect(await storedAdapter(model, 1)).toEqual(adapter)
  expect(await ask(`p/${model.name}`)).not.toBe(await ask('trainyard/spark'))
  expect(await ask(`p/${model.name}:step0`)).toBe(await ask('trainyard/spark'))

  const row = {
    messages: [
      { role: 'user', content: 'Hi' },
      { role: 'assistant', content: 'Ahoy' },
    ],
  }
  const data = await upload('data.jsonl', new TextEncoder().encode(`${JSON.stringify(row)}\n`))
  const { body: job } = await service.json<{ id: string }>('/v1/preview/sft-training-jobs', {
    json: { model_id: model.id, training_data_url: data },
  })
  expect(await service.waitForJob(job.id)).toMatchObject({ status: 'completed', step: 2 })

  const { body: fork } = await create({ from_checkpoint: `p/${model.name}:step1` })
  expect(fork).toMatchObject({ base_model: 'trainyard/spark', step: 1 })
  expect(await ask(`p/${fork.name}`)).toBe(await ask(`p/${model.name}:step1`))
  const { body: list } = await service.json<{ data: Checkpoint[] }>(`/v1/preview/models/${fork.id}/checkpoints`)
  expect(list.data.map(({ step }) => step)).toEqual([1])

  // the files outlive the model they came from
  await service.fetch(`/v1/preview/models/${model.id}`, { method: 'DELETE' })
  expect(await storedAdapter(fork, 1)).toEqual(adapter)
})

test('an adapter of some projections is filled up with ones that change nothing; rsLoRA becomes plain LoRA', async () => {
  const only = (values: ReadonlyMap<string, Float32Array>): Map<string, Float32Array> =>
    new Map([...values].filter(([path]) => /\.[qv]_proj$/.test(path)))
  const partial = {
    config: { ...adapter.config, targets: ['q_proj', 'v_proj'] },
    a: only(adapter.a),
    b: only(adapter.b),
  }
  const { status, body } = await importFiles(encode(partial), { config: { use_rslora: true } })
  expect(status).toBe(200)
  const stored = await storedAdapter(body, 1)
  expect(stored.config).toMatchObject({ rank: 4, alpha: 16 })
  expect(stored.a.size).toBe(adapter.a.size)
  for (const [path, values] of stored.b) {
    if (/\.[qv]_proj$/.test(path)) expect(values).toEqual(adapter.b.get(path))
    else expect(values.every((x) => x === 0)).toBe(true)
  }
})

test('what of an adapter has no effect is told with the model; what no LoRA can say is merged into a base model', async () => {
  const told = await importFiles(encode(adapter), { config: { fan_in_fan_out: true } })
  expect(told.body.warnings).toEqual([expect.stringContaining('fan_in_fan_out')])

  const tensors = new Map(
    decodeSafetensors(encode(adapter).get('adapter_model.safetensors') ?? new Uint8Array()).tensors,
  )
  for (const path of adapter.a.keys()) {
    const rows = (adapter.b.get(path)?.length ?? 0) / adapter.config.rank
    const key = `base_model.model.${path}.lora_magnitude_vector`
    tensors.set(key, float32Tensor(new Float32Array(rows).fill(0.5), [rows]))
  }
  const config = JSON.parse(new TextDecoder().decode(encode(adapter).get('adapter_config.json'))) as JsonObject
  const from_adapter = {
    adapter_config: await upload('c.json', new TextEncoder().encode(JSON.stringify({ ...config, use_dora: true }))),
    adapter_model: await upload('w.safetensors', encodeSafetensors(tensors)),
  }
  const refused = await create({ base_model: 'trainyard/spark', from_adapter })
  expect({ status: refused.status, words: JSON.stringify(refused.body) }).toEqual({
    status: 400,
    words: expect.stringContaining('trainyard base-models add <folder of the adapter> --base-model trainyard/spark'),
  })
  const add = (fields: Record<string, unknown>) =>
    service.json<BaseModel>('/v1/preview/base-models', {
      json: { base_model: 'trainyard/spark', from_adapter, ...fields },
    })
  expect((await add({})).status).toBe(400)
  expect((await add({ name: 'own/dora', base_model: 'nobody' })).status).toBe(404)
  const { status, body } = await add({ name: 'own/dora' })
  expect({ status, ready: body.status, precision: body.precision }).toEqual({
    status: 200,
    ready: 'ready',
    precision: 'float32',
  })
  expect(await ask('own/dora')).not.toBe(await ask('trainyard/spark'))
  expect((await create({ base_model: 'own/dora' })).status).toBe(200)
})

const DOWN = 'model.layers.1.mlp.down_proj'
const changed = (side: 'a' | 'b', change: (values: Map<string, Float32Array>) => void): AdapterWeights => {
  const values = new Map([...adapter[side]].map(([path, x]) => [path, x.slice()]))
  change(values)
  return { ...adapter, [side]: values }
}

test.each<[string, () => AdapterWeights, Parameters<typeof importFiles>[1], readonly string[]]>([
  [
    'another base model',
    () => adapter,
    { base: 'trainyard/tiny-random' },
    ['model.layers.0.mlp.down_proj', 'expected [64, 128]'],
  ],
  ['a rank that is not the tensors’', () => adapter, { config: { r: 8 } }, ['lora_', 'expected rank 8']],
  ['DoRA without its magnitudes', () => adapter, { config: { use_dora: true } }, ['no magnitude', 'DoRA']],
  ['another method', () => adapter, { config: { peft_type: 'IA3' } }, ['IA3']],
  [
    'a switch that is text',
    () => adapter,
    { config: { use_rslora: 'true' } },
    ['use_rslora', 'expected true or false'],
  ],
  [
    'modules that its configuration leaves out',
    () => adapter,
    { config: { target_modules: ['q_proj'] } },
    ['down_proj', 'target_modules do not name'],
  ],
  [
    'a value that is not a number',
    () => changed('b', (values) => values.get(DOWN)?.fill(Number.NaN, 3, 4)),
    {},
    [`${DOWN}.lora_B`, 'NaN', 'element 3'],
  ],
])('refused and nothing made: %s', async (_what, weights, change, words) => {
  const { status, body } = await importFiles(encode(weights()), change)
  expect(status).toBe(400)
  for (const word of words) expect(JSON.stringify(body)).toContain(word)
  const { body: list } = await service.json<{ data: Model[] }>(`/v1/preview/models?name=m${counter - 1}`)
  expect(list.data).toEqual([])
})

test.each([
  [{ from_checkpoint: 'nobody:step3' }, 404, 'names no checkpoint'],
  [{ from_checkpoint: 'trainyard/spark' }, 404, 'names no checkpoint'],
  [
    { base_model: 'trainyard/spark', from_adapter: { adapter_config: 'file-1', adapter_model: 'file-2' } },
    404,
    'file-1',
  ],
  [{}, 422, 'Field required'],
  [{ from_checkpoint: 'x', from_adapter: { adapter_config: 'a', adapter_model: 'b' } }, 422, 'not both'],
])('%j is refused with %i', async (fields, status, words) => {
  const answer = await create(fields)
  expect(answer.status).toBe(status)
  expect(JSON.stringify(answer.body)).toContain(words)
})
