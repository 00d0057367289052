/**
 * Damaged checkpoints are neither served nor trained on: `checkpoint_corrupt` with model and step, a 500 in the log, never
 * rubbish under a good digest. Real engine host and real worker, on files that the test damages on the disk.
 */
import { createHash } from 'node:crypto'
import { readFile, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import { createLogger } from '#base/logging/logger.js'
import type { CheckpointFiles } from '#contract/wire/checkpoints.js'
import type { ErrorBody } from '#contract/wire/errors.js'
import type { TrainingJob } from '#contract/wire/training-jobs.js'
import { openSqlite } from '#service/storage/sqlite.js'
import { createTestService, type TestService } from '../../support/service/create-test-service.js'

const CHAT = '/v1/chat/completions'
const lines: unknown[] = []
const logger = createLogger({ destination: { write: (line) => void lines.push(JSON.parse(line)) } })
let service: TestService
let model: string
let files: Map<string, string>

const chat = (json: object = {}) =>
  service.json<{ error: Record<string, unknown> }>(CHAT, {
    json: { model: 'm:step1', messages: [{ role: 'user', content: 'Count.' }], max_tokens: 4, ...json },
  })

/** The same request twice would be the same job. */
let jobs = 0
function nextRate(): number {
  jobs += 1
  return 1e-3 * jobs
}

const DATA = '{"messages":[{"role":"user","content":"q"},{"role":"assistant","content":"a"}]}\n'.repeat(4)

async function post<T>(path: string): Promise<{ status: number; body: T }> {
  const { body: file } = await service.json<{ id: string }>('/v1/files?filename=x.jsonl', {
    method: 'POST',
    body: DATA,
  })
  return service.json<T>(path, {
    json: { model_id: model, training_data_url: file.id, config: { learning_rate: nextRate() } },
  })
}

async function train(): Promise<TrainingJob> {
  const { body: job } = await post<TrainingJob>('/v1/preview/sft-training-jobs')
  return service.waitForJob(job.id, 110_000)
}

const plan = () => post<ErrorBody>('/v1/preview/sft-training-jobs?plan=true')

const blobPath = (name: string): string => {
  const digest = files.get(name) ?? ''
  return join(service.dataDir, 'blobs/sha256', digest.slice(0, 2), digest.slice(2))
}

beforeAll(async () => {
  service = await createTestService({ scripted: false, threads: 1, logger })
  model = await service.createModel('m')
  expect(await train()).toMatchObject({ status: 'completed', step: 1 })
  const { body } = await service.json<CheckpointFiles>(`/v1/preview/models/${model}/checkpoints/1/files`)
  files = new Map(body.files.map((file) => [file.name, file.sha256 ?? '']))
})
afterAll(() => service.dispose())
beforeEach(() => lines.splice(0))

it('a checkpoint has a manifest of its files', async () => {
  const manifest = JSON.parse(await readFile(blobPath('manifest.json'), 'utf8')) as {
    files: Record<string, { sha256: string; size_bytes: number }>
  }
  expect(Object.keys(manifest.files)).toEqual([
    'adapter_config.json',
    'adapter_model.safetensors',
    'optimizer.safetensors',
  ])
  for (const [name, file] of Object.entries(manifest.files)) {
    expect(file).toEqual({ sha256: files.get(name), size_bytes: (await readFile(blobPath(name))).length })
  }
})

const overwritten = (bytes: Buffer): Buffer => {
  const from = Math.max(1000, bytes.length - 40_000)
  return Buffer.concat([bytes.subarray(0, from), Buffer.alloc(bytes.length - from, 0x3c)])
}
const DAMAGES: readonly (readonly [string, string, (bytes: Buffer) => Buffer | null])[] = [
  ['the end of the adapter is overwritten', 'adapter_model.safetensors', overwritten],
  ['the adapter is truncated', 'adapter_model.safetensors', (bytes) => bytes.subarray(0, bytes.length >> 1)],
  ['the adapter is missing', 'adapter_model.safetensors', () => null],
  ['the configuration is empty', 'adapter_config.json', () => Buffer.alloc(0)],
  ['the manifest is missing', 'manifest.json', () => null],
  ['the manifest is torn', 'manifest.json', (bytes) => bytes.subarray(0, 20)],
]

describe.each(DAMAGES)('%s', (_, name, damage) => {
  let whole: Buffer
  beforeAll(async () => {
    whole = await readFile(blobPath(name))
    const damaged = damage(whole)
    if (damaged === null) await rm(blobPath(name))
    else await writeFile(blobPath(name), damaged)
  })
  afterAll(() => writeFile(blobPath(name), whole))

  const named = expect.stringMatching(/the checkpoint at step 1 of model "m" is damaged: /)

  it('is not served', async () => {
    const { status, body } = await chat()
    expect([status, body.error]).toEqual([500, expect.objectContaining({ reason: 'checkpoint_corrupt' })])
    expect(body.error['message']).toEqual(named)
    expect(JSON.stringify(body)).not.toContain(service.dataDir)
    expect(lines).toContainEqual(expect.objectContaining({ level: 50, code: 'checkpoint_corrupt' }))
    // the base model of the same engine answers
    expect((await chat({ model: 'm:step0' })).status).toBe(200)
  })

  it('is not streamed', async () => {
    const json = { model: 'm', messages: [{ role: 'user', content: 'Count.' }], stream: true }
    const response = await service.fetch(CHAT, { json })
    expect(response.status).toBe(500)
    expect(response.headers.get('x-should-retry')).toBe('false')
    expect(await response.text()).toContain('is damaged')
  })

  it('is not trained on', async () => {
    const job = await train()
    expect(job).toMatchObject({ status: 'failed', error_code: 'checkpoint_corrupt', error_message: named })
  })

  it('is not planned on, nor exported: both say what the job says', async () => {
    const exported = await service.json<ErrorBody>(`/v1/preview/models/${model}/checkpoints/1/files?format=merged`)
    for (const { status, body } of [await plan(), exported]) {
      expect([status, body.error]).toEqual([
        500,
        expect.objectContaining({
          code: 'checkpoint_corrupt',
          message: named,
          hint: expect.stringContaining('backup'),
        }),
      ])
      expect(JSON.stringify(body)).not.toContain(service.dataDir)
    }
  })
})

it("a plan says of a job's data that is gone what the job says", async () => {
  const digest = createHash('sha256').update(DATA).digest('hex')
  const path = join(service.dataDir, 'blobs/sha256', digest.slice(0, 2), digest.slice(2))
  const { body: file } = await service.json<{ id: string }>('/v1/files?filename=x.jsonl', {
    method: 'POST',
    body: DATA,
  })
  await rm(path)
  const json = { model_id: model, training_data_url: file.id, config: { learning_rate: nextRate() } }
  const planned = await service.json<ErrorBody>('/v1/preview/sft-training-jobs?plan=true', { json })
  const job = await service.json<ErrorBody & TrainingJob>('/v1/preview/sft-training-jobs', { json })
  expect([planned.status, planned.body.error]).toEqual([500, expect.objectContaining({ code: 'blob_missing' })])
  const jobCode =
    job.status === 200
      ? (await service.waitForJob(job.body.id)).error_code
      : Reflect.get(job.body.error as object, 'code')
  expect(jobCode).toBe('blob_missing')
  await writeFile(path, DATA)
})

describe('an optimizer state', () => {
  it('that is damaged stops training and not serving', async () => {
    const path = blobPath('optimizer.safetensors')
    const whole = await readFile(path)
    await writeFile(path, overwritten(whole))
    expect(await train()).toMatchObject({ status: 'failed', error_code: 'checkpoint_corrupt' })
    await writeFile(path, whole)
  })
})

it('a checkpoint from before manifests is served and trained on: the database has its digests', async () => {
  const database = openSqlite(join(service.dataDir, 'trainyard.sqlite3'))
  database.prepare("DELETE FROM checkpoint_files WHERE name = 'manifest.json'").run()
  database.close()
  expect((await chat()).status).toBe(200)
  expect(await train()).toMatchObject({ status: 'completed', step: 2 })
  // and is refused when it is damaged, in an engine that has not loaded it yet
  await writeFile(
    blobPath('adapter_model.safetensors'),
    overwritten(await readFile(blobPath('adapter_model.safetensors'))),
  )
  service = await service.restart()
  expect((await chat()).body.error['message']).toContain('step 1 of model "m"')
  expect((await chat({ model: 'm:step2' })).status).toBe(200)
})

it('the same bytes stored again make a damaged blob whole', async () => {
  const body = '{"messages":[{"role":"user","content":"twice"},{"role":"assistant","content":"a"}]}\n'
  const upload = () => service.json<{ id: string }>('/v1/files?filename=x.jsonl', { method: 'POST', body })
  await upload()
  const digest = createHash('sha256').update(body).digest('hex')
  const path = join(service.dataDir, 'blobs/sha256', digest.slice(0, 2), digest.slice(2))
  expect(await readFile(path, 'utf8')).toBe(body)
  await writeFile(path, 'torn')
  await upload()
  expect(await readFile(path, 'utf8')).toBe(body)
})
