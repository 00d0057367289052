/**
 * A worker on another machine and its server, killed with `kill -9` at points of their protocol, by night at every one, while three jobs train:
 * each job has one terminal event, every step once, one checkpoint, and the bytes of a run where nothing happened.
 */
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { describe, expect, it, type TestContext } from 'vitest'
import type { TrainingJob } from '#contract/wire/training-jobs.js'
import { type KillableServer, startKillableServer } from '../../support/service/killable-server.js'
import { type KillingProxy, type KillPoint, startKillingProxy } from '../../support/service/killing-proxy.js'
import { startWorkerProcess, type WorkerProcess } from '../../support/service/worker-process.js'
import { until } from '../../support/until.js'

const STEPS = 40
const JOBS = '/v1/preview/training-jobs'
/** Short, so that a killed worker's job is soon taken up; long enough for a living one on a busy machine. */
const LEASE_MS = 8000
/** Five processes may start at once, and load what they compute with. */
const START_MS = 25_000

/**
 * Between two rounds each job makes steps. A round kills twice at most: three losses in a row without a new event end a job.
 * What comes at the start of an attempt only needs an attempt that was killed before it.
 */
const ROUNDS: readonly (readonly KillPoint[])[] = [
  [{ victim: 'worker', at: 'base-model-file', when: 'after' }],
  [
    { victim: 'worker', at: 'events', when: 'after' },
    { victim: 'worker', at: 'claims', when: 'after' },
  ],
  [
    { victim: 'worker', at: 'events', when: 'before' },
    { victim: 'worker', at: 'job', when: 'after' },
  ],
  [
    { victim: 'worker', at: 'resume', when: 'after' },
    { victim: 'worker', at: 'input', when: 'after' },
  ],
  [
    { victim: 'worker', at: 'resume', when: 'before' },
    { victim: 'server', at: 'claims', when: 'after' },
  ],
  [{ victim: 'server', at: 'events', when: 'after' }],
  [{ victim: 'server', at: 'events', when: 'before' }],
  [{ victim: 'server', at: 'resume', when: 'after' }],
  [{ victim: 'server', at: 'heartbeat', when: 'before' }],
]
/** `KILL_POINTS=all` takes every round; else each third, of which the last kills the server. */
const TAKEN = process.env['KILL_POINTS'] === 'all' ? ROUNDS : ROUNDS.filter((_, i) => i % 3 === 2)
/** When the last steps are made. */
const ENDING: readonly KillPoint[] = [
  { victim: 'worker', at: 'files', when: 'after' },
  { victim: 'server', at: 'files', when: 'after' },
  { victim: 'worker', at: 'complete', when: 'before' },
  { victim: 'server', at: 'complete', when: 'after' },
  { victim: 'server', at: 'complete', when: 'before' },
]

/** A server and a worker, and who kills them: one for each test, as both wait most of their time and run side by side. */
interface Scene {
  /** That of the server that runs now. */
  readonly server: KillableServer
  readonly proxy: KillingProxy
  /** What the worker that runs now wrote. */
  workerErrors(): string | undefined
  startWorker(): void
  /** Resolves when it was killed there and started again. */
  dieAt(point: KillPoint): Promise<void>
  stepsOf(ids: readonly string[]): Promise<number[]>
  /** Digests of the last checkpoint of each model. */
  filesOf(modelIds: readonly string[], step?: number): Promise<unknown>
  /** Ends the server; the next one has another directory, and a worker of its own. */
  moveToQuietServer(): Promise<void>
}

