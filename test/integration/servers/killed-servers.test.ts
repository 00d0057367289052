/**
 * Two servers on one database and one bucket, either of them killed with `kill -9` at random moments while jobs train and a client asks both in
 * turn: no job is lost, none ends twice, every step is told once, and the checkpoints have the bytes of a run where nobody died.
 *
 * TRAINYARD_KILLS asks for more of them than the few of each run, TRAINYARD_SEED for other moments.
 */
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from 'vitest'
import { createRng } from '#base/util/rng.js'
import type { TrainingEvent, TrainingJob } from '#contract/wire/training-jobs.js'
import { type KillableServer, startKillableServer } from '../../support/service/killable-server.js'
import {
  type Group,
  NO_SEVERAL_SERVERS,
  type SharedParts,
  startGroup,
  startSharedParts,
} from '../../support/storage/several-servers.js'
import { until } from '../../support/until.js'

const JOBS = '/v1/preview/training-jobs'
const KILLS = Number(process.env['TRAINYARD_KILLS'] ?? 6)
const SEED = Number(process.env['TRAINYARD_SEED'] ?? 1)
const MODELS = ['a', 'b', 'c']
const STEPS = 30
/** All that are made, so that every checkpoint has the same files whenever it is looked at. */
const keepOptimizers = 1000
/** Short, so that what a killed server had is soon taken up; long enough for a living one on a busy machine. */
const LEASE_MS = 4000
/** A kill comes within it after the steps that it waits for, wherever the protocol is then. */
const SPREAD_MS = 1500

describe.skipIf(NO_SEVERAL_SERVERS !== null)(NO_SEVERAL_SERVERS ?? 'two servers, one of which is killed', () => {
  let shared: SharedParts
  beforeAll(async () => {
    shared = await startSharedParts()
  })
  afterAll(() => shared?.stop())

  it(`${KILLS} times lose no job and end none twice`, { timeout: 120_000 + KILLS * 60_000 }, async () => {
    const rng = createRng(SEED)
    const tuning = { serverLeaseMs: LEASE_MS, jobs: { leaseMs: LEASE_MS, startMs: 60_000 } }
    const options = { trainWorkers: 2, resumeIntervalMs: 0, keepOptimizers, tuning }
    const group = await startGroup(await shared.newGroup(), [options, options])
    onTestFinished(() => group.stop())
    const modelIds = await Promise.all(MODELS.map((name) => group.at(0).createModel(name)))
    const made = new Map<string, string[]>(modelIds.map((id) => [id, []]))
    const submit = async (modelId: string): Promise<void> => {
      const jobs = made.get(modelId) ?? []
      jobs.push(await submitTo(group, modelId, `${modelId} ${jobs.length}`, jobs.length))
      made.set(modelId, jobs)
    }
    for (const id of modelIds) await submit(id)

    for (let kill = 0; kill < KILLS; kill += 1) {
      const before = await stepsOf(group, made)
      await until(async () => {
        // there is always something to kill
        for (const id of modelIds) if (await isEnded(group, made.get(id)?.at(-1) ?? '')) await submit(id)
        return (await stepsOf(group, made)) > before
      }, `steps before kill ${kill}`)
      await sleep(rng.uniform() * SPREAD_MS)
      const victim = rng.uniform() < 0.5 ? 0 : 1
      await group.kill(victim)
      // the other goes on alone for a while, or long enough to take what was lost
      await sleep(rng.uniform() * 2 * SPREAD_MS)
      await group.start(victim)
    }

    const jobs = await Promise.all([...made.values()].flat().map((id) => untilEnd(group, id)))
    expect(jobs.map(({ status, error_message: why }) => [status, why ?? null])).toEqual(
      jobs.map(() => ['completed', null]),
    )
    for (const { id } of jobs) {
      const types = (await eventsOf(group, id)).map(({ type }) => type)
      expect(types).toEqual(['training_started', ...Array(STEPS).fill('gradient_step'), 'training_ended'])
    }
    const counts = [...made.values()].map((ids) => ids.length)
    const killed = await Promise.all(modelIds.map((id) => filesOf(group, id, made.get(id)?.length ?? 0)))
    console.log(`${KILLS} kills, ${jobs.length} jobs, attempts ${jobs.map(({ attempt }) => attempt).join(' ')}`)
    expect(await quietRun(counts)).toEqual(killed)
  })
})

