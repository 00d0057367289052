/**
 * A training worker that is kept for the next job: the same process, the same bits, and no longer than it may stay.
 */
import { afterEach, describe, expect, it } from 'vitest'
import type { ChatResponse } from '#contract/wire/chat-completions.js'
import type { TrainingJob } from '#contract/wire/training-jobs.js'
import {
  createTestService,
  type TestService,
  type TestServiceOptions,
} from '../../support/service/create-test-service.js'
import { isAlive } from '../../support/service/is-alive.js'
import { until } from '../../support/until.js'

let service: TestService | null = null
afterEach(async () => {
  await service?.dispose()
  service = null
})

async function start(options: TestServiceOptions = {}): Promise<TestService> {
  // what else this machine does must not decide whether a worker is kept
  const seams = { availableMemoryBytes: () => Number.POSITIVE_INFINITY }
  service = await createTestService({ scripted: false, threads: 1, seams, ...options })
  return service
}

const ROW = '{"messages":[{"role":"user","content":"q"},{"role":"assistant","content":"a"}]}\n'

/** Trains a model of its own on the same rows with the same seed. @returns the digest of what was learned */
async function train(at: TestService, name: string): Promise<string> {
  const model = await at.createModel(name)
  const { body: file } = await at.json<{ id: string }>(`/v1/files?filename=${name}.jsonl`, {
    method: 'POST',
    body: ROW.repeat(4),
  })
  const { body: job } = await at.json<TrainingJob>('/v1/preview/sft-training-jobs', {
    json: { model_id: model, training_data_url: file.id, config: { learning_rate: 1e-3, seed: 5 } },
  })
  expect(await at.waitForJob(job.id, 110_000)).toMatchObject({ status: 'completed', attempt: 1 })
  const { body } = await at.json<ChatResponse>('/v1/chat/completions', {
    json: { model: name, messages: [{ role: 'user', content: 'q' }], max_tokens: 1 },
  })
  return body.system_fingerprint?.split(':').at(-1) ?? ''
}

const idlePid = (at: TestService) => until(() => at.idleWorkerPids()[0], 'an idle worker')

describe('a kept worker', () => {
  it('makes the next job in the same process and with the same bits, and ends with the server', async () => {
    const at = await start()
    const first = await train(at, 'a')
    const pid = await idlePid(at)
    expect(await train(at, 'b')).toBe(first)
    expect(first).toMatch(/^[0-9a-f]{16}$/)
    expect(await idlePid(at)).toBe(pid)
    await at.close(1000)
    await until(() => !isAlive(pid), 'the end of the worker')
  })

  it('that is killed while it waits costs the next job nothing', async () => {
    const at = await start()
    await train(at, 'a')
    process.kill(await idlePid(at), 'SIGKILL')
    await until(() => at.idleWorkerPids().length === 0, 'notice of the death')
    await train(at, 'b')
  })
})
