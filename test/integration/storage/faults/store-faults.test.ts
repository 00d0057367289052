/**
 * A service whose way to its bucket fails: cut in bodies either way, slow, answered with 500 and 503, refused, silent. What is acknowledged is in
 * the bucket, no byte is ever wrong, what cannot be done is answered with 503, and everything goes on by itself.
 */
import { createHash } from 'node:crypto'
import { rm } from 'node:fs/promises'
import type { IncomingMessage } from 'node:http'
import { join } from 'node:path'
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import { createRng } from '#base/util/rng.js'
import type { CheckpointFiles } from '#contract/wire/checkpoints.js'
import type { StorageReport } from '#contract/wire/health.js'
import type { TrainingJob } from '#contract/wire/training-jobs.js'
import { type Fault, type FaultyProxy, startFaultyProxy } from '../../../support/faulty-proxy.js'
import { S3_SERVERS, type S3Server } from '../../../support/local-s3.js'
import { createTestService, type TestRequest, type TestService } from '../../../support/service/create-test-service.js'
import { until } from '../../../support/until.js'

const JOBS = '/v1/preview/sft-training-jobs'
const STEPS = 20
// the one that people run, where it is installed
const kind = [...S3_SERVERS].reverse().find(({ isThere }) => isThere)

describe.skipIf(kind === undefined)('the way to the bucket', { timeout: 280_000 }, () => {
  let server: S3Server
  let proxy: FaultyProxy
  let service: TestService
  let count = 0
  const options = () => ({
    scripted: false,
    threads: 1,
    blobStore: `s3://data/yard${count}?endpoint=${proxy.url}&style=path`,
    seams: { environment: { ...process.env, ...server.environment } },
    tuning: { blobStore: { retryMs: 5, silenceMs: 1000 } },
  })

  beforeAll(async () => {
    server = await (kind ?? expect.fail()).start()
    await server.makeBucket('data')
  })
  afterAll(() => server?.stop())
  beforeEach(async () => {
    count += 1
    proxy = await startFaultyProxy(server.endpoint)
    service = await createTestService(options())
  })
  afterEach(async () => {
    proxy.choose(() => null)
    await service.dispose()
    await proxy.stop()
  })

  /** Asks until it is answered with 200; whatever else comes says that the bucket is away. */
  const ask = <T>(path: string, request?: TestRequest): Promise<T> =>
    until(async () => {
      const response = await service.fetch(path, request)
      const text = await response.text()
      if (response.status === 200) return JSON.parse(text) as T & object
      expect([response.status, text]).toEqual([503, expect.stringContaining('blob store')])
      return null
    }, `an answer of ${path}`)

  const upload = (seed: number): Promise<{ id: string }> =>
    ask('/v1/files?filename=rows.jsonl', { method: 'POST', body: rowsOf(seed) })
  const submit = (modelId: string, fileId: string, key: string): Promise<{ id: string }> =>
    ask(JOBS, {
      json: { model_id: modelId, training_data_url: fileId, config: { batch_size: 1, learning_rate: 1e-3 } },
      headers: { 'idempotency-key': key },
    })
  const chat = (): Promise<unknown> =>
    ask('/v1/chat/completions', {
      json: { model: 'm', messages: [{ role: 'user', content: 'Count.' }], max_tokens: 4, temperature: 0 },
    })
  async function eventTypesOf(jobId: string): Promise<string[]> {
    return (await service.allEvents(jobId)).map(({ type }) => type)
  }
  async function verify(): Promise<StorageReport> {
    const text = await (await service.fetch('/v1/preview/verify', { method: 'POST' })).text()
    const events = text.split('\n\n').filter((event) => event.includes('data: '))
    return JSON.parse(events.at(-1)?.split('data: ')[1] ?? '') as StorageReport
  }
  /** Every file of the step, compared with its digest. A download that breaks off is begun again, as clients do. */
  async function downloadAll(modelId: string, step: number): Promise<void> {
    const path = `/v1/preview/models/${modelId}/checkpoints/${step}/files`
    const { files } = await ask<CheckpointFiles>(path)
    expect(files.length).toBeGreaterThan(2)
    for (const { name, sha256 } of files) {
      await until(async () => {
        const response = await service.fetch(`${path}/${name}`)
        if (response.status !== 200) {
          expect([response.status, await response.text()]).toEqual([503, expect.stringContaining('blob store')])
          return false
        }
        const bytes = Buffer.from(await response.arrayBuffer())
        expect(createHash('sha256').update(bytes).digest('hex')).toBe(sha256)
        return true
      }, name)
    }
  }

  const FAULTS: readonly (readonly [string, Fault])[] = [
    ['answered with 500', { kind: 'answer', status: 500 }],
    ['answered with 503', { kind: 'answer', status: 503, body: '<Error><Code>SlowDown</Code></Error>' }],
    ['refused', { kind: 'refuse' }],
    ['done without an answer', { kind: 'lose answer' }],
    ['cut in the body of its answer', { kind: 'cut', afterBytes: 100 }],
    ['cut in its own body', { kind: 'cut upload', afterBytes: 100 }],
    ['given other bytes', { kind: 'damage' }],
    ['slow', { kind: 'slow', delayMs: 20 }],
  ]
  it.each(FAULTS)('where one in three requests is %s: jobs end once, and no byte is wrong', async (_, fault) => {
    const rng = createRng(7)
    const model = await service.createModel('m')
    const failing = (_request: IncomingMessage): Fault | null => (rng.uniform() < 1 / 3 ? fault : null)
    proxy.choose(failing)
    const { id: fileId } = await upload(1)
    const { id } = await submit(model, fileId, 'first')
    expect(await service.waitForJob(id)).toMatchObject({ status: 'completed', step: 1 })
    expect(await eventTypesOf(id)).toEqual(ALL_EVENTS)
    const said = await chat()
    proxy.choose(() => null)
    // nothing of the bucket is copied here any more
    await service.close(5000)
    await rm(join(service.dataDir, 'cache'), { recursive: true })
    service = await service.restart(options())
    proxy.choose(failing)
    expect((await chat()) as object).toMatchObject({ choices: (said as { choices: object }).choices })
    await downloadAll(model, 1)
    proxy.choose(() => null)
    expect(await verify()).toMatchObject({ ok: true, missing: [], damaged: [] })
  })

  it.each([
    ['refused', { kind: 'refuse' }],
    ['silent', { kind: 'silence' }],
  ] as const)(
    '%s while a job trains: chats go on, uploads are told, and the job ends once when it is back',
    async (_, fault) => {
      const model = await service.createModel('m')
      const { id: fileId } = await upload(1)
      const first = await submit(model, fileId, 'first')
      await service.waitForJob(first.id)
      await chat()
      const second = await submit(model, fileId, 'second')
      await until(async () => (await eventTypesOf(second.id)).includes('gradient_step'), 'a step of the job')
      proxy.choose(() => fault)
      await chat()
      const refused = await service.fetch('/v1/files?filename=rows.jsonl', { method: 'POST', body: rowsOf(2) })
      expect([refused.status, await refused.text()]).toEqual([503, expect.stringContaining('blob_store_unavailable')])
      expect(Number(refused.headers.get('retry-after'))).toBeGreaterThan(0)
      await chat()
      const { body: waiting } = await service.json<TrainingJob>(`/v1/preview/training-jobs/${second.id}`)
      expect(waiting.status).toBe('running')
      proxy.choose(() => null)
      expect(await service.waitForJob(second.id)).toMatchObject({ status: 'completed', attempt: 1, step: 2 })
      expect(await eventTypesOf(second.id)).toEqual(ALL_EVENTS)
      await upload(2)
      expect(await verify()).toMatchObject({ ok: true, missing: [], damaged: [] })
    },
  )
})

const ALL_EVENTS = ['training_started', ...Array<string>(STEPS).fill('gradient_step'), 'training_ended']

function rowsOf(seed: number): string {
  const row = (i: number) => ({
    messages: [
      { role: 'user', content: `What is ${1000 * seed + i}?` },
      { role: 'assistant', content: `It is ${1000 * seed + i}.` },
    ],
  })
  return Array.from({ length: STEPS }, (_, i) => JSON.stringify(row(i))).join('\n')
}
