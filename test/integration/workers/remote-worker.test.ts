/**
 * A worker as on another machine: a process with folders of its own, which knows the server's address and a key and nothing else.
 */
import { mkdtemp, readdir, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import type { WorkerClaimRequest } from '#contract/processes/worker-claim.js'
import type { TrainingJob } from '#contract/wire/training-jobs.js'
import {
  createTestService,
  type TestService,
  type TestServiceOptions,
} from '../../support/service/create-test-service.js'
import { startWorkerProcess, type WorkerProcess } from '../../support/service/worker-process.js'
import { until } from '../../support/until.js'

const CLAIMS = '/internal/worker/claims'
const JOBS = '/v1/preview/training-jobs'
let directory: string
let service: TestService
let workers: WorkerProcess[] = []

beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), 'trainyard-remote-'))
})
afterEach(async () => {
  for (const { child } of workers) child.kill('SIGKILL')
  await Promise.all(workers.map(({ ended }) => ended))
  workers = []
  await service.dispose()
  await rm(directory, { recursive: true, force: true, maxRetries: 20 })
})

async function start(options: TestServiceOptions = {}): Promise<void> {
  service = await createTestService({ scripted: false, trainWorkers: 0, threads: 1, ...options })
}

async function keyOf(scope: string, more: object = {}): Promise<string> {
  const { body } = await service.json<{ key: string }>('/v1/preview/keys', { json: { scope, ...more } })
  return body.key
}

function startWorker(key: string, flags: readonly string[] = [], name = 'far'): WorkerProcess {
  const worker = startWorkerProcess({ url: service.url, key, directory: join(directory, name), flags })
  workers.push(worker)
  return worker
}

/** Each row is a gradient step. */
async function submit(modelId: string, rows: number, seed = 7): Promise<string> {
  const lines = Array.from({ length: rows }, (_, i) =>
    JSON.stringify({
      messages: [
        { role: 'user', content: `What is ${1000 + i}?` },
        { role: 'assistant', content: `It is ${1000 + i}.` },
      ],
    }),
  )
  const data = `data:application/jsonl;base64,${Buffer.from(lines.join('\n')).toString('base64')}`
  const config = { batch_size: 1, learning_rate: 1e-3, seed }
  const json = { model_id: modelId, training_data_url: data, config }
  const { status, body } = await service.json<{ id: string }>('/v1/preview/sft-training-jobs', { json })
  expect(status, JSON.stringify(body)).toBe(200)
  return body.id
}

const jobOf = async (id: string): Promise<TrainingJob> => (await service.json<TrainingJob>(`${JOBS}/${id}`)).body
async function filesOf(modelId: string): Promise<unknown> {
  const path = `/v1/preview/models/${modelId}/checkpoints/1/files`
  const { body } = await service.json<{ files: { name: string; sha256: string }[] }>(path)
  return body.files.map(({ name, sha256 }) => [name, sha256])
}

type ClaimPart = Partial<Omit<WorkerClaimRequest, 'worker'>> & {
  readonly worker?: Partial<WorkerClaimRequest['worker']>
}
const claimRequest = ({ worker, ...rest }: ClaimPart = {}, version = '0.1.0') => ({
  json: {
    worker: {
      ...{ id: 'test-worker-1', name: 'test', trainer: 'onnx', device: 'cpu', versions: { trainyard: version } },
      ...worker,
    },
    ...rest,
  },
})
const asKey = (key: string) => ({ headers: { authorization: `Bearer ${key}` } })