async function createScene({ onTestFinished }: TestContext, leaseMs = LEASE_MS): Promise<Scene> {
  const directory = await mkdtemp(join(tmpdir(), 'trainyard-killed-'))
  let worker: WorkerProcess | null = null
  // each as soon as there is something to end, the last first: a start that fails leaves nothing behind
  onTestFinished(async () => {
    worker?.child.kill('SIGKILL')
    await worker?.ended
    await rm(directory, { recursive: true, force: true, maxRetries: 20 })
  })
  /** Kills, and starts again what was killed. */
  const proxy = await startKillingProxy(async ({ victim }) => {
    if (victim === 'worker') {
      worker?.child.kill('SIGKILL')
      await worker?.ended
      worker = null
    } else {
      proxy.target = null
      await server.kill('SIGKILL')
    }
  })
  onTestFinished(() => proxy.close())
  const startServer = async (apiKey: string | null): Promise<KillableServer> => {
    const started = await startKillableServer({
      dataDir: join(directory, 'data'),
      threads: 1,
      trainWorkers: 0,
      resumeIntervalMs: 0,
      tuning: { jobs: { leaseMs, startMs: START_MS } },
      ...(apiKey === null ? {} : { apiKey }),
    })
    proxy.target = started.url
    return started
  }
  let server = await startServer(null)
  onTestFinished(() => server.kill('SIGKILL'))
  const { key } = await server.call<{ key: string }>('/v1/preview/keys', { scope: 'worker' })

  function startWorker(): void {
    worker = startWorkerProcess({ url: proxy.url, key, directory, flags: ['--jobs', '3', '--name', 'box'] })
  }

  return {
    get server() {
      return server
    },
    proxy,
    workerErrors: () => worker?.stderr(),
    startWorker,
    async dieAt(point) {
      proxy.armed = point
      const { victim } = point
      const name = `${victim} killed ${point.when} ${point.at}`
      await until(() => (victim === 'worker' ? worker === null : proxy.target === null), name)
      if (victim === 'server') {
        await until(() => server.child.signalCode !== null, 'its death')
        server = await startServer(server.apiKey)
      } else startWorker()
    },
    stepsOf: async (ids) =>
      Promise.all(ids.map(async (id) => (await server.call<TrainingJob>(`${JOBS}/${id}`)).num_gradient_steps)),
    filesOf: async (modelIds, step = 1) => {
      const digests = modelIds.map(async (id) => {
        const path = `/v1/preview/models/${id}/checkpoints`
        const { data } = await server.call<{ data: { step: number }[] }>(path)
        expect(data.map((each) => each.step).sort()).toEqual(Array.from({ length: step }, (_, i) => i + 1))
        const { files } = await server.call<{ files: { name: string; sha256: string }[] }>(`${path}/${step}/files`)
        return files.map(({ name, sha256 }) => [name, sha256])
      })
      return Promise.all(digests)
    },
    async moveToQuietServer() {
      await server.kill('SIGTERM')
      server = await startKillableServer({ dataDir: join(directory, 'quiet'), threads: 1 })
    },
  }
}

async function killEverywhere(context: TestContext): Promise<void> {
  const scene = await createScene(context)
  const { proxy, dieAt, stepsOf } = scene
  const modelIds = await Promise.all(['a', 'b', 'c'].map((name) => scene.server.createModel(name)))
  const ids = await Promise.all(modelIds.map((id, i) => scene.server.submitRows(id, STEPS, { seed: i })))
  const allow = (count: number): void => {
    proxy.budget = new Map(ids.map((id) => [id, count]))
  }
  allow(0)
  scene.startWorker()
  for (const round of TAKEN) {
    // enough for the point to come, and not so much that the job ends before the next
    allow(2)
    for (const point of round) await dieAt(point)
    const before = await stepsOf(ids)
    allow(2)
    await until(
      async () => (await stepsOf(ids)).every((steps, i) => steps > (before[i] ?? 0)),
      `steps after ${JSON.stringify(round)}`,
    ).catch(async (error: unknown) => {
      const jobs = await Promise.all(ids.map((id) => scene.server.call<TrainingJob>(`${JOBS}/${id}`)))
      const states = jobs.map((job) => [job.status, job.attempt, job.num_gradient_steps, job.error_message])
      throw new Error(`${JSON.stringify(states)}, ${scene.workerErrors()}`, { cause: error })
    })
  }
  expect(Math.max(...(await stepsOf(ids)))).toBeLessThan(STEPS)
  proxy.budget = null
  for (const point of ENDING) await dieAt(point)
  const jobs = await Promise.all(ids.map((id) => scene.server.untilEnd(id)))
  expect(jobs.map(({ status, worker: by }) => [status, by?.name])).toEqual(ids.map(() => ['completed', 'box']))
  for (const id of ids) {
    const types = (await scene.server.eventsOf(id)).map(({ type }) => type)
    expect(types).toEqual(['training_started', ...Array(STEPS).fill('gradient_step'), 'training_ended'])
  }
  const killed = await scene.filesOf(modelIds)

  await scene.moveToQuietServer()
  const quietIds = await Promise.all(['a', 'b', 'c'].map((name) => scene.server.createModel(name)))
  for (const [i, id] of quietIds.entries()) {
    await scene.server.untilEnd(await scene.server.submitRows(id, STEPS, { seed: i }))
  }
  expect(killed).toEqual(await scene.filesOf(quietIds))
}

