/**
 * Training sessions on workers of other machines: the losses of a local one, through a lost and a drained worker and a server that is
 * started again; jobs and sessions take turns on one worker.
 */
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import {
  createTestService,
  type TestService,
  type TestServiceOptions,
} from '../../support/service/create-test-service.js'
import { startWorkerProcess, type WorkerProcess } from '../../support/service/worker-process.js'
import { openTinker, plainRows, type TestRun, type TinkerTestClient } from '../../support/tinker/tinker-client.js'
import { until } from '../../support/until.js'

const TRAIN = {
  loss: 'cross_entropy',
  data: plainRows([
    [1, 20, 30, 40, 50, 60],
    [2, 21, 31, 41],
  ]),
}
const STEP = { adam_params: { learning_rate: 0.01 } }
/** Short, so that a killed worker is soon given up; long enough for a living one on a busy machine. */
const LEASE_MS = 5000

let directory: string
let service: TestService
let tinker: TinkerTestClient
let workers: WorkerProcess[] = []
let key: string

beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), 'trainyard-far-sessions-'))
})
afterEach(async () => {
  for (const { child } of workers) child.kill('SIGKILL')
  await Promise.all(workers.map(({ ended }) => ended))
  workers = []
  await service.dispose()
  await rm(directory, { recursive: true, force: true, maxRetries: 20 })
})

async function start(options: TestServiceOptions = {}): Promise<void> {
  service = await createTestService({
    ...{ scripted: false, trainWorkers: 0, threads: 1, resumeIntervalMs: 86_400_000 },
    tuning: { jobs: { leaseMs: LEASE_MS } },
    ...options,
  })
  tinker = await openTinker(service)
  key = (await service.json<{ key: string }>('/v1/preview/keys', { json: { scope: 'worker' } })).body.key
}

function startWorker(flags: readonly string[] = []): WorkerProcess {
  const worker = startWorkerProcess({ url: service.url, key, directory, flags })
  workers.push(worker)
  return worker
}

/** One update after the other. */
async function losses(run: TestRun, count: number): Promise<number[]> {
  const found: number[] = []
  for (let i = 0; i < count; i += 1) {
    found.push((await tinker.loss(await run.send(TRAIN))).loss)
    await tinker.result(await run.post('optim_step', STEP))
  }
  return found
}

const kill = async (worker: WorkerProcess | undefined, signal: 'SIGKILL' | 'SIGTERM'): Promise<void> => {
  worker?.child.kill(signal)
  await worker?.ended
}

describe('a training session on another machine', { timeout: 300_000 }, () => {
  it('has the losses of a local one, whatever becomes of its workers', async () => {
    await start()
    expect((await tinker.json('create_model', { session_id: tinker.sessionId, model_seq_id: 0 })).status).not.toBe(200)
    const worker = startWorker(['--name', 'box'])
    await worker.heard('ready')
    const run = await tinker.createRun({ seed: 5 })
    const first = await run.send(TRAIN)
    const updated = await run.post('optim_step', STEP)
    const far = [(await tinker.loss(first)).loss]
    await tinker.result(updated)
    far.push(...(await losses(run, 1)))
    const { body } = await service.json<{ checks: { message: string }[] }>('/v1/system-check')
    expect(body.checks).toContainEqual(
      expect.objectContaining({ message: '0 of 0 workers busy, of other machines 1 of 1: box' }),
    )
    await kill(worker, 'SIGKILL')
    const second = startWorker()
    far.push(...(await losses(run, 1)))
    await kill(second, 'SIGTERM')
    startWorker()
    far.push(...(await losses(run, 1)))

    service = await service.restart({ trainWorkers: 1 })
    tinker = await openTinker(service)
    await Promise.all(workers.map((each) => kill(each, 'SIGTERM')))
    const near = await tinker.createRun({ seed: 5 })
    expect(far).toEqual(await losses(near, 4))
  })

  it('gives its worker to a job that waits, and goes on behind it', async () => {
    await start()
    await startWorker().heard('ready')
    const run = await tinker.createRun({ seed: 5 })
    await losses(run, 1)
    const model = await service.createModel()
    const row = JSON.stringify({ messages: ['user', 'assistant'].map((role) => ({ role, content: 'Hello there' })) })
    const { body } = await service.json<{ id: string }>('/v1/preview/sft-training-jobs', {
      json: {
        model_id: model,
        training_data_url: `data:application/jsonl;base64,${Buffer.from(row).toString('base64')}`,
      },
    })
    expect(await service.waitForJob(body.id)).toMatchObject({ status: 'completed', attempt: 1 })
    expect(await losses(run, 1)).toHaveLength(1)
  })

  it('of another key is not for its worker', async () => {
    await start()
    const create = { scope: 'worker', project: 'elsewhere' }
    key = (await service.json<{ key: string }>('/v1/preview/keys', { json: create })).body.key
    const worker = startWorker()
    await worker.heard('ready')
    const run = await tinker.createRun()
    const request = await run.send(TRAIN)
    const mine = (await service.json<{ key: string }>('/v1/preview/keys', { json: { scope: 'worker' } })).body.key
    const other = startWorkerProcess({ url: service.url, key: mine, directory: join(directory, 'other') })
    workers.push(other)
    expect((await tinker.loss(request)).loss).toBeGreaterThan(0)
    await until(() => other.events.some(({ type }) => type === 'job_started'), 'the session on the other worker')
    expect(worker.events.map(({ type }) => type)).toEqual(['ready'])
  })
})
