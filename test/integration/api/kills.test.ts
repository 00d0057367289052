/**
 * A worker and a server that are killed at any moment: the promise of each job holds behind it.
 */
import { readdir } from 'node:fs/promises'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { describe, expect, it } from 'vitest'
import type { TrainingJob } from '#contract/wire/training-jobs.js'
import {
  checkPromise,
  eventsOf,
  HELD_AT_3,
  stepsOf,
  submit,
  untilEnd,
  useFaultyServers,
} from '../../support/service/faulty-servers.js'
import { isAlive } from '../../support/service/is-alive.js'
import { childrenOf } from '../../support/service/killable-server.js'
import { until } from '../../support/until.js'

const { startServer, dataDir } = useFaultyServers()

describe('a killed worker', { timeout: 240_000 }, () => {
  it('at any step: the job runs again from its parent and completes once', async () => {
    const server = await startServer({ trainWorkers: 1 })
    const modelId = await server.createModel()
    const steps: number[] = []
    for (const dieAt of [0, 2]) {
      const jobId = await submit(server, modelId, { steps: 3, die_at: dieAt, only_attempt: 1 })
      const job = await checkPromise(server, modelId, jobId, steps)
      expect(job).toMatchObject({ status: 'completed', attempt: 2, num_gradient_steps: 3 })
      steps.push(job.step ?? 0)
    }
  })

  it('every time: the job fails with one event and the model stays', async () => {
    const server = await startServer()
    const modelId = await server.createModel()
    const jobId = await submit(server, modelId, { die_at: 1 })
    const job = await checkPromise(server, modelId, jobId)
    expect(job).toMatchObject({ status: 'failed', error_code: 'worker_lost', attempt: 3 })
    expect(job.error_message).toContain('SIGKILL')
  })
})

describe('a killed server', { timeout: 240_000 }, () => {
  it('in the middle of a job: nothing is lost, children die with it, the job completes after the restart', async () => {
    const first = await startServer()
    const modelId = await first.createModel()
    const done = await submit(first, modelId, { steps: 1 })
    expect((await untilEnd(first, done)).status).toBe('completed')
    const running = await submit(first, modelId, HELD_AT_3)
    const queued = await submit(first, modelId, { steps: 2 })
    await until(async () => (await eventsOf(first, running)).length > 3, 'some steps')
    const seen = await eventsOf(first, running)
    const children = childrenOf(first.pid)
    expect(children.length).toBeGreaterThanOrEqual(2)
    await first.kill('SIGKILL')
    await until(() => !children.some(isAlive), 'death of the children')

    const second = await startServer()
    const job = await checkPromise(second, modelId, running, [1])
    expect(job).toMatchObject({ status: 'completed', attempt: 2, step: 2 })
    expect((await eventsOf(second, running)).slice(0, seen.length)).toEqual(seen)
    expect(await checkPromise(second, modelId, queued, [1, 2])).toMatchObject({ status: 'completed', step: 3 })
    // What is still being written lies there for a moment; what a crash left would lie there for ever.
    await until(
      async () => (await readdir(join(dataDir(), 'blobs/incoming'))).length === 0,
      'an empty folder of half-written blobs',
    )
  })

  it('at random moments of short jobs: every acknowledged job ends once', async () => {
    let server = await startServer()
    const modelId = await server.createModel()
    const jobs: string[] = []
    for (const delayMs of [150, 400, 700]) {
      jobs.push(await submit(server, modelId, { steps: 4, delay_ms: 30, round: delayMs }))
      await sleep(delayMs)
      await server.kill('SIGKILL')
      server = await startServer()
    }
    const ended: TrainingJob[] = []
    for (const id of jobs) ended.push(await untilEnd(server, id))
    const steps = ended.flatMap((job) => job.step ?? [])
    expect(await stepsOf(server, modelId)).toEqual(steps)
    for (const job of ended) {
      expect(
        (await eventsOf(server, job.id)).filter(
          (event) => event.type.startsWith('training_e') || event.type === 'training_failed',
        ),
      ).toHaveLength(1)
    }
  })

  it('leaves its directory free, and a second one refuses while the first lives', async () => {
    const first = await startServer()
    await expect(startServer()).rejects.toThrow('data_dir_locked')
    await first.kill('SIGKILL')
    await startServer()
  })
})