type Asking = Pick<Group, 'ask'>
type CheckpointPage = { data: { step: number }[]; last_id: string; has_more: boolean }

async function submitTo(group: Asking, modelId: string, key: string, seed: number): Promise<string> {
  const row = (i: number) => ({
    messages: [
      { role: 'user', content: `What is ${1000 + i}?` },
      { role: 'assistant', content: `It is ${1000 + i}.` },
    ],
  })
  const rows = Array.from({ length: STEPS }, (_, i) => JSON.stringify(row(i))).join('\n')
  const data = `data:application/jsonl;base64,${Buffer.from(rows).toString('base64')}`
  const json = { model_id: modelId, training_data_url: data, config: { batch_size: 1, learning_rate: 1e-3, seed } }
  return (await group.ask<{ id: string }>('/v1/preview/sft-training-jobs', { json, key })).id
}

/** Of all jobs; each model's last is asked for, those before it have ended. */
async function stepsOf(group: Asking, made: ReadonlyMap<string, readonly string[]>): Promise<number> {
  const steps = [...made.values()].map(async (ids) => {
    const last = await group.ask<TrainingJob>(`${JOBS}/${ids.at(-1)}`)
    return (ids.length - 1) * STEPS + last.num_gradient_steps
  })
  return (await Promise.all(steps)).reduce((sum, count) => sum + count, 0)
}

const isEnded = async (group: Asking, id: string): Promise<boolean> =>
  (await group.ask<TrainingJob>(`${JOBS}/${id}`)).training_end !== null

const untilEnd = (group: Asking, id: string): Promise<TrainingJob> =>
  until(
    async () => {
      const job = await group.ask<TrainingJob>(`${JOBS}/${id}`)
      return job.training_end !== null && job
    },
    `end of job ${id}`,
    200_000,
  )

async function eventsOf(group: Asking, id: string): Promise<readonly TrainingEvent[]> {
  return (await group.ask<{ data: TrainingEvent[] }>(`${JOBS}/${id}/events?limit=100`)).data
}

/** Digests of the files of each checkpoint; there is one for each job. */
async function filesOf(group: Asking, modelId: string, count: number): Promise<unknown> {
  const path = `/v1/preview/models/${modelId}/checkpoints`
  const found: number[] = []
  for (let after = '', more = true; more; ) {
    const page: CheckpointPage = await group.ask(`${path}?limit=100${after}`)
    found.push(...page.data.map(({ step }) => step))
    after = `&after=${page.last_id}`
    more = page.has_more
  }
  expect(found.sort((a, b) => a - b)).toEqual(Array.from({ length: count }, (_, i) => i + 1))
  const steps = Array.from({ length: count }, async (_, i) => {
    const { files } = await group.ask<{ files: { name: string; sha256: string }[] }>(`${path}/${i + 1}/files`)
    return files.map(({ name, sha256 }) => [name, sha256])
  })
  return Promise.all(steps)
}

/** The same jobs on one server that lives. */
async function quietRun(counts: readonly number[]): Promise<unknown> {
  const dataDir = await mkdtemp(join(tmpdir(), 'trainyard-quiet-'))
  onTestFinished(() => rm(dataDir, { recursive: true, force: true, maxRetries: 20 }))
  const server: KillableServer = await startKillableServer({ dataDir, threads: 1, trainWorkers: 2, keepOptimizers })
  onTestFinished(() => server.kill('SIGKILL'))
  const alone: Asking = { ask: (path, { json } = {}) => server.call(path, json) }
  const modelIds = await Promise.all(MODELS.map((name) => server.createModel(name)))
  return Promise.all(
    modelIds.map(async (id, i) => {
      for (let job = 0; job < (counts[i] ?? 0); job += 1) await untilEnd(alone, await submitTo(alone, id, '', job))
      return filesOf(alone, id, counts[i] ?? 0)
    }),
  )
}