describe('a worker on another machine', { timeout: 200_000 }, () => {
  it('trains to the same bytes as the server itself, is named on the job, and is drained by SIGTERM', async () => {
    await start()
    const worker = startWorker(await keyOf('worker'), ['--name', 'box'])
    await worker.heard('ready')
    expect((await service.json<{ checks: { message: string }[] }>('/v1/system-check')).body.checks).toContainEqual(
      expect.objectContaining({ message: '0 of 0 workers busy, of other machines 0 of 1: box' }),
    )
    const far = await service.createModel('far')
    const job = await service.waitForJob(await submit(far, 5))
    expect(job).toMatchObject({ status: 'completed', attempt: 1, step: 1 })
    const versions = { trainyard: expect.any(String), node: process.versions.node, onnxruntime: expect.any(String) }
    expect(job.worker).toEqual({ name: 'box', trainer: 'onnx', device: 'cpu', versions })
    const idle = 'trainyard_training_workers{place="remote",state="idle"} 1'
    await until(async () => (await (await service.fetch('/metrics')).text()).includes(idle), 'a worker that waits')
    // what was fetched lies there whole, and nothing besides
    expect(await readdir(join(directory, 'far', 'cache', 'base-models'))).toHaveLength(1)
    worker.child.kill('SIGTERM')
    expect(await worker.ended).toEqual({ code: 0, signal: null })
    expect(worker.events.map(({ type }) => type)).toEqual(['ready', 'job_started', 'job_left'])

    service = await service.restart({ trainWorkers: 1 })
    const near = await service.createModel('near')
    const other = await service.waitForJob(await submit(near, 5))
    expect(other.worker).toMatchObject({ trainer: 'onnx', versions: job.worker!.versions })
    expect(await filesOf(near)).toEqual(await filesOf(far))
  })

  it('that is told to stop hands its job back, which goes on where it was and counts no loss', async () => {
    await start({ resumeIntervalMs: 0 })
    const key = await keyOf('worker')
    const first = startWorker(key, ['--drain', '1ms'])
    const model = await service.createModel()
    const id = await submit(model, 150)
    await until(async () => (await jobOf(id)).num_gradient_steps > 5, 'some steps')
    first.child.kill('SIGTERM')
    expect(await first.ended).toEqual({ code: 0, signal: null })
    // at once, not when its lease is over
    expect(await jobOf(id)).toMatchObject({ status: 'queued', attempt: 1 })
    startWorker(key, [], 'second')
    const job = await service.waitForJob(id)
    expect(job).toMatchObject({ status: 'completed', attempt: 2 })
    const types = (await service.allEvents(id)).map(({ type }) => type)
    expect(types).toEqual(['training_started', ...Array(150).fill('gradient_step'), 'training_ended'])
  })

  it('goes on with its job while the server is started again, and with the next one after', async () => {
    await start({ tuning: { jobs: { leaseMs: 20_000 } } })
    const worker = startWorker(await keyOf('worker'))
    const model = await service.createModel()
    const id = await submit(model, 300)
    await until(async () => (await jobOf(id)).num_gradient_steps > 3, 'some steps')
    const { attempt } = await jobOf(id)
    const { port } = new URL(service.url)
    service = await service.restart({ port: Number(port) })
    const job = await service.waitForJob(id)
    expect(job, worker.stderr()).toMatchObject({ status: 'completed', attempt })
    expect(await service.waitForJob(await submit(model, 3))).toMatchObject({ status: 'completed', attempt: 1 })
    expect(worker.child.exitCode).toBeNull()
  })

  it('that is started before its server waits for it', async () => {
    await start()
    const key = await keyOf('worker')
    const { port } = new URL(service.url)
    const { dataDir, apiKey } = service
    await service.close(2000)
    const worker = startWorker(key)
    await worker.heard('server_away')
    service = await createTestService({ scripted: false, trainWorkers: 0, port: Number(port), dataDir, apiKey })
    await worker.heard('ready')
    expect(worker.events.map(({ type }) => type)).toEqual(['server_away', 'server_back', 'ready'])
  })

  it('ends when it had no job for as long as it was told', async () => {
    await start()
    const worker = startWorker(await keyOf('worker'), ['--idle-exit', '10ms', '--timeout', '2s'])
    expect(await worker.ended).toEqual({ code: 0, signal: null })
  })

  it('ends at once where the key is wrong, or may not, and where nothing answers after its --retry', async () => {
    await start()
    const wrong = startWorker('ty_wrong')
    expect(await wrong.ended).toMatchObject({ code: 4 })
    const reader = startWorker(await keyOf('write'), [], 'reader')
    expect(await reader.ended).toMatchObject({ code: 4 })
    expect(reader.stderr()).toContain('needs \\"worker\\"')
    const alone = startWorkerProcess({ url: 'http://127.0.0.1:1', key: 'ty_x', directory, flags: ['--retry', '1ms'] })
    expect(await alone.ended).toMatchObject({ code: 6 })
  })
})

