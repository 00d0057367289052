/**
 * A server that lets its workers choose what computes gradients: jobs that began with PyTorch are taken once a worker has said that it
 * has it, and else left alone, which is told.
 */
import { expect, onTestFinished, test } from 'vitest'
import type { TrainingJob } from '#contract/wire/training-jobs.js'
import { createTestService, sampleGroup, type TestService } from '../../../support/service/create-test-service.js'

/** A service without workers, with a job that was begun with PyTorch. */
async function withJob(): Promise<{ readonly service: TestService; readonly id: string }> {
  const service = await createTestService({ trainWorkers: 0 })
  onTestFinished(() => service.dispose())
  const json = { model_id: await service.createModel(), trajectory_groups: [sampleGroup()] }
  const { body } = await service.json<{ id: string }>('/v1/preview/training-jobs', { json })
  const rows = await service.openRows()
  await rows.db.updateTable('training_jobs').set({ trainer: 'torch' }).where('id', '=', body.id).execute()
  await rows.close()
  return { service, id: body.id }
}

test('a job of PyTorch waits where there is none', async () => {
  const { service, id } = await withJob()
  const auto = await service.restart({ trainWorkers: 1, trainer: 'auto' })
  onTestFinished(() => auto.close(0))
  // a job that anything can compute has its turn all the same: the queue was looked at
  const json = { model_id: await auto.createModel('other'), trajectory_groups: [sampleGroup([1, 0])] }
  const { body } = await auto.json<{ id: string }>('/v1/preview/training-jobs', { json })
  expect((await auto.waitForJob(body.id)).status).toBe('completed')
  const { body: job } = await auto.json<TrainingJob>(`/v1/preview/training-jobs/${id}`)
  expect(job).toMatchObject({ status: 'queued', attempt: 0 })
  expect(job.warnings).toContainEqual(expect.stringContaining('the job began with torch'))
})

test('and is taken where a worker has it', async () => {
  const { service, id } = await withJob()
  const standIn = { STAND_IN_PROBE_TRAINER: 'torch', TRAINYARD_PASS_ENVIRONMENT: 'STAND_IN_PROBE_TRAINER' }
  const seams = { environment: { ...process.env, ...standIn } }
  const auto = await service.restart({ trainWorkers: 1, trainer: 'auto', seams })
  onTestFinished(() => auto.close(0))
  expect((await auto.waitForJob(id)).status).toBe('completed')
})
