/**
 * What workers and engine nodes say to a server, mutated: a worker of another machine holds a job and a training session with real
 * tokens, reports, stores files and ends them, and says all of it wrong; a node reports itself in the same way.
 */
import { createHash } from 'node:crypto'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { encodeFrame } from '#base/util/frame.js'
import type { JsonObject } from '#base/util/json.js'
import { createRng } from '#base/util/rng.js'
import type { Route } from '#contract/endpoints/table.js'
import { sessionReportSchema } from '#contract/processes/training-session.js'
import { encodeLossOutput } from '#formats/training-loop/results.js'
import { sampleGroup } from '../../../support/service/create-test-service.js'
import { ROUTES } from '../../../support/service/with-plugins.js'
import { openTinker, plainRows, type TestRun } from '../../../support/tinker/tinker-client.js'
import { until } from '../../../support/until.js'
import { countOf, expectFlat, type FuzzedService, type Held, IN_FLIGHT, SEED, startFuzzed } from './fuzzed-service.js'
import { createMutator, type KnownNames, type MutatedRequest, schemaOf } from './mutated-requests.js'

const COUNT = countOf(400, 0.1)
const INTERNAL = ROUTES.filter(({ tag }) => tag === null)
/** Reports have more in them than questions. */
const ASKED = [...INTERNAL, ...INTERNAL.filter(({ method }) => method !== 'GET')]
const BASE = 'trainyard/tiny-random'
const CLAIMS = '/internal/worker/claims'
/** A turn without an order, and a claim without a job, are answered late: the worker goes away. */
const LATE = /\/(?:turn|claims)$/
/** Whoever holds an attempt no longer holds it. */
const OVER = /stale_attempt|training_session_not_found/
const FILES = ['adapter_config.json', 'adapter_model.safetensors', 'optimizer.safetensors'] as const

let fuzzed: FuzzedService
let created = 0
const node = createServer((_, response) => {
  response.end(JSON.stringify({ id: 'node-of-the-fuzzer' }))
})
beforeAll(async () => {
  await new Promise<void>((resolve) => node.listen(0, '127.0.0.1', resolve))
  fuzzed = await startFuzzed(['--base-model', BASE, '--train-workers', '0', '--engines', 'remote'])
})
afterAll(async () => {
  await fuzzed.stop()
  node.close()
})

interface Attempt {
  readonly id: string
  readonly attempt: number
  readonly token: string
}

const sha256 = (bytes: Uint8Array | string): string => createHash('sha256').update(bytes).digest('hex')
const nodeUrl = (): string => `http://127.0.0.1:${(node.address() as AddressInfo).port}`

const proofOf = ({ attempt, token }: Attempt) => ({
  authorization: `Bearer ${token}`,
  'x-trainyard-attempt': String(attempt),
})
const endOf = (run: string): string => `/v1/preview/training-sessions/${encodeURIComponent(run)}/end`

/** A worker that may claim: each takes one job or session. */
async function createWorker(name: string, key: string) {
  const { version } = await fuzzed.service.api.call('GET', '/v1/health')
  const facts = { trainer: 'onnx', device: 'cpu', versions: { trainyard: version } }
  const worker = { id: `worker-${name}`, name, ...facts }
  const headers = { authorization: `Bearer ${key}` }
  // what it had is no loss that counts
  const left = { reason: 'it ends', is_orderly: true }
  const ask = (seconds: number) =>
    fuzzed.service.api.call('POST', CLAIMS, { worker, left, wait_seconds: seconds }, headers)
  return {
    facts,
    worker,
    /** Says that it is there. */
    ask,
    /** Gives back what it has. */
    async leave(): Promise<void> {
      await fuzzed.service.api.call('POST', CLAIMS, { worker, left, is_leaving: true }, headers)
    },
    /** What is of the other kind was left by requests before: it is ended, or it would come again and again. */
    async claim(isSession: boolean): Promise<Attempt> {
      const { api } = fuzzed.service
      const claim = await until(
        async () => {
          const { claim: given } = await ask(1)
          if (given === null || given.is_session === isSession) return given
          if (given.is_session) await api.call('POST', endOf(given.job_id))
          else {
            const proof = proofOf({ id: given.job_id, ...given })
            const why = { code: 'left', message: 'nobody wants it' }
            await api.call('POST', `/internal/worker/jobs/${given.job_id}/fail`, why, proof)
          }
          return null
        },
        `a ${isSession ? 'session' : 'job'} for ${name}`,
      )
      return { id: claim.job_id, attempt: claim.attempt, token: claim.token }
    },
  }
}

