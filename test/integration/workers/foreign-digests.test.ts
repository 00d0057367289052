/**
 * A worker of another machine names digests of what it stored. Of another entity's bytes it knows nothing: named in the end of a job, or
 * in what a session saved, they make no checkpoint, and are no different from bytes that nobody has.
 */
import { createHash } from 'node:crypto'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { decodeFrame, encodeFrame } from '#base/util/frame.js'
import { packageVersion } from '#base/util/package-root.js'
import { createTestService, type TestService } from '../../support/service/create-test-service.js'
import { openTinker, type TestRun, type TinkerTestClient } from '../../support/tinker/tinker-client.js'
import { until } from '../../support/until.js'

interface Claim {
  readonly job_id: string
  readonly attempt: number
  readonly token: string
  readonly is_session: boolean
}
interface Named {
  readonly sha256: string
  readonly size_bytes: number
}

const NAMES = ['adapter_config.json', 'adapter_model.safetensors'] as const
const sha256 = (bytes: Uint8Array): string => createHash('sha256').update(bytes).digest('hex')
const named = (bytes: Uint8Array): Named => ({ sha256: sha256(bytes), size_bytes: bytes.length })

let service: TestService
/** Of the other entity, in whose checkpoints the bytes lie. */
let theirs: Readonly<Record<string, Buffer>>
let mallory: string
let workerKey: string

beforeAll(async () => {
  service = await createTestService({ scripted: false, threads: 1, trainWorkers: 1 })
  const model = await service.createModel('theirs')
  expect(await service.waitForJob(await submit(model, service.apiKey))).toMatchObject({ status: 'completed' })
  const files = NAMES.map(async (name) => {
    const response = await service.fetch(`/v1/preview/models/${model}/checkpoints/1/files/${name}`)
    return [name, Buffer.from(await response.arrayBuffer())] as const
  })
  theirs = Object.fromEntries(await Promise.all(files))
  service = await service.restart({ trainWorkers: 0 })
  mallory = (await service.createKey({ entity: 'mallory', scope: 'admin' })).key
  workerKey = (await service.createKey({ entity: 'mallory', scope: 'worker' })).key
}, 200_000)
afterAll(() => service?.dispose())

let count = 0
/** Rows of their own each: the same create again soon is the same job. */
async function submit(model: string, key: string): Promise<string> {
  count += 1
  const row = { messages: ['user', 'assistant'].map((role) => ({ role, content: `${role} says ${count}` })) }
  const url = `data:application/jsonl;base64,${Buffer.from(JSON.stringify(row)).toString('base64')}`
  const json = { model_id: model, training_data_url: url, config: { batch_size: 1, learning_rate: 1e-3 } }
  const headers = { authorization: `Bearer ${key}` }
  const { status, body } = await service.json<{ id: string }>('/v1/preview/sft-training-jobs', { json, headers })
  expect(status, JSON.stringify(body)).toBe(200)
  return body.id
}

/** Mallory's worker asks for work. */
async function ask(): Promise<Claim | null> {
  const worker = { id: 'a-worker-of-mallory', name: 'far', versions: { trainyard: packageVersion() } }
  const { body } = await service.json<{ claim: Claim | null }>('/internal/worker/claims', {
    json: {
      worker: { ...worker, trainer: 'onnx', device: 'cpu' },
      wait_seconds: 1,
      left: { reason: 'it ends', is_orderly: true },
    },
    headers: { authorization: `Bearer ${workerKey}` },
  })
  return body.claim
}

const proofOf = ({ attempt, token }: Claim) => ({
  authorization: `Bearer ${token}`,
  'x-trainyard-attempt': String(attempt),
})

/** What the other entity has, and what nobody has. */
const foreign: readonly [string, (name: string) => Named][] = [
  ['of another entity', (name) => named(theirs[name] as Buffer)],
  ['that nobody has', (name) => named(Buffer.from(`nobody's ${name}`))],
]

