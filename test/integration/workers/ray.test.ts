/**
 * Workers on a real Ray cluster with token authentication: placed where the resource is, lost with their node, told of while none is there.
 */
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest'
import { packageRoot } from '#base/util/package-root.js'
import type { TrainingJob } from '#contract/wire/training-jobs.js'
import { createTestService, type TestService } from '../../support/service/create-test-service.js'
import { hasRay, NO_RAY, RAY_TOKEN, type RayCluster, startRayCluster } from '../../support/service/ray-cluster.js'
import { until } from '../../support/until.js'

let directory: string
let cluster: RayCluster | undefined
let service: TestService

describe.skipIf(hasRay)('Ray', () => {
  it.skip(NO_RAY, () => undefined)
})

describe.runIf(hasRay)('workers on Ray', { timeout: 600_000 }, () => {
  beforeEach(async () => {
    directory = await mkdtemp(join(tmpdir(), 'trainyard-ray-'))
    const started = await startRayCluster()
    cluster = started
    vi.stubEnv('RAY_AUTH_TOKEN', RAY_TOKEN)
    // the address of the server must be known before it starts: it gets it anew
    const options = { scripted: false, trainWorkers: 0, threads: 1, resumeIntervalMs: 0 } as const
    const tuning = { plugins: { ray: { sweepMs: 500 } }, jobs: { leaseMs: 300_000 } }
    service = await createTestService({ ...options, tuning })
    const { body } = await service.json<{ key: string }>('/v1/preview/keys', { json: { scope: 'worker' } })
    const keyFile = join(directory, 'worker.key')
    await writeFile(keyFile, body.key, { mode: 0o600 })
    const command = `${process.execPath} ${join(packageRoot(), 'bin', 'trainyard.js')}`
    const asked = new URLSearchParams({
      ...{ server: service.url, 'key-file': keyFile, command },
      'resource.train': '1',
    })
    service = await service.restart({
      port: Number(new URL(service.url).port),
      workers: `ray://127.0.0.1:${started.port}?${asked}`,
    })
  }, 300_000)
  afterEach(async () => {
    vi.unstubAllEnvs()
    try {
      await cluster?.stop()
    } finally {
      await service.dispose()
      await rm(directory, { recursive: true, force: true, maxRetries: 20 })
    }
  })

  const jobOf = async (id: string): Promise<TrainingJob> =>
    (await service.json<TrainingJob>(`/v1/preview/training-jobs/${id}`)).body

  /** Each row is a gradient step. */
  async function submit(rows: number): Promise<string> {
    const lines = Array.from({ length: rows }, (_, i) =>
      JSON.stringify({ messages: ['user', 'assistant'].map((role) => ({ role, content: `${role} ${i}` })) }),
    )
    const data = `data:application/jsonl;base64,${Buffer.from(lines.join('\n')).toString('base64')}`
    const json = { model_id: await service.createModel(`m${rows}`), training_data_url: data, config: { batch_size: 1 } }
    return (await service.json<{ id: string }>('/v1/preview/sft-training-jobs', { json })).body.id
  }

  it('wait for a node and say so, train on one that comes, and go on on another when it dies', async () => {
    const id = await submit(400)
    const isTold = async (): Promise<boolean> =>
      (await jobOf(id)).warnings.some((text) => text.includes('a node of the Ray cluster with 1 CPU, 1 train'))
    await until(isTold, 'the warning', 90_000)

    const killNode = await cluster?.addNode({ train: 1 })
    await until(async () => (await jobOf(id)).num_gradient_steps > 5, 'some steps', 180_000)
    const before = await jobOf(id)
    expect(before.worker?.name).toMatch(/^trainyard-/)
    await killNode?.()
    // at once, though the lease has minutes to go: Ray says that its node is gone
    await until(async () => (await jobOf(id)).status === 'queued', 'the job in the queue', 90_000)
    await cluster?.addNode({ train: 1 })
    await until(async () => (await jobOf(id)).status === 'completed', 'the end of the job', 300_000)
    const after = await jobOf(id)
    expect(after).toMatchObject({ attempt: 2, num_gradient_steps: 400 })
    expect(after.worker?.name).not.toBe(before.worker?.name)
  })

  it('go on when the head is killed: with their job, and with the next one', async () => {
    await cluster?.addNode({ train: 1 })
    const id = await submit(150)
    await until(async () => (await jobOf(id)).num_gradient_steps > 5, 'some steps', 240_000)
    await cluster?.killHead()
    await until(async () => (await jobOf(id)).status === 'completed', 'the end of the job', 300_000)
    const first = await jobOf(id)
    expect(first).toMatchObject({ attempt: 1, num_gradient_steps: 150 })
    const next = await submit(1)
    await until(async () => (await jobOf(next)).status === 'completed', 'the end of the next job', 60_000)
    expect((await jobOf(next)).worker?.name).toBe(first.worker?.name)
  })
})
