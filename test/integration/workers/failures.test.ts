/**
 * What may fail between a worker of another machine and its server, line by line of the table in `src/docs/reference/more-machines.md` and of the design, where no other
 * test of this folder has it: a cut network, a job's process that dies, a base model that changes under its name.
 */
import { cp, mkdtemp, open, readdir, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { packageRoot } from '#base/util/package-root.js'
import type { TrainingJob } from '#contract/wire/training-jobs.js'
import {
  createTestService,
  type TestService,
  type TestServiceOptions,
} from '../../support/service/create-test-service.js'
import { childrenOf, commandOf } from '../../support/service/killable-server.js'
import { type KillingProxy, startKillingProxy } from '../../support/service/killing-proxy.js'
import { startWorkerProcess, type WorkerProcess } from '../../support/service/worker-process.js'
import { until } from '../../support/until.js'

const JOBS = '/v1/preview/training-jobs'
let directory: string
let service: TestService
let workers: WorkerProcess[] = []
let proxy: KillingProxy | null = null

beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), 'trainyard-failures-'))
})
afterEach(async () => {
  proxy?.close()
  proxy = null
  for (const { child } of workers) child.kill('SIGKILL')
  await Promise.all(workers.map(({ ended }) => ended))
  workers = []
  await service.dispose()
  await rm(directory, { recursive: true, force: true, maxRetries: 20 })
})

async function start(options: TestServiceOptions = {}): Promise<void> {
  service = await createTestService({ scripted: false, trainWorkers: 0, threads: 1, ...options })
}

async function startWorker(name: string, url = service.url): Promise<WorkerProcess> {
  const { body } = await service.json<{ key: string }>('/v1/preview/keys', { json: { scope: 'worker' } })
  const worker = startWorkerProcess({ url, key: body.key, directory: join(directory, name), flags: ['--name', name] })
  workers.push(worker)
  await worker.heard('ready')
  return worker
}

/** Each row is a gradient step. */
async function submit(modelId: string, rows: number): Promise<string> {
  const lines = Array.from({ length: rows }, (_, i) =>
    JSON.stringify({ messages: ['user', 'assistant'].map((role) => ({ role, content: `${role} ${i}` })) }),
  )
  const data = `data:application/jsonl;base64,${Buffer.from(lines.join('\n')).toString('base64')}`
  const json = { model_id: modelId, training_data_url: data, config: { batch_size: 1, learning_rate: 1e-3, seed: 1 } }
  return (await service.json<{ id: string }>('/v1/preview/sft-training-jobs', { json })).body.id
}

const jobOf = async (id: string): Promise<TrainingJob> => (await service.json<TrainingJob>(`${JOBS}/${id}`)).body
const steps = (count: number): readonly string[] => [
  'training_started',
  ...Array(count).fill('gradient_step'),
  'training_ended',
]
const typesOf = async (id: string): Promise<readonly string[]> => (await service.allEvents(id)).map(({ type }) => type)

describe('a worker on another machine', { timeout: 240_000 }, () => {
  it('that is cut off and alive loses its job to another, writes nothing to it any more, and takes the next one', async () => {
    const rows = 200
    await start({ resumeIntervalMs: 0, tuning: { jobs: { leaseMs: 8000 } } })
    proxy = await startKillingProxy(async () => undefined)
    proxy.target = service.url
    const cut = await startWorker('cut', proxy.url)
    const model = await service.createModel()
    const id = await submit(model, rows)
    // the next event waits in the proxy, and goes on when the network does
    proxy.budget = new Map([[id, 5]])
    await until(async () => (await jobOf(id)).num_gradient_steps > 3, 'some steps')
    proxy.target = null
    const near = await startWorker('near')
    await until(async () => (await jobOf(id)).attempt === 2, 'another attempt')
    proxy.target = service.url
    proxy.budget = null
    await cut.heard('job_left')
    const job = await service.waitForJob(id)
    expect(job).toMatchObject({ status: 'completed', attempt: 2, worker: { name: 'near' } })
    expect(await typesOf(id)).toEqual(steps(rows))
    near.child.kill('SIGKILL')
    await near.ended
    const next = await service.waitForJob(await submit(model, 1))
    expect(next).toMatchObject({ status: 'completed', step: 2, worker: { name: 'cut' } })
  })

  it('whose job process dies says so with its next claim: the job goes on at once, not at the end of its lease', async () => {
    const rows = 60
    await start({ resumeIntervalMs: 0, tuning: { jobs: { leaseMs: 600_000 } } })
    const worker = await startWorker('box')
    const id = await submit(await service.createModel(), rows)
    await until(async () => (await jobOf(id)).num_gradient_steps > 3, 'some steps')
    const pid = childrenOf(worker.child.pid ?? 0).find((child) => commandOf(child).includes('training/worker/main.js'))
    process.kill(pid ?? expect.fail(), 'SIGKILL')
    const job = await service.waitForJob(id)
    expect(job).toMatchObject({ status: 'completed', attempt: 2, worker: { name: 'box' } })
    expect(await typesOf(id)).toEqual(steps(rows))
  })

  it('fetches a base model anew that changed under its name, and an engine node that has the old one ends', async () => {
    const folders = ['first', 'second'].map((name) => join(directory, name))
    for (const folder of folders) await cp(join(packageRoot(), 'src/assets/spark'), folder, { recursive: true })
    await changeWeights(folders[1] ?? '')
    const base = (i: number) => ({ baseModels: [{ name: 'changing', sourcePath: folders[i] ?? '' }] })
    await start({ ...base(0), engines: 'remote', tuning: { plugins: { 'engine-nodes': { reportMs: 50 } } } })
    const { port } = new URL(service.url)
    const worker = await startWorker('box')
    const { body } = await service.json<{ key: string }>('/v1/preview/keys', { json: { scope: 'worker' } })
    const flags = ['--base-model', 'changing', '--name', 'old']
    const node = startWorkerProcess({ url: service.url, key: body.key, directory, command: 'engine-node', flags })
    workers.push(node)
    await node.heard('ready')
    const train = async (name: string): Promise<void> => {
      const json = { project: 'p', name, base_model: 'changing' }
      const model = (await service.json<{ id: string }>('/v1/preview/models', { json })).body.id
      expect(await service.waitForJob(await submit(model, 1))).toMatchObject({ status: 'completed' })
    }
    await train('one')
    const kept = join(directory, 'box', 'cache', 'base-models')
    expect(await readdir(kept)).toHaveLength(1)
    service = await service.restart({ ...base(1), port: Number(port) })
    await train('two')
    expect(await readdir(kept)).toHaveLength(2)
    expect(worker.child.exitCode).toBeNull()
    expect(await node.ended).toMatchObject({ code: 5 })
    expect(node.stderr()).toContain('base model')
  })
})

/** One bit of one weight. */
async function changeWeights(folder: string): Promise<void> {
  const name = (await readdir(folder)).find((file) => file.endsWith('.safetensors')) ?? expect.fail()
  const file = await open(join(folder, name), 'r+')
  try {
    const { size } = await file.stat()
    const { buffer } = await file.read(Buffer.alloc(1), 0, 1, size - 2)
    await file.write(Buffer.of((buffer[0] ?? 0) ^ 1), 0, 1, size - 2)
  } finally {
    await file.close()
  }
}