describe('the end of a job', () => {
  it.each(foreign)('names no bytes %s', async (_, digestOf) => {
    const headers = { authorization: `Bearer ${mallory}` }
    const json = { project: 'p', name: `m-${count}`, base_model: 'trainyard/tiny-random' }
    const { body: model } = await service.json<{ id: string }>('/v1/preview/models', { json, headers })
    const id = await submit(model.id, mallory)
    const claim = await until(ask, 'a claim of the job')
    expect(claim.job_id).toBe(id)
    const answer = await service.json<{ error?: { code: string; message: string } }>(
      `/internal/worker/jobs/${id}/complete`,
      {
        json: { files: Object.fromEntries(NAMES.map((name) => [name, digestOf(name)])), metrics: {} },
        headers: proofOf(claim),
      },
    )
    expect(answer).toMatchObject({
      status: 400,
      body: { error: { code: 'checkpoint_incomplete', message: expect.stringContaining('was not uploaded') } },
    })
    const checkpoints = `/v1/preview/models/${model.id}/checkpoints`
    expect((await service.json<{ data: object[] }>(checkpoints, { headers })).body.data).toEqual([])
    // the job is still its own
    const failed = await service.json(`/internal/worker/jobs/${id}/fail`, {
      json: { code: 'left', message: 'it ends' },
      headers: proofOf(claim),
    })
    expect(failed.status).toBe(200)
  })
})

describe('what a session saves', () => {
  let tinker: TinkerTestClient
  let run: TestRun
  let claim: Claim
  /** What the worker is told next. */
  let order: Promise<number>
  let saves = 0

  beforeAll(async () => {
    // a run is for workers that the server knows
    await ask()
    tinker = await openTinker({ url: service.url, apiKey: mallory })
    run = await tinker.createRun({ rank: 8 })
  })

  /** Reports, and is answered when there is something to save. @returns the number of that order */
  async function turn(report: object): Promise<number> {
    const path = `/internal/worker/sessions/${encodeURIComponent(claim.job_id)}/turn`
    const response = await service.fetch(path, {
      method: 'POST',
      body: encodeFrame(report),
      headers: proofOf(claim),
    })
    const bytes = new Uint8Array(await response.arrayBuffer())
    expect(response.status, Buffer.from(bytes).toString()).toBe(200)
    const { type, order: number } = decodeFrame(bytes).head as { type: string; order: number }
    return type === 'wait' ? turn({ order: null }) : number
  }

  const put = (body: Buffer): Promise<Response> =>
    service.fetch(`/internal/worker/sessions/${encodeURIComponent(claim.job_id)}/files/${sha256(body)}`, {
      method: 'PUT',
      body,
      headers: proofOf(claim),
    })

  /** The client saves; the worker stores some bytes, and says that it has stored these files. @returns what the client hears */
  async function save(files: readonly (Named & { readonly name: string })[], stored: readonly Buffer[]) {
    saves += 1
    const request = await run.post('save_weights_for_sampler', { path: `save-${saves}` })
    if (saves === 1) {
      claim = await until(ask, 'a claim of the session')
      expect(claim.is_session).toBe(true)
      order = turn({ order: null })
    }
    const number = await order
    for (const body of stored) expect((await put(body)).status).toBe(200)
    order = turn({ order: number, files })
    // the server ends while the last one is held
    order.catch(() => undefined)
    const outcome = await tinker.result(request)
    return 'json' in outcome ? outcome.json : outcome
  }

  it.each(foreign)('is not %s', async (_, digestOf) => {
    const files = NAMES.map((name) => ({ name, ...digestOf(name) }))
    expect(await save(files, [])).toMatchObject({ error: expect.stringContaining('was not stored') })
  })

  it('is not what another save stored, nor a part of an adapter', async () => {
    const files = NAMES.map((name) => ({ name, ...named(theirs[name] as Buffer) }))
    expect(await save(files.slice(0, 1), [theirs[NAMES[0]] as Buffer])).toMatchObject({
      error: expect.stringContaining(`"${NAMES[1]}" was not stored`),
    })
    expect(await save(files, [theirs[NAMES[1]] as Buffer])).toMatchObject({
      error: expect.stringContaining(`"${NAMES[0]}" was not stored`),
    })
  })

  it('is what its worker stored for it, and is stored for a save only', async () => {
    const stored = NAMES.map((name) => theirs[name] as Buffer)
    const files = NAMES.map((name) => ({ name, ...named(theirs[name] as Buffer) }))
    expect(await save(files, stored)).toMatchObject({ path: expect.stringContaining('save-') })
    const refused = await put(Buffer.from('more'))
    expect([refused.status, await refused.text()]).toEqual([409, expect.stringContaining('nothing_to_save')])
  })
})
