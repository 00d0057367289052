/**
 * What a worker of another machine uploads is an adapter, or its job fails with what is wrong and the step before stays the latest: it is
 * looked at by a process of its own before it is a checkpoint. The worker here is a program of the test that speaks the protocol.
 */
import { createHash } from 'node:crypto'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { packageVersion } from '#base/util/package-root.js'
import type { TrainingJob } from '#contract/wire/training-jobs.js'
import { createTestService, type TestService } from '../../support/service/create-test-service.js'
import { until } from '../../support/until.js'

interface Claim {
  readonly job_id: string
  readonly attempt: number
  readonly token: string
}

let service: TestService
let key: string
let model: string
/** Files of a step that a worker of this machine made. */
let config: Record<string, unknown>
let weights: Buffer

beforeAll(async () => {
  service = await createTestService({ scripted: false, threads: 1, trainWorkers: 1 })
  model = await service.createModel('m')
  expect(await service.waitForJob(await submit())).toMatchObject({ status: 'completed' })
  const file = async (name: string): Promise<Buffer> =>
    Buffer.from(await (await service.fetch(`/v1/preview/models/${model}/checkpoints/1/files/${name}`)).arrayBuffer())
  config = JSON.parse((await file('adapter_config.json')).toString())
  weights = await file('adapter_model.safetensors')
  service = await service.restart({ trainWorkers: 0 })
  key = (await service.createKey({ scope: 'worker' })).key
}, 200_000)
afterAll(() => service?.dispose())

let count = 0
/** Rows of their own each: the same create again soon is the same job. */
async function submit(): Promise<string> {
  count += 1
  const row = { messages: ['user', 'assistant'].map((role) => ({ role, content: `${role} says ${count}` })) }
  const data = `data:application/jsonl;base64,${Buffer.from(JSON.stringify(row)).toString('base64')}`
  const json = { model_id: model, training_data_url: data, config: { batch_size: 1, learning_rate: 1e-3 } }
  const { status, body } = await service.json<{ id: string }>('/v1/preview/sft-training-jobs', { json })
  expect(status, JSON.stringify(body)).toBe(200)
  return body.id
}

/** Claims the job and says that these files are what it made. */
async function complete(
  files: Readonly<Record<string, Uint8Array>>,
): Promise<{ status: number; message: string; id: string }> {
  const id = await submit()
  const worker = { id: 'a-worker-of-mallory', name: 'far', versions: { trainyard: packageVersion() } }
  const claimed = await until(async () => {
    const { body } = await service.json<{ claim: Claim | null }>('/internal/worker/claims', {
      json: { worker: { ...worker, trainer: 'onnx', device: 'cpu' }, wait_seconds: 20, left: null },
      headers: { authorization: `Bearer ${key}` },
    })
    return body.claim
  }, 'a claim of the job')
  const { job_id: jobId, attempt, token } = claimed
  expect(jobId).toBe(id)
  const headers = { authorization: `Bearer ${token}`, 'x-trainyard-attempt': String(attempt) }
  const listed: Record<string, object> = {}
  for (const [name, body] of Object.entries(files)) {
    const sha256 = createHash('sha256').update(body).digest('hex')
    const path = `/internal/worker/jobs/${jobId}/files/${name}`
    const put = await service.fetch(path, { method: 'PUT', body, headers: { ...headers, 'x-content-sha256': sha256 } })
    expect(put.status, await put.text()).toBe(200)
    listed[name] = { sha256, size_bytes: body.length }
  }
  const json = { files: listed, metrics: {} }
  const { status, body } = await service.json<{ error?: { message: string } }>(
    `/internal/worker/jobs/${jobId}/complete`,
    {
      json,
      headers,
    },
  )
  return { status, message: body.error?.message ?? '', id }
}

type Header = Record<string, { dtype: string; shape: number[]; data_offsets: [number, number] }>

const headerOf = (bytes: Buffer): Header =>
  JSON.parse(bytes.subarray(8, 8 + Number(bytes.readBigUInt64LE(0))).toString())
const dataOf = (bytes: Buffer): Buffer => Buffer.from(bytes.subarray(8 + Number(bytes.readBigUInt64LE(0))))

function safetensors(header: object | string, data: Uint8Array): Buffer {
  const json = Buffer.from(typeof header === 'string' ? header : JSON.stringify(header))
  const length = Buffer.alloc(8)
  length.writeBigUInt64LE(BigInt(json.length))
  return Buffer.concat([length, json, data])
}

/** The weights with what a change makes of header and data. */
function changed(change: (header: Header, data: Buffer) => Buffer | undefined): Buffer {
  const [header, data] = [headerOf(weights), dataOf(weights)]
  return safetensors(header, change(header, data) ?? data)
}

