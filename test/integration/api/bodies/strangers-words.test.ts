/**
 * What workers of other machines and training loops send, in sizes that nothing honest has: refused by name before it costs anybody, and lists of jobs stay small. Stand-in children.
 */
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { packageVersion } from '#base/util/package-root.js'
import type { TrainingJob } from '#contract/wire/training-jobs.js'
import { createTestService, sampleGroup, type TestService } from '../../../support/service/create-test-service.js'
import { startRawRequest } from '../../../support/service/raw-request.js'
import { encodeLossCall, openTinker, plainRows } from '../../../support/tinker/tinker-client.js'
import { until } from '../../../support/until.js'

const JOBS = '/v1/preview/training-jobs'
const MB = 1024 ** 2

let service: TestService
let key: string
beforeAll(async () => {
  service = await createTestService({ trainWorkers: 0 })
  key = (await service.createKey({ scope: 'worker' })).key
})
afterAll(() => service.dispose())

const WORKER = {
  id: 'worker-of-a-test',
  name: 'w',
  trainer: 'onnx',
  device: 'cpu',
  versions: { trainyard: packageVersion() },
}
const claim = (worker: object) =>
  service.json<{ claim: { job_id: string; attempt: number; token: string } | null }>('/internal/worker/claims', {
    json: { worker: { ...WORKER, ...worker }, wait_seconds: 30 },
    headers: { authorization: `Bearer ${key}` },
  })
const REPORT = {
  left_out: [],
  tokens: 1,
  trained_tokens: 1,
  seconds: { gradient: 1 },
  validation: [],
  kept_gradient_step: null,
  stopped_early: false,
  facts: {},
  remaining_seconds: null,
  warnings: [],
}

describe('words of a worker', () => {
  let post: (path: string, json: object) => Promise<{ status: number; body: unknown }>
  let jobId: string
  beforeAll(async () => {
    const model = await service.createModel()
    const { body: job } = await service.json<TrainingJob>(JOBS, {
      json: { model_id: model, trajectory_groups: [sampleGroup()] },
    })
    jobId = job.id
    const { body } = await claim({})
    const { token, attempt } = body.claim ?? { token: '', attempt: 0 }
    const headers = { authorization: `Bearer ${token}`, 'x-trainyard-attempt': String(attempt) }
    post = (path, json) => service.json(`/internal/worker/jobs/${jobId}${path}`, { json, headers })
  })
  const events = (report: object) => post('/events', { offset: 0, events: [], report: { ...REPORT, ...report } })

  it('of 19,000 versions are refused', async () => {
    const versions = Object.fromEntries(Array.from({ length: 19_000 }, (_, i) => [`v${i}`, 'x']))
    const { status, body } = await claim({ id: 'another-worker', versions: { ...WORKER.versions, ...versions } })
    expect([status, JSON.stringify(body)]).toEqual([422, expect.stringContaining('at most 64 entries')])
  })

  it.each<[string, object]>([
    ['a warning of seven megabytes', { warnings: ['x'.repeat(7 * MB)] }],
    ['a name of a figure of a megabyte', { seconds: { ['x'.repeat(MB)]: 1 } }],
    ['ten thousand topics', { facts: Object.fromEntries(Array.from({ length: 10_000 }, (_, i) => [i, {}])) }],
    [
      'two thousand and one measurements',
      { validation: Array.from({ length: 2001 }, () => ({ gradient_step: 1, loss: 1 })) },
    ],
    [
      'as many sentences as fit nowhere else',
      {
        warnings: Array.from({ length: 100 }, () => 'x'.repeat(4000)),
        left_out: Array.from({ length: 50 }, () => ({
          reason: 'r',
          count: 1,
          examples: Array.from({ length: 100 }, () => 'x'.repeat(400)),
        })),
      },
    ],
  ])('of %s are refused', async (_, report) => {
    expect((await events(report)).status).toBe(422)
  })

  it('in a failure of seven megabytes are refused', async () => {
    expect((await post('/fail', { code: 'x', message: 'x'.repeat(7 * MB) })).status).toBe(422)
  })

  it('as large as they may be are the job’s, and a list has the end of them', async () => {
    const validation = Array.from({ length: 2000 }, (_, i) => ({ gradient_step: i, loss: 1 }))
    expect((await events({ validation })).status).toBe(200)
    const job = (await service.json<TrainingJob>(`${JOBS}/${jobId}`)).body
    expect(job.report?.validation).toHaveLength(2000)
    const listed = (await service.json<{ data: TrainingJob[] }>(JOBS)).body.data.find(({ id }) => id === jobId)
    expect(listed?.report?.validation).toEqual(validation.slice(-20))
    expect((await events({ warnings: Array.from({ length: 90 }, () => 'x'.repeat(4000)) })).status).toBe(200)
    expect(JSON.stringify((await service.json(JOBS)).body).length).toBeLessThan(20_000)
  })
})

describe('rows of a training loop', () => {
  const send = (body: Uint8Array) =>
    service.json<{ request_id: string; detail: string }>('/api/v1/forward_backward', {
      method: 'POST',
      body,
      headers: { 'content-type': 'application/x-protobuf' },
    })
  const head = (modelId: string) => encodeLossCall(modelId, 1, { loss: 'cross_entropy', data: plainRows([[1, 2, 3]]) })

  it('of a run that is not there are refused before they are sent', async () => {
    const refused = startBytes(31 * MB)
    refused.socket.write(head('nobody:train:0'))
    expect(await refused.answer).toMatch(/^HTTP\/1.1 404 .*training_run_not_found/s)
  })

  it('without a run’s name at their beginning are refused before they are sent', async () => {
    const refused = startBytes(31 * MB)
    refused.socket.write(Uint8Array.of(0x1a, 0, 0x1a, 0))
    expect(await refused.answer).toMatch(/^HTTP\/1.1 (?:400|422) .*must begin with model_id/s)
  })

  function startBytes(length: number): ReturnType<typeof startRawRequest> {
    return startRawRequest(service, '/api/v1/forward_backward', length, 'application/x-protobuf')
  }

  it('of fifteen million empty ones fail under their number', async () => {
    const trained = await createTestService()
    try {
      const client = await openTinker(trained)
      const run = await client.createRun()
      const empty = new Uint8Array(31 * MB)
      for (let at = 0; at < empty.length; at += 2) empty[at] = 0x1a
      const sent = await trained.json<{ request_id: string }>('/api/v1/forward_backward', {
        method: 'POST',
        body: new Uint8Array(Buffer.concat([head(run.id), empty])),
        headers: { 'content-type': 'application/x-protobuf' },
      })
      expect(sent.status).toBe(200)
      const outcome = await until(() => client.result(sent.body.request_id), 'the end of the request')
      expect(JSON.stringify(outcome)).toContain('more than 32768 rows')
    } finally {
      await trained.dispose()
    }
  })

  it('that are no request are refused', async () => {
    expect((await send(Uint8Array.of(0x0a))).status).toBeGreaterThanOrEqual(400)
  })
})