describe('claims', { timeout: 100_000 }, () => {
  it('are open to keys of scope worker and admin, and a key of scope worker opens nothing else', async () => {
    await start({ scripted: true })
    for (const scope of ['read', 'write']) {
      const refused = await service.json(CLAIMS, { ...claimRequest(), ...asJson(await keyOf(scope)) })
      expect(refused).toMatchObject({ status: 403, body: { error: { code: 'insufficient_scope' } } })
    }
    const key = await keyOf('worker')
    expect((await service.json(CLAIMS, { ...claimRequest(), ...asJson(key) })).body).toEqual({ claim: null })
    expect((await service.json(CLAIMS, claimRequest())).body).toEqual({ claim: null })
    for (const path of ['/v1/models', '/v1/whoami', JOBS, '/v1/preview/keys', '/v1/usage', '/v1/nothing']) {
      expect((await service.fetch(path, asKey(key))).status, path).toBe(403)
    }
    const chat = { messages: [{ role: 'user', content: 'hi' }] }
    expect((await service.json('/v1/chat/completions', { json: chat, ...asJson(key) })).status).toBe(403)
  })

  it('of another minor version are refused for good, with the version that fits', async () => {
    await start({ scripted: true })
    const { status, body } = await service.json(CLAIMS, claimRequest({}, '0.99.3'))
    expect(status).toBe(410)
    expect(body).toMatchObject({
      error: { code: 'worker_version', hint: expect.stringContaining('install trainyard') },
    })
    // it may still give back what it has
    expect((await service.json(CLAIMS, claimRequest({ is_leaving: true }, '0.99.3'))).status).toBe(200)
  })

  it('wait for a job, and get those of their own key alone', async () => {
    await start({ scripted: true })
    const key = await keyOf('worker', { project: 'mine' })
    const waiting = service.json<{ claim: { job_id: string } | null }>(CLAIMS, {
      ...claimRequest({ wait_seconds: 60 }),
      ...asJson(key),
    })
    const other = await service.createModel('other')
    const foreign = await submit(other, 1)
    const create = { project: 'mine', name: 'm', base_model: 'trainyard/tiny-random' }
    const mine = (await service.json<{ id: string }>('/v1/preview/models', { json: create })).body.id
    const id = await submit(mine, 1)
    expect((await waiting).body.claim).toMatchObject({ job_id: id, attempt: 1, model_id: mine })
    expect(await jobOf(foreign)).toMatchObject({ status: 'queued', worker: null })
    expect(await jobOf(id)).toMatchObject({ status: 'running', worker: { name: 'test' } })
  })

  it('get no job that is too large for them, and the job says so', async () => {
    await start({ scripted: true })
    const id = await submit(await service.createModel(), 1)
    const claim = async (worker: ClaimPart['worker']) =>
      (await service.json<{ claim: object | null }>(CLAIMS, claimRequest({ worker: worker ?? {} }))).body.claim
    expect((await jobOf(id)).warnings).toContainEqual(expect.stringContaining('no worker takes jobs'))
    expect(await claim({ memory_bytes: 100 })).toBeNull()
    expect((await jobOf(id)).warnings).toContainEqual(expect.stringContaining('no worker has more than 0 GB'))
    expect(await claim({ memory_bytes: 1e9 })).toMatchObject({ job_id: id })
    expect((await jobOf(id)).warnings).toEqual([])
  })

  it('of a worker that never heard the answer give its job back at once; one that left a job says why', async () => {
    await start({ scripted: true })
    const model = await service.createModel()
    const id = await submit(model, 1)
    const claim = async (more: ClaimPart = {}) =>
      (await service.json<{ claim: { attempt: number } | null }>(CLAIMS, claimRequest(more))).body.claim
    for (let attempt = 1; attempt <= 5; attempt += 1) expect(await claim()).toMatchObject({ attempt })
    const left = { reason: 'the worker exited with code 1', is_orderly: false }
    expect(await claim({ left })).toMatchObject({ attempt: 6 })
    expect(await claim({ left })).toMatchObject({ attempt: 7 })
    expect(await claim({ left })).toBeNull()
    expect(await jobOf(id)).toMatchObject({
      status: 'failed',
      error_code: 'worker_lost',
      error_message: expect.stringContaining('at last because the worker exited with code 1'),
    })
  })
})

function asJson(key: string) {
  return { headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' } }
}