const first = (header: Header): string =>
  Object.keys(header)
    .filter((name) => name !== '__metadata__')
    .sort()[0] ?? ''
const good = (): Record<string, Uint8Array> => files(config, weights)
const files = (json: object | string, tensors: Uint8Array): Record<string, Uint8Array> => ({
  'adapter_config.json': Buffer.from(typeof json === 'string' ? json : JSON.stringify(json)),
  'adapter_model.safetensors': tensors,
})

it.each<[string, () => Record<string, Uint8Array>, string]>([
  [
    'NaN',
    () =>
      files(
        config,
        changed((_, data) => void data.writeFloatLE(Number.NaN, 0)),
      ),
    'NaN',
  ],
  [
    'infinity',
    () =>
      files(
        config,
        changed((_, data) => void data.writeFloatLE(Number.POSITIVE_INFINITY, 0)),
      ),
    'Infinity',
  ],
  ['a rank of 100,000', () => files({ ...config, r: 100_000 }, weights), 'has r 100000'],
  ['another rank than the job’s', () => files({ ...config, r: 4 }, weights), 'has r 4, expected 8'],
  [
    'a tensor of another shape',
    () =>
      files(
        config,
        changed((header) => {
          const tensor = header[first(header)]
          if (tensor !== undefined) tensor.shape = tensor.shape.toReversed()
          return undefined
        }),
      ),
    'expected',
  ],
  [
    'a tensor too few',
    () =>
      files(
        config,
        changed((header, data) => {
          const last = Object.entries(header).reduce((a, b) =>
            b[0] !== '__metadata__' && b[1].data_offsets[1] === data.length ? b : a,
          )
          delete header[last[0]]
          return data.subarray(0, last[1].data_offsets[0])
        }),
      ),
    'but no lora_',
  ],
  [
    'a module too few',
    () => files({ ...config, target_modules: ['q_proj'] }, weights),
    'bytes, expected at most|do(es)? not name',
  ],
  [
    'a module that there is not',
    () => files({ ...config, target_modules: ['w_proj'] }, weights),
    'target_modules with "w_proj"',
  ],
  [
    'a tensor of another name',
    () =>
      files(
        config,
        changed((header, data) => {
          header['base_model.model.evil.weight'] = {
            dtype: 'F32',
            shape: [1],
            data_offsets: [data.length, data.length + 4],
          }
          return Buffer.concat([data, Buffer.alloc(4)])
        }),
      ),
    'unknown tensor',
  ],
  ['a file that was cut', () => files(config, weights.subarray(0, weights.length - 100)), 'has \\d+ bytes'],
  [
    'a header that lies of its length',
    () => {
      const lying = Buffer.from(weights)
      lying.writeBigUInt64LE(2n ** 40n)
      return files(config, lying)
    },
    'claims a header of',
  ],
  [
    'integers',
    () =>
      files(
        config,
        changed((header) => {
          for (const [name, tensor] of Object.entries(header)) if (name !== '__metadata__') tensor.dtype = 'I32'
          return undefined
        }),
      ),
    'as int32, expected float32',
  ],
  ['nothing', () => files('', Buffer.alloc(0)), 'not valid JSON'],
  ['no weights', () => files(config, Buffer.alloc(0)), 'expected at least 8'],
  ['20 MB of brackets for a configuration', () => files('['.repeat(20_000_000), weights), 'expected at most 1000000'],
  ['a megabyte of brackets for a configuration', () => files('['.repeat(1_000_000), weights), 'nests deeper'],
  [
    '20 MB of brackets for a header',
    () => files(config, safetensors('['.repeat(20_000_000), Buffer.alloc(0))),
    'bytes, expected at most',
  ],
])('%s is no adapter', async (_, made, words) => {
  const { status, message, id } = await complete(made())
  expect([status, message]).toEqual([400, expect.stringMatching(words)])
  expect(await service.waitForJob(id)).toMatchObject({
    status: 'failed',
    error_code: 'adapter_refused',
    error_message: expect.stringMatching(words),
  })
  const { body } = await service.json<{ data: { step: number }[] }>(`/v1/preview/models/${model}/checkpoints`)
  expect(body.data.map(({ step }) => step)).not.toContain(2)
})

it('what this service would have made is one, and is served', async () => {
  const { status, message, id } = await complete(good())
  expect([status, message]).toEqual([200, ''])
  expect(await service.waitForJob(id)).toMatchObject({ status: 'completed' } satisfies Partial<TrainingJob>)
  const json = { model: 'm', messages: [{ role: 'user', content: 'Hi' }], max_tokens: 2 }
  expect((await service.json('/v1/chat/completions', { json })).status).toBe(200)
})
