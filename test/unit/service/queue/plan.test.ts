/**
 * The order of waiting jobs: projects and models take turns, whatever one of them has sent; times follow from what jobs took.
 * The plan is what the queue then does.
 */
import { describe, expect, it } from 'vitest'
import { systemIds } from '#base/util/ids.js'
import { planQueue } from '#service/queue/plan.js'
import { claimNextJob, createJob } from '#service/queue/queue.js'
import { recoverInterrupted } from '#service/queue/recovery.js'
import { type QueueState, readQueueState } from '#service/storage/jobs/queue-state.js'
import { setJobCompleted } from '#service/storage/jobs/states.js'
import { createJobFixture, ONCE, TEST_LEASE } from '../../../support/service/job-fixture.js'

/** Jobs as `project.model`, in the order in which they were sent. */
function stateOf(jobs: readonly string[], more: Partial<QueueState> = {}): QueueState {
  const waiting = jobs.map((name, i) => toJob(name, i))
  return {
    nowMs: 0,
    waiting,
    active: [],
    modelTurns: new Map(),
    projectTurns: new Map(),
    durations: new Map(),
    ...more,
  }
}
const toJob = (name: string, i: number) => ({
  id: `${String(i).padStart(4, '0')} ${name}`,
  modelId: name,
  projectKey: name.split('.')[0] ?? '',
  attempt: 0,
  trainer: null,
  weightBytes: null,
})
const orderOf = (state: QueueState, workers = 1) =>
  [...planQueue(state, workers)].sort((a, b) => a[1].position - b[1].position).map(([id]) => id.slice(5))

describe('the order', () => {
  it('lets models take turns, each first in, first out', () => {
    expect(orderOf(stateOf(['p.a', 'p.a', 'p.a', 'p.b', 'p.c', 'p.b']))).toEqual([
      'p.a',
      'p.b',
      'p.c',
      'p.a',
      'p.b',
      'p.a',
    ])
  })

  it('lets projects take turns before models: many models give no more of them', () => {
    const many = Array.from({ length: 4 }, (_, i) => `big.m${i}`)
    expect(orderOf(stateOf([...many, 'small.x', 'small.x']))).toEqual([
      'big.m0',
      'small.x',
      'big.m1',
      'small.x',
      'big.m2',
      'big.m3',
    ])
  })

  it('goes on from who had the last turn', () => {
    const state = stateOf(['a.m', 'b.m'], { projectTurns: new Map([['a', 7]]), modelTurns: new Map([['a.m', 7]]) })
    expect(orderOf(state)).toEqual(['b.m', 'a.m'])
  })

  it('puts what was interrupted first', () => {
    const state = stateOf(['a.m', 'b.m'])
    const [first, second] = state.waiting
    if (first === undefined || second === undefined) throw new Error('two jobs wait')
    expect(orderOf({ ...state, waiting: [first, { ...second, attempt: 1 }] })).toEqual(['b.m', 'a.m'])
  })

  it('gives a free worker to the project that runs the fewest jobs', () => {
    const active = [{ ...toJob('a.x', 90), ranMs: 0, gradientSteps: 0, numSequences: null }]
    expect(orderOf(stateOf(['a.y', 'b.z'], { active }), 2)).toEqual(['b.z', 'a.y'])
  })
})

describe('the expected start', () => {
  const startsOf = (state: QueueState, workers: number) =>
    Object.fromEntries([...planQueue(state, workers)].map(([id, plan]) => [id.slice(5), plan.startsInMs]))
  const durations = new Map([['p.a', 10_000]])

  it('adds what jobs before it take: the rest of the running one by its pace, others by what such jobs took', () => {
    const active = [{ ...toJob('p.r', 90), ranMs: 3000, gradientSteps: 3, numSequences: 10 }]
    const state = stateOf(['p.a', 'p.b', 'p.c'], { active, durations })
    expect(startsOf(state, 1)).toEqual({ 'p.a': 7000, 'p.b': 17_000, 'p.c': 27_000 })
    expect(startsOf(state, 2)).toEqual({ 'p.a': 0, 'p.b': 7000, 'p.c': 10_000 })
  })

  it('is unknown behind what nothing is known of, and without workers', () => {
    expect(startsOf(stateOf(['p.a', 'p.b']), 1)).toEqual({ 'p.a': 0, 'p.b': null })
    expect(startsOf(stateOf(['p.a', 'p.b'], { durations }), 0)).toEqual({ 'p.a': null, 'p.b': null })
  })
})

describe('the plan', () => {
  it('is what the queue does, through claims, ends and interruptions', async () => {
    const fixture = await createJobFixture()
    const models = [fixture.modelId, ...(await Promise.all(['b', 'c', 'd'].map((name) => fixture.addModel(name))))]
    const projectOf = (i: number) => (i < 2 ? 'p' : 'q')
    for (const i of [0, 0, 0, 1, 2, 0, 3, 2, 1, 3, 0]) {
      await createJob(fixture.db, { ...fixture.newJob(models[i]), project: projectOf(i) }, ONCE)
    }
    for (let round = 0; round < 11; round += 1) {
      const plan = planQueue(await readQueueState(fixture.db), 1)
      const next = [...plan].find(([, { position }]) => position === 1)?.[0]
      const claimed = await claimNextJob(fixture.db, systemIds, { ...TEST_LEASE, leaseMs: 60_000 })
      expect(claimed?.job.id).toBe(next)
      if (round % 4 === 3) {
        await recoverInterrupted(fixture.db, systemIds, 60_000)
        expect((await claimNextJob(fixture.db, systemIds, { ...TEST_LEASE, leaseMs: 60_000 }))?.job.id).toBe(next)
      }
      await setJobCompleted(fixture.db, claimed?.job.id ?? '', 1)
    }
    expect(planQueue(await readQueueState(fixture.db), 1).size).toBe(0)
    await fixture.close()
  })

  it('of a thousand models is made in one go', () => {
    const jobs = Array.from({ length: 1000 }, (_, i) => `p${i % 7}.m${i}`)
    expect(planQueue(stateOf(jobs), 4).size).toBe(1000)
  })
})
