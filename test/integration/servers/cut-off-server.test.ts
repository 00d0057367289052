/**
 * Two servers, one of which is cut off from the database and lives on: the other takes its job over, and what the first one's worker still says
 * changes nothing. When the way is free again it serves as before, without a restart.
 */
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from 'vitest'
import type { TrainingEvent, TrainingJob } from '#contract/wire/training-jobs.js'
import {
  NO_SEVERAL_SERVERS,
  type SharedParts,
  startGroup,
  startSharedParts,
} from '../../support/storage/several-servers.js'
import { startTcpProxy, throughProxy } from '../../support/storage/tcp-proxy.js'
import { until } from '../../support/until.js'

const JOBS = '/v1/preview/training-jobs'
const STEPS = 60
/** Short, so that what the one had is soon taken up; long enough for a living one on a busy machine. */
const LEASE_MS = 4000

describe.skipIf(NO_SEVERAL_SERVERS !== null)(NO_SEVERAL_SERVERS ?? 'a server that is cut off', () => {
  let shared: SharedParts
  beforeAll(async () => {
    shared = await startSharedParts()
  })
  afterAll(() => shared?.stop())

  it.each(['refusing', 'frozen'] as const)('(%s) loses its job to another, and comes back by itself', async (mode) => {
    const parts = await shared.newGroup()
    const proxy = await startTcpProxy(shared.postgres.socket)
    onTestFinished(() => proxy.stop())
    const tuning = { serverLeaseMs: LEASE_MS, jobs: { leaseMs: LEASE_MS, startMs: 60_000 } }
    const options = { trainWorkers: 1, resumeIntervalMs: 0, tuning }
    const group = await startGroup(parts, [{ ...options, database: throughProxy(parts.database, proxy) }, options])
    onTestFinished(async () => {
      await proxy.set('passing')
      await group.stop()
    })
    const [first, second] = [group.at(0), group.at(1)]
    const models = await Promise.all(['a', 'b'].map((name) => second.createModel(name)))
    const ids: string[] = []
    for (const model of models) ids.push(await second.submitRows(model, STEPS))
    const jobs = () => Promise.all(ids.map((id) => second.call<TrainingJob>(`${JOBS}/${id}`)))
    await until(async () => (await jobs()).every((job) => job.num_gradient_steps > 0), 'a step at each server')
    await proxy.set(mode)
    // each had one of them, so one of them needs another attempt
    const ended = await Promise.all(ids.map((id) => second.untilEnd(id)))
    expect(ended.map(({ status }) => status)).toEqual(['completed', 'completed'])
    expect(ended.map(({ attempt }) => attempt).sort()).toEqual([1, 2])
    const answer = await first.fetch(`${JOBS}/${ids[0]}`)
    expect([answer.status, await answer.text()]).toEqual([503, expect.stringContaining('database_unavailable')])
    await proxy.set('passing')
    await until(async () => (await first.fetch(`${JOBS}/${ids[0]}`)).status === 200, 'the first to answer again')
    // it trains as before: a job for each of the two
    const more: string[] = []
    for (const model of models) more.push(await first.submitRows(model, STEPS))
    const later = await Promise.all(more.map((id) => first.untilEnd(id)))
    expect(later.map(({ status }) => status)).toEqual(['completed', 'completed'])
    for (const id of [...ids, ...more]) {
      const { data } = await first.call<{ data: TrainingEvent[] }>(`${JOBS}/${id}/events?limit=100`)
      expect(data.map(({ type }) => type)).toEqual([
        'training_started',
        ...Array<string>(STEPS).fill('gradient_step'),
        'training_ended',
      ])
    }
    for (const model of models) {
      const { data } = await first.call<{ data: { step: number }[] }>(`/v1/preview/models/${model}/checkpoints`)
      expect(data.map(({ step }) => step).sort()).toEqual([1, 2])
    }
  })
})
