/**
 * Resume points through the real server, its fenced routes and real workers: a job whose worker is killed and whose server is
 * stopped goes on where it was and makes the same adapter as one that was left alone, with each event once.
 */
import { execFileSync } from 'node:child_process'
import { setTimeout as sleep } from 'node:timers/promises'
import { expect, it } from 'vitest'
import { storageReportSchema } from '#contract/wire/health.js'
import type { TrainingJob } from '#contract/wire/training-jobs.js'
import { createTestService, type TestService } from '../../support/service/create-test-service.js'

const STEPS = 150
const rows = Array.from({ length: STEPS }, (_, i) =>
  JSON.stringify({
    messages: [
      { role: 'user', content: `What is ${i}?` },
      { role: 'assistant', content: `It is ${i}.` },
    ],
  }),
)

async function submit(service: TestService, name: string): Promise<TrainingJob> {
  const model = await service.createModel(name)
  const { body: file } = await service.json<{ id: string }>('/v1/files?filename=x.jsonl', {
    method: 'POST',
    body: rows.join('\n'),
  })
  const { body } = await service.json<TrainingJob>('/v1/preview/sft-training-jobs', {
    json: { model_id: model, training_data_url: file.id, config: { batch_size: 1, learning_rate: 1e-3, seed: 5 } },
  })
  return body
}

async function adapterOf(service: TestService, modelId: string): Promise<Buffer> {
  const response = await service.fetch(`/v1/preview/models/${modelId}/checkpoints/1/files/adapter_model.safetensors`)
  expect(response.status).toBe(200)
  return Buffer.from(await response.arrayBuffer())
}

/** Waits until the job has made that many steps. */
async function reach(service: TestService, job: TrainingJob, steps: number): Promise<void> {
  for (;;) {
    const { body } = await service.json<TrainingJob>(`/v1/preview/training-jobs/${job.id}`)
    expect(body.status, body.error_message ?? '').not.toBe('failed')
    if (body.num_gradient_steps >= steps) return
    await sleep(5)
  }
}

function killWorkers(): void {
  const lines = execFileSync('ps', ['-eo', 'pid,ppid,args'], { encoding: 'utf8' }).split('\n')
  const own = lines.filter(
    (line) =>
      line.includes('dist/bundles/training/worker/main.js') && line.trim().split(/\s+/)[1] === String(process.pid),
  )
  for (const line of own) process.kill(Number(line.trim().split(/\s+/)[0]), 'SIGKILL')
}

it('a job whose worker and server stop goes on, makes the same adapter and tells each step once', async () => {
  let service = await createTestService({ scripted: false, threads: 1, resumeIntervalMs: 1 })
  try {
    const undisturbed = await submit(service, 'undisturbed')
    expect(await service.waitForJob(undisturbed.id, 300_000)).toMatchObject({ status: 'completed', attempt: 1 })

    const job = await submit(service, 'disturbed')
    for (const steps of [10, 50]) {
      await reach(service, job, steps)
      killWorkers()
    }
    await reach(service, job, 90)
    service = await service.restart()
    const ended = await service.waitForJob(job.id, 300_000)
    expect(ended).toMatchObject({ status: 'completed', step: 1, attempt: 4, num_gradient_steps: STEPS })

    const events = await service.allEvents(job.id)
    expect(events.map(({ type }) => type)).toEqual([
      'training_started',
      ...Array(STEPS).fill('gradient_step'),
      'training_ended',
    ])
    const expected = await service.allEvents(undisturbed.id)
    expect(events.map(({ data }) => data['loss'])).toEqual(expected.map(({ data }) => data['loss']))
    const adapter = await adapterOf(service, job.model_id)
    expect(adapter.equals(await adapterOf(service, undisturbed.model_id))).toBe(true)
  } finally {
    await service.dispose()
  }
}, 900_000)

it('nothing names the resume point when the job has ended, so that sweeps may take it', async () => {
  const service = await createTestService({ scripted: false, threads: 1, resumeIntervalMs: 1 })
  try {
    const job = await submit(service, 'm')
    await service.waitForJob(job.id, 300_000)
    const text = await (await service.fetch('/v1/preview/verify', { method: 'POST' })).text()
    const events = text.split('\n').filter((line) => line.startsWith('data: '))
    const report = storageReportSchema.parse(JSON.parse(events.at(-1)?.slice('data: '.length) ?? ''))
    expect(report).toMatchObject({ ok: true, missing: [], damaged: [] })
    // What is named are the three files of the checkpoint, its manifest and the uploaded rows.
    expect(report.blobs - report.orphans.length).toBe(5)
    expect(report.orphans.length).toBeGreaterThan(0)
  } finally {
    await service.dispose()
  }
}, 900_000)