/** A job whose worker fetches other checkpoints: the one it goes on from, and the one it is held close to. */
async function submitPairs(server: KillableServer, modelId: string): Promise<string> {
  const answer = (content: string) => [{ role: 'assistant', content }]
  const row = (i: number) => ({
    input: { messages: [{ role: 'user', content: `What is ${1000 + i}?` }] },
    preferred_output: answer(`It is ${1000 + i}.`),
    non_preferred_output: answer('No idea.'),
  })
  const lines = [0, 1, 2, 3].map((i) => JSON.stringify(row(i))).join('\n')
  const data = `data:application/jsonl;base64,${Buffer.from(lines).toString('base64')}`
  const config = { batch_size: 1, seed: 4, reference_step: 1 }
  const json = { model_id: modelId, training_data_url: data, config }
  return (await server.call<{ id: string }>('/v1/preview/dpo-training-jobs', json)).id
}

/** Makes a checkpoint of each. */
async function begin(server: KillableServer, modelIds: readonly string[]): Promise<void> {
  for (const id of modelIds) await server.untilEnd(await server.submitRows(id, 2, { seed: 1 }))
}

/** Jobs that fetch it. */
async function goOn(server: KillableServer, [first, second]: readonly [string, string]): Promise<readonly string[]> {
  return [await server.submitRows(first, 4, { seed: 3 }), await submitPairs(server, second)]
}

async function killWhereCheckpointsAreFetched(context: TestContext): Promise<void> {
  // two kills of the worker leave one attempt, whose lease has to outlast the start of a server on a busy machine
  const scene = await createScene(context, 3 * LEASE_MS)
  const { dieAt } = scene
  const models = [await scene.server.createModel('a'), await scene.server.createModel('b')] as const
  scene.startWorker()
  await begin(scene.server, models)
  const first = dieAt({ victim: 'worker', at: 'parent', when: 'after' })
  const ids = await goOn(scene.server, models)
  await first
  await dieAt({ victim: 'worker', at: 'reference', when: 'after' })
  await dieAt({ victim: 'server', at: 'reference', when: 'before' })
  for (const id of ids) {
    expect(await scene.server.untilEnd(id)).toMatchObject({ status: 'completed' })
    expect((await scene.server.eventsOf(id)).filter(({ type }) => type === 'training_ended')).toHaveLength(1)
  }
  const killed = await scene.filesOf(models, 2)

  // what ONNX Runtime does not train in
  const model = await scene.server.createModel('c')
  const second = dieAt({ victim: 'worker', at: 'fail', when: 'before' })
  const failing = await scene.server.submitRows(model, 1, { precision: 'bf16' })
  await second
  await dieAt({ victim: 'server', at: 'fail', when: 'before' })
  const failed = await scene.server.untilEnd(failing)
  expect(failed).toMatchObject({ status: 'failed', error_code: 'precision_unavailable' })
  const types = (await scene.server.eventsOf(failing)).map(({ type }) => type)
  expect(types).toEqual(['training_started', 'training_failed'])

  await scene.moveToQuietServer()
  const quiet = [await scene.server.createModel('a'), await scene.server.createModel('b')] as const
  await begin(scene.server, quiet)
  for (const id of await goOn(scene.server, quiet)) await scene.server.untilEnd(id)
  expect(killed).toEqual(await scene.filesOf(quiet, 2))
}

describe.concurrent('of a killed worker and a killed server', { timeout: 900_000 }, () => {
  it('jobs end once, with the bytes of a run where nobody died', killEverywhere)
  it('so do those that fetch other checkpoints; one that fails fails once', killWhereCheckpointsAreFetched)
})
