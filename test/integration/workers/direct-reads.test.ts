/**
 * Workers and engine nodes that read files from the bucket: by addresses that the server signs, without their key, and through the server where
 * the bucket is not reached.
 */
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import { AppError } from '#base/errors/errors.js'
import { createDirectReads } from '#base/util/direct-reads.js'
import type { TrainingJob } from '#contract/wire/training-jobs.js'
import { type Fault, type FaultyProxy, startFaultyProxy } from '../../support/faulty-proxy.js'
import { S3_SERVERS, type S3Server } from '../../support/local-s3.js'
import { createTestService, type TestService } from '../../support/service/create-test-service.js'
import { startWorkerProcess, type WorkerProcess } from '../../support/service/worker-process.js'

const kind = S3_SERVERS.findLast(({ isThere }) => isThere)
const ROWS = Array.from({ length: 6 }, (_, i) =>
  JSON.stringify({ messages: ['user', 'assistant'].map((role) => ({ role, content: `${role} ${i}` })) }),
)

describe.skipIf(kind === undefined)('large files of other machines', () => {
  let server: S3Server
  let proxy: FaultyProxy
  let directory: string
  let service: TestService
  let processes: WorkerProcess[]
  let count = 0
  /** Requests of signed addresses: the path, and whether a key came along. */
  let signed: { readonly path: string; readonly hasKey: boolean }[]
  let fault: Fault | null

  beforeAll(async () => {
    server = await (kind ?? expect.fail()).start()
    await server.makeBucket('data')
  })
  afterAll(() => server.stop())
  beforeEach(async () => {
    count += 1
    ;[signed, processes, fault] = [[], [], null]
    directory = await mkdtemp(join(tmpdir(), 'trainyard-direct-'))
    proxy = await startFaultyProxy(server.endpoint)
    proxy.choose(({ url = '', headers }) => {
      if (!url.includes('X-Amz-Signature=')) return null
      signed.push({ path: url.split('?')[0] ?? '', hasKey: headers.authorization !== undefined })
      return fault
    })
    service = await createTestService({
      scripted: false,
      trainWorkers: 0,
      threads: 1,
      engines: 'remote',
      blobStore: `s3://data/p${count}?endpoint=${proxy.url}&style=path&direct=true`,
      tuning: { blobStore: { directBytes: 1 }, plugins: { 'engine-nodes': { reportMs: 50 } } },
      seams: { environment: { ...process.env, ...server.environment } },
    })
  })
  afterEach(async () => {
    for (const { child } of processes) child.kill('SIGKILL')
    await Promise.all(processes.map(({ ended }) => ended))
    await service.dispose()
    await proxy.stop()
    await rm(directory, { recursive: true, force: true, maxRetries: 20 })
  })

  async function startProcess(
    command: 'worker' | 'engine-node',
    flags: readonly string[],
    folder: string = command,
  ): Promise<WorkerProcess> {
    const { body } = await service.json<{ key: string }>('/v1/preview/keys', { json: { scope: 'worker' } })
    const started = startWorkerProcess({
      ...{ url: service.url, key: body.key, command },
      directory: join(directory, folder),
      flags: [...flags, '--name', 'far'],
    })
    processes.push(started)
    return started
  }

  async function train(model: string, step: number): Promise<void> {
    const data = `data:application/jsonl;base64,${Buffer.from(ROWS.join('\n')).toString('base64')}`
    const config = { batch_size: 2, learning_rate: 1e-3, seed: step }
    const json = { model_id: model, training_data_url: data, config }
    const { body } = await service.json<TrainingJob>('/v1/preview/sft-training-jobs', { json })
    expect(await service.waitForJob(body.id)).toMatchObject({ status: 'completed', step })
  }

  async function filesOf(model: string, step: number): Promise<readonly { name: string; sha256: string }[]> {
    const path = `/v1/preview/models/${model}/checkpoints/${step}/files`
    const { body } = await service.json<{ files: { name: string; sha256: string }[] }>(path)
    return body.files.map(({ name, sha256 }) => ({ name, sha256 }))
  }

  const pathOf = (sha256: string): string => `/data/p${count}/sha256/${sha256.slice(0, 2)}/${sha256.slice(2)}`

  it('come from the bucket without the key, and through the server where that is not reached, said once', async () => {
    const first = await startProcess('worker', [])
    const model = await service.createModel('direct')
    await train(model, 1)
    // what a worker has written it does not fetch: another one goes on
    first.child.kill('SIGKILL')
    await first.ended
    const worker = await startProcess('worker', [], 'another')
    await train(model, 2)
    const paths = new Set(signed.map(({ path }) => path))
    const parent = await filesOf(model, 1)
    const adapter = parent.find(({ name }) => name === 'adapter_model.safetensors')
    expect(paths).toContain(pathOf(adapter?.sha256 ?? ''))
    // the rows of both jobs, which are the same
    expect(signed.length).toBeGreaterThan(2)
    expect(signed.every(({ hasKey }) => !hasKey)).toBe(true)
    fault = { kind: 'refuse' }
    const before = signed.length
    const other = await service.createModel('through')
    await train(other, 1)
    await train(other, 2)
    expect(signed.length).toBe(before + 1)
    expect(await filesOf(other, 1)).toEqual(parent)
    expect(await filesOf(other, 2)).toEqual(await filesOf(model, 2))
    expect(worker.stderr().split('the server is asked for the bytes instead').length).toBe(2)
  })

  it('whose bytes are damaged or cut on their way are had from the server: rows before one of them is trained on', async () => {
    const files: unknown[] = []
    for (const [name, kind] of [
      ['whole', null],
      ['damaged', { kind: 'damage' }],
      ['cut', { kind: 'cut', afterBytes: 40 }],
    ] as const) {
      fault = kind
      signed.length = 0
      // a new one, which knows of no trouble
      const worker = await startProcess('worker', [])
      const model = await service.createModel(name)
      await train(model, 1)
      expect(signed.length).toBeGreaterThan(0)
      if (kind !== null) expect(worker.stderr()).toContain('the server is asked for the bytes instead')
      files.push(await filesOf(model, 1))
      worker.child.kill('SIGKILL')
      await worker.ended
    }
    expect(files).toEqual(Array(3).fill(files[0]))
  })

  it('are adapters of an engine node, too', async () => {
    await startProcess('worker', [])
    const model = await service.createModel('served')
    await train(model, 1)
    const node = await startProcess('engine-node', ['--base-model', 'trainyard/tiny-random'])
    await node.heard('ready')
    signed.length = 0
    const json = { model: 'served:step1', messages: [{ role: 'user', content: 'Hi' }], max_tokens: 4 }
    expect((await service.json('/v1/chat/completions', { json })).status).toBe(200)
    const adapter = (await filesOf(model, 1)).find(({ name }) => name === 'adapter_model.safetensors')
    expect(signed).toContainEqual({ path: pathOf(adapter?.sha256 ?? ''), hasKey: false })
  })

  it('are had from the server by who does not say that it follows, and damaged ones are not taken for whole', async () => {
    const worker = await startProcess('worker', [])
    const model = await service.createModel('plain')
    await train(model, 1)
    worker.child.kill('SIGKILL')
    const { sha256 } = (await filesOf(model, 1))[0] ?? expect.fail()
    const told: string[] = []
    const direct = createDirectReads((reason) => told.push(reason))
    const redirect = (path: string) =>
      new Response(null, { status: 302, headers: { location: `${proxy.url}${path}`, 'x-content-sha256': sha256 } })
    proxy.choose(() => ({ kind: 'answer', status: 200, body: 'other bytes' }))
    const damaged = await direct.follow(redirect('/any'))
    const failed = await damaged?.arrayBuffer().catch((error: unknown) => error)
    expect(String(failed)).toContain('gives other bytes')
    // whoever tries again when a connection breaks tries again here, and asks the server
    expect(failed).not.toBeInstanceOf(AppError)
    expect(direct.headers()).toEqual({})
    expect(told).toEqual([expect.stringMatching(/gives other bytes.*the server is asked for the bytes instead/)])
    told.length = 0
    const refused = createDirectReads((reason) => told.push(reason))
    proxy.choose(() => ({ kind: 'answer', status: 403 }))
    expect(await refused.follow(redirect('/any'))).toBeNull()
    expect(await refused.follow(redirect('/any'))).toBeNull()
    expect(told).toEqual([`${proxy.url} answers 403: the server is asked for the bytes instead`])
    expect(refused.headers()).toEqual({})
    const without = new Response(null, { status: 302, headers: { location: `${proxy.url}/any` } })
    expect(await createDirectReads((reason) => told.push(reason)).follow(without)).toBeNull()
    expect(told.at(-1)).toContain('named no digest')
    proxy.choose(() => null)
  })
})