/** A job, and a worker that has it. */
async function createJob(claim: (isSession: boolean) => Promise<Attempt>, model: string): Promise<Attempt> {
  created += 1
  await fuzzed.service.api.call('POST', '/v1/preview/training-jobs', {
    model_id: model,
    // the same rows again would be the job that there is
    trajectory_groups: [sampleGroup([1, created])],
  })
  return claim(false)
}

/** Stores the files of a checkpoint. @returns their digests as the job's end has them */
async function storeFiles(job: Attempt): Promise<Record<string, JsonObject>> {
  const files: Record<string, JsonObject> = {}
  for (const name of FILES) {
    const body = Buffer.from(name.endsWith('.json') ? '{"r":4,"lora_alpha":32}' : `bytes of ${name} of ${job.id}`)
    const headers = { ...proofOf(job), 'x-content-sha256': sha256(body) }
    const address = `/internal/worker/jobs/${job.id}/files/${name}`
    await fuzzed.send({ method: 'PUT', address, body, headers }, job.token)
    files[name] = { sha256: sha256(body), size_bytes: body.length }
  }
  return files
}

it('a session’s worker reads the files of its session, and no others by their digest', async () => {
  const { api, url, key } = fuzzed.service
  const { key: workerKey } = await api.call('POST', '/v1/preview/keys', { name: 'reader', scope: 'worker' })
  const worker = await createWorker('that-reads', workerKey)
  await worker.ask(0)
  const run = await (await openTinker({ url, apiKey: key })).createRun()
  await run.send({ loss: 'cross_entropy', data: plainRows([[1, 2, 3, 4]]) })
  const session = await worker.claim(true)
  const row = { messages: ['user', 'assistant'].map((role) => ({ role, content: 'a' })) }
  await api.uploadRows([row])
  const at = `/internal/worker/sessions/${encodeURIComponent(session.id)}/files`
  for (const name of [sha256(JSON.stringify(row)), sha256('nothing'), 'adapter_model.safetensors', '%00']) {
    const answer = await fuzzed.send({ method: 'GET', address: `${at}/${name}`, headers: proofOf(session) }, null)
    expect([name, answer.status, answer.bytes.toString()]).toEqual([
      name,
      404,
      expect.stringContaining('file_not_found'),
    ])
  }
  await api.call('POST', endOf(run.id))
})

