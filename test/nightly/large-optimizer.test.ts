/**
 * An optimizer's state of more than 4 GiB, more than one array holds on Node.js 20: a worker stores it, the next job of the model begins from it.
 */
import { freemem } from 'node:os'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { sizeOf } from '#base/util/file-content.js'
import { packageVersion } from '#base/util/package-root.js'
import { assertDigest } from '#formats/checkpoint-manifest.js'
import { decodeOptimizerState, encodeOptimizerState } from '#training/trainer/optimizer-state.js'
import { createWorkerClient, type WorkerClient } from '#training/worker/worker-client.js'
import { createTestService, type TestService } from '../support/service/create-test-service.js'
import { until } from '../support/until.js'

const GIB = 1024 ** 3
/** The file, its pieces as they come back, and the moments that are copied out of them. */
const NEEDED_BYTES = 12 * GIB

let service: TestService
let key: string
let model: string
/** As a worker does while it is busy. */
let beat: NodeJS.Timeout | undefined
let adapter: Readonly<Record<string, Uint8Array>>

beforeAll(async () => {
  service = await createTestService({ scripted: false, threads: 1, trainWorkers: 1 })
  model = await service.createModel('large')
  expect(await service.waitForJob(await submit('one'))).toMatchObject({ status: 'completed' })
  const file = async (name: string): Promise<Uint8Array> => {
    const response = await service.fetch(`/v1/preview/models/${model}/checkpoints/1/files/${name}`)
    return new Uint8Array(await response.arrayBuffer())
  }
  adapter = {
    'adapter_config.json': await file('adapter_config.json'),
    'adapter_model.safetensors': await file('adapter_model.safetensors'),
  }
  service = await service.restart({ trainWorkers: 0 })
  key = (await service.createKey({ scope: 'worker' })).key
}, 200_000)
afterAll(() => {
  clearInterval(beat)
  return service?.dispose()
})

async function submit(word: string): Promise<string> {
  const row = { messages: ['user', 'assistant'].map((role) => ({ role, content: `${role} says ${word}` })) }
  const data = `data:application/jsonl;base64,${Buffer.from(JSON.stringify(row)).toString('base64')}`
  const json = { model_id: model, training_data_url: data, config: { batch_size: 1, learning_rate: 1e-3 } }
  const { status, body } = await service.json<{ id: string }>('/v1/preview/sft-training-jobs', { json })
  expect(status, JSON.stringify(body)).toBe(200)
  return body.id
}

async function claim(jobId: string): Promise<WorkerClient> {
  const worker = {
    id: 'a-worker-elsewhere',
    name: 'far',
    versions: { trainyard: packageVersion() },
    trainer: 'onnx',
    device: 'cpu',
  }
  const claimed = await until(async () => {
    const { body } = await service.json<{ claim: { job_id: string; attempt: number; token: string } | null }>(
      '/internal/worker/claims',
      { json: { worker, wait_seconds: 20, left: null }, headers: { authorization: `Bearer ${key}` } },
    )
    return body.claim
  }, 'a claim of the job')
  expect(claimed.job_id).toBe(jobId)
  const client = createWorkerClient({ url: service.url, token: claimed.token, jobId, attempt: claimed.attempt })
  clearInterval(beat)
  // the end of an attempt is told to its own calls
  beat = setInterval(() => void client.heartbeat(0).catch(() => undefined), 1000)
  return client
}

it('is stored by one job and read by the next, to the bit', { timeout: 900_000 }, async ({ skip }) => {
  skip(freemem() < NEEDED_BYTES, `needs ${NEEDED_BYTES / GIB} GiB of free memory`)
  const parameter = new Float32Array(GIB / 8)
  for (let i = 0; i < parameter.length; i += 1) parameter[i] = i
  const names = ['a', 'b', 'c', 'd', 'e']
  const moments = new Map(names.map((name) => [name, { first: parameter, second: parameter }]))
  const optimizer = encodeOptimizerState({ stepCount: 7, moments }, 'sft')
  expect(sizeOf(optimizer)).toBeGreaterThan(4 * GIB)

  const first = await claim(await submit('two'))
  const files: Record<string, { sha256: string; size_bytes: number }> = {}
  for (const [name, bytes] of Object.entries(adapter)) files[name] = await first.putFile(name as never, bytes)
  files['optimizer.safetensors'] = await first.putFile('optimizer.safetensors', optimizer)
  await first.complete({ files, metrics: {} })

  const next = await claim(await submit('three'))
  const job = await next.getJob()
  expect(job.parent_step).toBe(2)
  const name = 'optimizer.safetensors'
  const content = assertDigest({ checkpoint: 'step 2', name, ...(await next.getParentFile(name)) })
  const state = decodeOptimizerState(content, 'sft', new Map(names.map((each) => [each, parameter])))
  expect(state.stepCount).toBe(7)
  for (const { first: m, second: v } of state.moments.values()) {
    expect(Buffer.compare(new Uint8Array(m.buffer), new Uint8Array(parameter.buffer))).toBe(0)
    expect(Buffer.compare(new Uint8Array(v.buffer), new Uint8Array(parameter.buffer))).toBe(0)
  }
  await next.fail({ code: 'left', message: 'it ends', is_cancelled: false })
})
