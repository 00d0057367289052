/**
 * Engines hear when a job begins to compute on this machine and when the last one is over, also engines that start meanwhile.
 */
import { afterEach, expect, it } from 'vitest'
import { createLogger } from '#base/logging/logger.js'
import type { TrainingJob } from '#contract/wire/training-jobs.js'
import { createTestService, sampleGroup, type TestService } from '../../../support/service/create-test-service.js'
import { until } from '../../../support/until.js'

interface Line {
  readonly event?: string
  readonly threads?: number | string
}

let service: TestService
afterEach(() => service.dispose())

it('engines share the cores from the first job to the last, and one that dies meanwhile too', async () => {
  const threads: (number | string | undefined)[] = []
  const write = (text: string): void => {
    const line = JSON.parse(text) as Line
    if (line.event === 'engine.threads') threads.push(line.threads)
  }
  service = await createTestService({ logger: createLogger({ destination: { write } }), trainWorkers: 2 })
  const chat = (content: string) =>
    service.json('/v1/chat/completions', {
      json: { model: 'trainyard/tiny-random', messages: [{ role: 'user', content }] },
    })
  expect((await chat('hi')).status).toBe(200)
  const train = async (name: string): Promise<TrainingJob> => {
    const json = {
      model_id: await service.createModel(name),
      trajectory_groups: [sampleGroup()],
      experimental_config: { stand_in: { steps: 100_000, delay_ms: 50 } },
    }
    const { status, body } = await service.json<TrainingJob>('/v1/preview/training-jobs', { json })
    expect(status).toBe(200)
    return body
  }
  const jobs = [await train('a'), await train('b')]
  // the second begins only after a step of the first: without it the first would end as the last one
  for (const { id } of jobs) {
    const hasStepped = async () => {
      const { body } = await service.json<TrainingJob>(`/v1/preview/training-jobs/${id}`)
      return (body.num_gradient_steps ?? 0) > 0
    }
    await until(hasStepped, `first step of ${id}`)
  }
  expect(threads).toEqual([1])
  expect((await chat('CRASH')).status).toBe(503)
  expect((await chat('hi')).status).toBe(200)
  await until(() => threads.length === 2, 'word to the engine that was started again')
  for (const { id } of jobs) {
    expect(threads).toHaveLength(2)
    await service.json(`/v1/preview/training-jobs/${id}/cancel`, { method: 'POST' })
    await service.waitForJob(id, 60_000)
  }
  await until(() => threads.length === 3, 'word of the end of the last one')
  expect(threads).toEqual([1, 1, 'all'])
})
