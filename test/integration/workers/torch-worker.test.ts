/**
 * A worker on another machine that computes with PyTorch: it says so before its first job and on it; a job that it left goes on with
 * PyTorch alone.
 */
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import type { TrainingJob } from '#contract/wire/training-jobs.js'
import { createTestService, type TestService } from '../../support/service/create-test-service.js'
import { startWorkerProcess, type WorkerProcess } from '../../support/service/worker-process.js'
import { NO_TORCH, TORCH_PYTHONS } from '../../support/torch-python.js'
import { until } from '../../support/until.js'

const [python] = TORCH_PYTHONS
let directory: string
let service: TestService
let workers: WorkerProcess[] = []

beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), 'trainyard-torch-worker-'))
  service = await createTestService({ scripted: false, trainWorkers: 0, threads: 1, resumeIntervalMs: 0 })
})
afterEach(async () => {
  for (const { child } of workers) child.kill('SIGKILL')
  await Promise.all(workers.map(({ ended }) => ended))
  workers = []
  await service.dispose()
  await rm(directory, { recursive: true, force: true, maxRetries: 20 })
})

async function startWorker(flags: readonly string[]): Promise<WorkerProcess> {
  const { body } = await service.json<{ key: string }>('/v1/preview/keys', { json: { scope: 'worker' } })
  const worker = startWorkerProcess({ url: service.url, key: body.key, directory, flags })
  workers.push(worker)
  return worker
}

const jobOf = async (id: string): Promise<TrainingJob> =>
  (await service.json<TrainingJob>(`/v1/preview/training-jobs/${id}`)).body

describe.runIf(python === undefined)('PyTorch', () => {
  it.skip(NO_TORCH, () => undefined)
})

describe('a worker with --trainer torch', { timeout: 300_000 }, () => {
  it.runIf(python !== undefined)('is named with it on its job, which nobody goes on with who has it not', async () => {
    const first = await startWorker([
      '--name',
      'card',
      '--trainer',
      'torch',
      '--python',
      python ?? '',
      '--drain',
      '1ms',
    ])
    await first.heard('ready')
    const model = await service.createModel()
    const lines = Array.from({ length: 60 }, (_, i) =>
      JSON.stringify({ messages: ['user', 'assistant'].map((role) => ({ role, content: `${role} ${i}` })) }),
    )
    const data = `data:application/jsonl;base64,${Buffer.from(lines.join('\n')).toString('base64')}`
    const json = { model_id: model, training_data_url: data, config: { batch_size: 1, seed: 1 } }
    const { id } = (await service.json<{ id: string }>('/v1/preview/sft-training-jobs', { json })).body
    await until(async () => (await jobOf(id)).num_gradient_steps > 3, 'some steps')
    const card = { name: 'card', trainer: 'torch', device: expect.any(String) }
    expect((await jobOf(id)).worker).toMatchObject({ ...card, versions: { torch: expect.stringMatching(/^\d+\.\d+/) } })
    first.child.kill('SIGTERM')
    await first.ended

    const second = await startWorker(['--name', 'plain'])
    await second.heard('ready')
    await until(async () => (await jobOf(id)).warnings.some((text) => text.includes('--trainer torch')), 'the warning')
    // one of its own comes and goes: it works, and does not take the other
    const other = await service.createModel('other')
    const own = { ...json, model_id: other, config: { ...json.config, seed: 2 } }
    const brief = (await service.json<{ id: string }>('/v1/preview/sft-training-jobs', { json: own })).body
    expect((await service.waitForJob(brief.id)).worker).toMatchObject({ name: 'plain', trainer: 'onnx' })
    expect(await jobOf(id)).toMatchObject({ status: 'queued', attempt: 1 })
    await startWorker(['--name', 'card again', '--trainer', 'torch', '--python', python ?? ''])
    expect(await service.waitForJob(id)).toMatchObject({
      ...{ status: 'completed', attempt: 2, worker: { name: 'card again', trainer: 'torch' } },
    })
  })

  it('ends where PyTorch is missing, with the line that installs it', async () => {
    const worker = await startWorker(['--trainer', 'torch', '--python', 'no-such-python'])
    expect((await worker.ended).code).not.toBe(0)
    expect(worker.stderr()).toContain('no-such-python -m pip install torch')
    expect(worker.events.map(({ type }) => type)).not.toContain('ready')
  })
})