it(`takes ${COUNT} mutated words of workers and nodes without a fault`, {
  timeout: 120_000 + COUNT * 200,
}, async () => {
  const mutator = createMutator(createRng(SEED))
  const { chance, pick, bytes } = mutator
  const { service } = fuzzed
  const { key } = await service.api.call('POST', '/v1/preview/keys', { name: 'workers', scope: 'worker' })
  const [jobs, sessions, nobody] = [
    await createWorker('of-jobs', key),
    await createWorker('of-sessions', key),
    // whom mutated claims are of
    await createWorker('of-nobody', key),
  ]
  const { digest } = await service.api.call('GET', `/internal/engine/base-models/${encodeURIComponent(BASE)}`)
  const data = plainRows([[1, 2, 3, 4]])
  let round = 0
  let run: TestRun
  let session = await createSession()
  let files: Record<string, JsonObject> = {}
  let job = await createHeldJob()
  let order = 1

  async function createSession(): Promise<Attempt> {
    // runs are for workers that the server knows
    await sessions.ask(0)
    const client = await openTinker({ url: service.url, apiKey: service.key })
    run = await client.createRun()
    await run.send({ loss: 'cross_entropy', data })
    return sessions.claim(true)
  }

  /** With files that are stored, and no adapter: its end is refused for it. */
  async function createHeldJob(): Promise<Attempt> {
    const model = await service.api.createModel(`held-${round++}`, BASE)
    const held = await createJob(jobs.claim, model.id)
    files = await storeFiles(held)
    return held
  }

  function namesFor(route: Route): KnownNames {
    const isNode = route.path.startsWith('/internal/engine')
    return {
      job_id: job.id,
      session_id: session.id,
      file: route.path.includes('base-model') ? 'config.json' : pick(FILES),
      base_model: isNode && route.method === 'POST' ? { name: BASE, digest } : BASE,
      digest,
      // its own, or jobs that others hold would be given away
      worker: { ...nobody.worker, trainers: ['onnx'], memory_bytes: null },
      wait_seconds: 0,
      computing: jobs.facts,
      versions: jobs.facts.versions,
      offset: () => pick([0, 0, 0, 1]),
      files: () => files,
      id: 'node-of-the-fuzzer',
      url: nodeUrl(),
      token: 't'.repeat(43),
      engine: 'onnx',
      adapters: [],
      order: () => (chance(0.8) ? order : null),
    }
  }

  /** A report of a session's worker, with what the order came to behind it. */
  function turnBody(known: KnownNames): Uint8Array {
    const fits = mutator.fitting(schemaOf(sessionReportSchema), known)
    const head = chance(0.5) ? fits : mutator.mutated(fits)
    const output = encodeLossOutput({ logprobs: [Float32Array.of(-1, -2, -3)], metrics: { 'loss:sum': 1 } })
    const whole = encodeFrame(head as object, chance(0.7) ? output : bytes.damaged(output))
    return chance(0.7) ? whole : bytes.damaged(whole)
  }

  const attemptOf = ({ path }: Route): Attempt => (path.includes('{session_id}') ? session : job)
  function withProof(route: Route, sent: MutatedRequest): MutatedRequest {
    const known = namesFor(route)
    const isTurn = route.path.endsWith('/turn')
    const body = isTurn ? turnBody(known) : sent.body
    const { token, attempt } = attemptOf(route)
    const digests = () => pick([sha256(''), 'A'.repeat(64), '', '0'.repeat(64)])
    const counts = () => String(pick([0, 0, 1, -1, 1e15, 'x', '']))
    const headers = {
      authorization: `Bearer ${chance(0.96) ? token : pick(['x', '', key])}`,
      'x-trainyard-attempt': String(chance(0.96) ? attempt : pick([0, -1, attempt + 1, 'x', 2 ** 53])),
      'x-content-sha256': chance(0.8) ? sha256(body ?? '') : digests(),
      'x-trainyard-events': counts(),
      'x-trainyard-groups': counts(),
      'x-trainyard-trajectories': counts(),
    }
    const address =
      route.method === 'PUT' && route.path.includes('{session_id}') && chance(0.7)
        ? sent.address.replace(/[^/]*$/, sha256(body ?? ''))
        : sent.address
    return { ...sent, address, ...(body === undefined ? {} : { body }), headers }
  }

  /** What the answer means for what is held. @returns whether the attempt is over */
  function note(route: Route, sent: MutatedRequest, status: number, answer: Buffer): boolean {
    if (route.path.endsWith('/turn') && status === 200) {
      order = Number(/"order":(\d+)/.exec(answer.subarray(0, 500).toString())?.[1] ?? order)
      return answer.subarray(0, 100).includes('"close"')
    }
    const isEnd = /\/(?:complete|fail)$/.test(route.path) && status === 200
    const isProven = sent.headers?.['x-trainyard-attempt'] === String(attemptOf(route).attempt)
    return (
      isEnd ||
      (isProven && sent.address.includes(encodeURIComponent(attemptOf(route).id)) && OVER.test(answer.toString()))
    )
  }

  const marks: Held[] = []
  const markAt = [0.1, 0.5, 1].map((share) => Math.floor(COUNT * share))
  for (let i = 0; i < COUNT; i += IN_FLIGHT) {
    const over = new Set<'job' | 'session'>()
    await Promise.all(
      Array.from({ length: Math.min(IN_FLIGHT, COUNT - i) }, async (_, at) => {
        const route = ASKED[(i + at) % ASKED.length] as Route
        // ends are rare, or little would come of what is between, and each that names files is checked by a process
        if (/\/(?:complete|fail)$/.test(route.path) && chance(0.8)) return
        const made = mutator.next(route, namesFor(route))
        const sent = route.scope === 'attempt' ? withProof(route, made) : made
        const late = LATE.test(route.path) ? { patienceMs: 300 } : {}
        const { status, bytes: answer } = await fuzzed.ask(route, sent, { i: i + at, key, ...late })
        if (note(route, sent, status, answer)) over.add(attemptOf(route) === job ? 'job' : 'session')
      }),
    )
    // what mutated claims took comes back
    await nobody.leave()
    if (over.has('session') || i % 400 === 392) {
      await service.api.call('POST', endOf(session.id))
      session = await createSession()
      order = 1
    } else await run!.send({ loss: 'cross_entropy', data })
    if (over.has('job') || i % 400 === 392) {
      job = await createHeldJob()
    }
    if (i + IN_FLIGHT >= (markAt[marks.length] ?? Number.POSITIVE_INFINITY)) {
      marks.push(await fuzzed.resources())
      console.log(i, JSON.stringify(marks.at(-1)))
    }
  }
  console.log(round, fuzzed.summary())
  expectFlat(marks[1] as Held, marks[2] as Held)
  expect((await fuzzed.send({ method: 'GET', address: '/v1/health' }, service.key)).status).toBe(200)
  expect(service.child.exitCode).toBe(null)
  for (const path of ['jobs/{job_id}/events', 'sessions/{session_id}/turn'])
    expect(fuzzed.routes.get(`POST /internal/worker/${path}`)?.answered, path).toBeGreaterThan(0)
})
