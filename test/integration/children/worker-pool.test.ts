/**
 * How long idle training workers are kept, with real processes that train nothing.
 */
import { join } from 'node:path'
import { afterEach, describe, expect, it } from 'vitest'
import { memoryBytes } from '#base/machine/memory.js'
import { createWorkerPool, type WorkerPool, type WorkerPoolOptions } from '#service/processes/worker-pool.js'
import { isAlive } from '../../support/service/is-alive.js'
import { until } from '../../support/until.js'

const IDLE_WORKER = join(import.meta.dirname, '..', '..', 'support', 'stand-ins', 'idle-worker.mjs')
const FOLDERS = { base_model: null, prepared: '/nowhere', fetched: null }
const START = { serverUrl: 'http://127.0.0.1:1', token: 't', jobId: 'j', attempt: 1, modelId: 'm', folders: FOLDERS }
let pool: WorkerPool
afterEach(() => pool.stop())

function create(options: Partial<WorkerPoolOptions> = {}): void {
  pool = createWorkerPool({ environment: process.env, keepMs: 3_600_000, entryPath: IDLE_WORKER, ...options })
}

/** Makes an attempt. @returns the process that made it */
async function attempt(start: Partial<typeof START> = {}): Promise<number> {
  const worker = pool.start({ ...START, ...start })
  await worker.ended
  worker.kill()
  return worker.pid ?? 0
}

describe('idle workers', { timeout: 120_000 }, () => {
  it('make the next attempt, the one that knows the model first; a kill of an attempt that is over hits nobody', async () => {
    create()
    const both = [pool.start(START), pool.start({ ...START, modelId: 'other' })]
    await Promise.all(both.map((worker) => worker.ended))
    expect(pool.idlePids()).toHaveLength(2)
    expect(await attempt({ modelId: 'other' })).toBe(both[1]?.pid)
    expect(await attempt({ modelId: 'm' })).toBe(both[0]?.pid)
    expect(await attempt({ modelId: 'new' })).toBe(both[0]?.pid)
    expect(await attempt({ modelId: 'new' })).toBe(both[0]?.pid)
    expect(pool.idlePids()).toHaveLength(2)
  })

  it('that end in an attempt say how', async () => {
    create()
    await attempt()
    expect(await pool.start({ ...START, attempt: 99 }).ended).toBe('the worker exited with code 7')
    expect(pool.idlePids()).toEqual([])
  })

  it('are given up after their time, and at the stop of the pool', async () => {
    create({ keepMs: 50 })
    const first = await attempt()
    await until(() => pool.idlePids().length === 0 && !isAlive(first), 'the end of the worker')
    create()
    const second = await attempt()
    expect(pool.idlePids()).toEqual([second])
    pool.stop()
    await until(() => !isAlive(second), 'the end of the worker')
  })

  it.each([
    ['keepMs is 0', { keepMs: 0 }],
    ['they hold too much', { maxKeptBytes: 999 }],
    ['memory is short', { availableBytes: () => 0 }],
  ])('are not kept when %s', async (_, options) => {
    create(options)
    const pid = await attempt()
    expect(pool.idlePids()).toEqual([])
    await until(() => !isAlive(pid), 'the end of the worker')
  })
})

it('a worker that is asked to show that it can run, and does not for long, is said to be late', async () => {
  // it says nothing that is asked for
  create({ probeMs: 50 })
  await expect(pool.probe()).rejects.toThrow('a worker had not loaded its runtime after 0.05 s')
  await expect(pool.probeComputing()).rejects.toThrow('a worker had not loaded its runtime after 0.05 s')
})

describe('room for one more worker', { timeout: 120_000 }, () => {
  const MB = 1024 ** 2
  const tenth = memoryBytes() / 10

  it.skipIf(process.platform !== 'linux').each([
    ['holds', '0'],
    ['and what it started hold', '1'],
  ])('is as much as the largest that runs %s, and a tenth of the machine', async (_, isInChild) => {
    let availableBytes = Number.POSITIVE_INFINITY
    create({
      given: { STAND_IN_HELD_BYTES: String(300 * MB), STAND_IN_IN_CHILD: isInChild },
      availableBytes: () => availableBytes,
    })
    const worker = pool.start(START)
    // the least that is refused: what it holds shows as it grows
    await until(() => {
      availableBytes = tenth + 300 * MB
      return !pool.hasRoom()
    }, 'a worker that holds 300 MB')
    availableBytes = tenth + 900 * MB
    expect(pool.hasRoom()).toBe(true)
    worker.kill()
    await worker.ended
    availableBytes = tenth + MB
    expect(pool.hasRoom()).toBe(true)
    availableBytes = tenth - MB
    expect(pool.hasRoom()).toBe(false)
  })

  it('is made by giving up kept workers, the one that waited longest first', async () => {
    let availableBytes = Number.POSITIVE_INFINITY
    create({ availableBytes: () => availableBytes })
    const both = [pool.start(START), pool.start({ ...START, modelId: 'other' })]
    await Promise.all(both.map((worker) => worker.ended))
    const [first, second] = pool.idlePids()
    availableBytes = 0
    expect(pool.hasRoom()).toBe(false)
    expect(pool.idlePids()).toEqual([second])
    await until(() => !isAlive(first ?? 0), 'the end of the kept worker')
    availableBytes = Number.POSITIVE_INFINITY
    expect(pool.hasRoom()).toBe(true)
    expect(pool.idlePids()).toEqual([second])
  })
})
