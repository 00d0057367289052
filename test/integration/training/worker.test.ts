/**
 * The training worker as a process, against a server that speaks the worker protocol and nothing else.
 *
 * The server is this test: it records what the worker sends and can refuse it, ask it to cancel, or disappear.
 */
import { type ChildProcess, spawn } from 'node:child_process'
import { createHash } from 'node:crypto'
import { once } from 'node:events'
import { mkdtemp, readdir, rm } from 'node:fs/promises'
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { buffer } from 'node:stream/consumers'
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest'
import type { JsonObject } from '#base/util/json.js'
import type { WorkerEvents, WorkerFailure, WorkerFolders, WorkerJob } from '#contract/processes/worker.js'
import { ensureTinyRandomModel } from '#model/built-in/tiny-random.js'
import { decodeAdapter } from '#model/weights/adapter.js'
import { createBaseModelFilesBook } from '#service/operations/base-models/base-model-files.js'
import { workerJob } from '../../support/model/worker-job.js'

const TOKEN = 'attempt-token'
const WORKER = new URL('../../../dist/bundles/training/worker/main.js', import.meta.url).pathname

let directory: string
let modelPath: string
const cleanups: (() => void)[] = []

beforeAll(async () => {
  directory = await mkdtemp(join(tmpdir(), 'trainyard-worker-'))
  modelPath = await ensureTinyRandomModel(join(directory, 'model'))
})
afterEach(() => {
  for (const cleanup of cleanups.splice(0)) cleanup()
})
afterAll(() => rm(directory, { recursive: true, force: true, maxRetries: 20 }))

interface Recorded {
  readonly events: WorkerEvents['events']
  readonly files: Map<string, Buffer>
  heartbeats: number
  readonly paths: string[]
  completion: JsonObject | null
  failure: WorkerFailure | null
  unauthorized: number
}

interface FakeOptions {
  readonly input: readonly unknown[]
  readonly job?: Partial<WorkerJob>
  readonly parentFiles?: ReadonlyMap<string, Uint8Array>
  /** How often the base model's weights come damaged. */
  readonly damagedWeights?: number
  /** Answers of the server that are not the usual ones. */
  readonly intercept?: (path: string, recorded: Recorded) => number | undefined
  readonly isCancelRequested?: (recorded: Recorded) => boolean
  readonly isStopRequested?: (recorded: Recorded) => boolean
}

async function startServer(options: FakeOptions): Promise<{ url: string; recorded: Recorded; server: Server }> {
  const recorded: Recorded = {
    events: [],
    files: new Map(),
    heartbeats: 0,
    paths: [],
    completion: null,
    failure: null,
    unauthorized: 0,
  }
  const job = workerJob(options.job ?? {})
  const book = createBaseModelFilesBook()
  const model = { name: 'tiny', sourcePath: modelPath }
  let cuts = options.damagedWeights ?? 0
  const handle = async (request: IncomingMessage, response: ServerResponse): Promise<void> => {
    const chunks: Buffer[] = []
    for await (const chunk of request) chunks.push(chunk)
    const body = Buffer.concat(chunks)
    const path = request.url!.replace('/internal/worker/jobs/job-1', '')
    const reply = (status: number, value: unknown = {}) =>
      response.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(value))
    if (request.headers.authorization !== `Bearer ${TOKEN}` || request.headers['x-trainyard-attempt'] !== '1') {
      recorded.unauthorized++
      return void reply(401)
    }
    recorded.paths.push(path)
    const refused = options.intercept?.(path, recorded)
    if (refused !== undefined) return void reply(refused)
    if (path === '') return void reply(200, job)
    if (path === '/input')
      return void response.writeHead(200).end(options.input.map((line) => `${JSON.stringify(line)}\n`).join(''))
    if (path.startsWith('/parent/')) {
      const bytes = options.parentFiles?.get(path.slice(8)) ?? Buffer.alloc(0)
      const headers = { 'x-content-sha256': createHash('sha256').update(bytes).digest('hex') }
      return void response.writeHead(200, headers).end(bytes)
    }
    if (path === '/base-model') return void reply(200, await book.describe(model))
    if (path.startsWith('/base-model/')) {
      const { stream, sha256 } = await book.open(model, path.slice('/base-model/'.length), 0)
      response.writeHead(200, { 'x-content-sha256': sha256 })
      // one byte of weights goes missing on the way, as often as the test wants
      const isCut = path.endsWith('.safetensors') && cuts-- > 0
      const bytes = await buffer(stream)
      return void response.end(isCut ? bytes.subarray(1) : bytes)
    }
    if (path === '/heartbeat') {
      recorded.heartbeats++
      return void reply(200, {
        is_cancel_requested: options.isCancelRequested?.(recorded) ?? false,
        is_stop_requested: options.isStopRequested?.(recorded) ?? false,
      })
    }
    if (path === '/events') {
      const { offset, events } = JSON.parse(body.toString()) as WorkerEvents
      recorded.events.splice(offset, events.length, ...events)
    } else if (path.startsWith('/files/')) {
      expect(request.headers['x-content-sha256']).toBe(createHash('sha256').update(body).digest('hex'))
      recorded.files.set(path.slice(7), body)
    } else if (path === '/complete') recorded.completion = JSON.parse(body.toString())
    else if (path === '/fail') recorded.failure = JSON.parse(body.toString())
    reply(200)
  }
  const server = createServer((request, response) => void handle(request, response))
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  cleanups.push(() => {
    server.close()
    server.closeAllConnections()
  })
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, recorded, server }
}

function startWorker(
  url: string,
  flags: readonly string[] = [],
  folders: Partial<WorkerFolders> = {},
): {
  child: ChildProcess
  ended: Promise<{ code: number | null; signal: string | null; stderr: string }>
} {
  const child = spawn(process.execPath, [...flags, WORKER], {
    env: {
      ...process.env,
      TRAINYARD_WORKER_URL: url,
      TRAINYARD_WORKER_TOKEN: TOKEN,
      TRAINYARD_WORKER_JOB: 'job-1',
      TRAINYARD_WORKER_ATTEMPT: '1',
      TRAINYARD_WORKER_PATIENCE_SECONDS: '3',
      TRAINYARD_WORKER_FOLDERS: JSON.stringify({
        base_model: modelPath,
        prepared: join(directory, 'prepared'),
        fetched: null,
        ...folders,
      }),
    },
    stdio: ['ignore', 'ignore', 'pipe'],
  })
  cleanups.push(() => child.kill('SIGKILL'))
  let stderr = ''
  child.stderr.on('data', (chunk) => {
    stderr += chunk
  })
  const ended = once(child, 'exit').then(([code, signal]) => ({ code, signal, stderr }))
  return { child, ended }
}

async function runWorker(options: FakeOptions, folders: Partial<WorkerFolders> = {}) {
  const { url, recorded } = await startServer(options)
  return { recorded, end: await startWorker(url, [], folders).ended }
}

const sftRows = Array.from({ length: 5 }, (_, i) => ({
  messages: [
    { role: 'user', content: `What is ${i}?` },
    { role: 'assistant', content: `It is ${i}.` },
  ],
}))

/** A job of many leases, whoever has to wait for a processor. */
const LONG = Array.from({ length: 5000 }, () => sftRows[0])
const LEASE_SECONDS = 3

function group(rewards: readonly number[]) {
  const ids = (text: string) => [...Buffer.from(text)]
  return {
    trajectories: rewards.map((reward, i) => ({
      reward,
      messages_and_choices: [
        { role: 'user', content: 'hi' },
        {
          finish_reason: 'stop',
          index: 0,
          message: { role: 'assistant', content: `answer ${i}` },
          prompt_token_ids: ids('hi there'),
          token_ids: ids(`answer ${i}`),
          logprobs: {
            content: ids(`answer ${i}`).map((id) => ({ token: `token_id:${id}`, logprob: -5.5, top_logprobs: [] })),
          },
        },
      ],
    })),
  }
}

describe('training worker', () => {
  it('trains an SFT job to a checkpoint: events in order, then files, then completion', async () => {
    const { recorded, end } = await runWorker({
      input: sftRows,
      job: { config: { batch_size: 2, learning_rate: 1e-3 } },
    })
    expect(end.stderr).toBe('')
    expect(end.code).toBe(0)
    expect(recorded.failure).toBeNull()
    expect(recorded.events.map(({ type }) => type)).toEqual(['training_started', ...Array(3).fill('gradient_step')])
    expect(recorded.events[0]!.data['num_sequences']).toBe(3)
    for (const { data } of recorded.events.slice(1)) {
      expect(Object.values(data).every(Number.isFinite)).toBe(true)
      expect(data).toMatchObject({ learning_rate: 1e-3, grad_norm: expect.any(Number), loss: expect.any(Number) })
    }
    expect([...recorded.files.keys()].sort()).toEqual([
      'adapter_config.json',
      'adapter_model.safetensors',
      'optimizer.safetensors',
    ])
    const adapter = decodeAdapter(recorded.files)
    expect(adapter.config).toMatchObject({ rank: 8, alpha: 16 })
    expect([...adapter.b.values()].some((b) => b.some((value) => value !== 0))).toBe(true)
    const stored = recorded.files.get('adapter_model.safetensors')!
    expect(recorded.completion).toMatchObject({
      files: {
        'adapter_model.safetensors': {
          size_bytes: stored.length,
          sha256: createHash('sha256').update(stored).digest('hex'),
        },
      },
      metrics: { 'loss/train': expect.any(Number) },
    })
    expect(recorded.unauthorized).toBe(0)
  })

  it('gives the same bytes when the job is run again', async () => {
    const job = { config: { learning_rate: [1e-3, 5e-4, 1e-4] } }
    const first = await runWorker({ input: sftRows, job })
    const second = await runWorker({ input: sftRows, job: { ...job, attempt: 1 } })
    for (const [name, bytes] of first.recorded.files) expect(second.recorded.files.get(name), name).toEqual(bytes)
  })

  it('fetches a base model that its machine has not, once, and then trains as where it lies', async () => {
    const job = { config: { learning_rate: 1e-3 } }
    const local = await runWorker({ input: sftRows, job })
    const folders = { base_model: null, prepared: join(directory, 'far-prepared'), fetched: join(directory, 'far') }
    // twice damaged on the way: asked for again
    const far = await runWorker({ input: sftRows, job, damagedWeights: 2 }, folders)
    expect(far.end).toEqual({ code: 0, signal: null, stderr: '' })
    expect(local.recorded.paths.filter((path) => path.startsWith('/base-model'))).toEqual([])
    for (const [name, bytes] of local.recorded.files) expect(far.recorded.files.get(name), name).toEqual(bytes)
    const again = await runWorker({ input: sftRows, job }, folders)
    expect(again.recorded.paths.filter((path) => path.startsWith('/base-model'))).toEqual(['/base-model'])
    expect(again.recorded.completion!['files']).toEqual(far.recorded.completion!['files'])
    expect(await readdir(folders.fetched)).toHaveLength(1)
  })

  it('fails its job where a base model never comes as the server says it is, and keeps nothing of it', async () => {
    const folders = { base_model: null, prepared: join(directory, 'bad-prepared'), fetched: join(directory, 'bad') }
    const { recorded, end } = await runWorker({ input: sftRows, damagedWeights: 99 }, folders)
    expect(end.code).toBe(0)
    expect(recorded.failure).toMatchObject({
      code: 'base_model_damaged',
      message: expect.stringContaining('"model.safetensors" of the base model does not come with its digest'),
    })
    expect(await readdir(folders.fetched)).toEqual([])
  })

  it('trains an RL job and continues from its checkpoint', async () => {
    const job = { kind: 'rl', config: { learning_rate: 1e-3 } } as const
    const input = [group([1, 0, 0.5, 0]), group([0, 1])]
    const first = await runWorker({ input, job })
    expect(first.recorded.failure).toBeNull()
    expect(first.recorded.events[0]).toMatchObject({ type: 'training_started', data: { num_sequences: 1 } })
    expect(first.recorded.events[1]!.data).toMatchObject({
      policy_loss: expect.any(Number),
      entropy: expect.any(Number),
      kl_div: expect.any(Number),
      grad_norm: expect.any(Number),
      importance_ratio_mean: expect.any(Number),
      importance_ratio_p99: expect.any(Number),
      clipped_token_fraction: expect.any(Number),
      num_trainable_tokens: expect.any(Number),
      num_trajectories: 6,
      num_groups_submitted: 2,
      num_groups_trainable: 2,
      reward: 2.5 / 6,
      exception_rate: 0,
      tokens_per_second: expect.any(Number),
    })
    expect(first.recorded.completion).toMatchObject({
      metrics: { 'train/reward': expect.any(Number), 'loss/train': expect.any(Number) },
    })

    const parent = {
      parent_step: 1,
      parent_kind: 'rl',
      parent_files: [...first.recorded.files.keys()],
    } as Partial<WorkerJob>
    const second = await runWorker({ input, job: { ...job, ...parent }, parentFiles: first.recorded.files })
    expect(second.recorded.failure).toBeNull()
    expect(second.recorded.files.get('optimizer.safetensors')!.toString('latin1')).toContain('"step_count":"2"')
    expect(second.recorded.files.get('adapter_model.safetensors')).not.toEqual(
      first.recorded.files.get('adapter_model.safetensors'),
    )
  })

  it.each([
    ['precalculated log-probabilities and truncation', { truncated_importance_sampling: 2 }],
    ['a KL penalty to the base model', { kl_penalty_coef: 0.1 }],
    [
      'PPO on sequence level, two rows a step',
      { ppo: true, importance_sampling_level: 'sequence', packed_sequence_length: 32, grad_accumulation_sequences: 2 },
    ],
  ])('trains with %s', async (_, config) => {
    const { recorded } = await runWorker({ input: [group([1, 0, 0.5, 0])], job: { kind: 'rl', config } })
    expect(recorded.failure).toBeNull()
    expect(recorded.completion).not.toBeNull()
    if ('truncated_importance_sampling' in config)
      expect(recorded.events[1]!.data['importance_ratio_mean']).toBeCloseTo(1, 4)
    if ('kl_penalty_coef' in config) expect(recorded.events[1]!.data['kl_policy_ref']).toBeCloseTo(0, 5)
  })

  it('makes a checkpoint without a gradient step when nothing can be trained on', async () => {
    const { recorded } = await runWorker({ input: [group([1, 1])], job: { kind: 'rl' } })
    expect(recorded.events.map(({ type }) => type)).toEqual(['training_started'])
    expect(recorded.events[0]!.data['num_sequences']).toBe(0)
    expect(recorded.completion).not.toBeNull()
    expect(recorded.files.size).toBe(3)
  })

  it('fails with the line of a broken training file', async () => {
    const { recorded, end } = await runWorker({ input: [sftRows[0], { messages: [] }] })
    expect(end.code).toBe(0)
    expect(recorded.failure).toMatchObject({
      code: 'invalid_example',
      message: expect.stringContaining('Line 2'),
      is_cancelled: false,
    })
    expect(recorded.completion).toBeNull()
  })

  it('stops after the running gradient step when asked to cancel', async () => {
    const { recorded, end } = await runWorker({
      input: LONG,
      job: { config: { batch_size: 1 }, lease_seconds: LEASE_SECONDS },
      isCancelRequested: ({ events }) => events.length > 1,
    })
    expect(recorded.failure).toMatchObject({ code: 'cancelled', is_cancelled: true })
    expect(recorded.completion).toBeNull()
    expect(end).toEqual({ code: 0, signal: null, stderr: '' })
    expect(recorded.events.length).toBeLessThan(LONG.length)
    // The request came with the answer to a heartbeat; a job that is done at once may end before its first one.
    expect(recorded.heartbeats).toBeGreaterThan(0)
  })

  it('ends after the running gradient step with a checkpoint when asked to stop', async () => {
    const { recorded, end } = await runWorker({
      input: LONG,
      job: { config: { batch_size: 1 }, lease_seconds: LEASE_SECONDS },
      isStopRequested: ({ events }) => events.length > 1,
    })
    expect(recorded.failure).toBeNull()
    expect(end).toEqual({ code: 0, signal: null, stderr: '' })
    const steps = recorded.events.filter(({ type }) => type === 'gradient_step').length
    expect(steps).toBeGreaterThan(0)
    expect(steps).toBeLessThan(LONG.length)
    expect(recorded.completion).toMatchObject({ report: { stopped_early: true } })
    expect([...recorded.files.keys()].sort()).toContain('adapter_model.safetensors')
  })

  it('exits without another write when its attempt is stale', async () => {
    const { recorded, end } = await runWorker({
      input: sftRows,
      intercept: (path, { events }) => (path === '/events' && events.length === 2 ? 409 : undefined),
    })
    expect(end.code).toBe(1)
    expect(recorded.events.length).toBe(2)
    expect(recorded.failure).toBeNull()
    expect(recorded.files.size).toBe(0)
  })

  it('is killed by its own heartbeat when the lease is lost while it trains', async () => {
    const { end, recorded } = await runWorker({
      input: LONG,
      job: { config: { batch_size: 1 }, lease_seconds: LEASE_SECONDS },
      intercept: (path, { events }) => (path === '/heartbeat' && events.length > 1 ? 409 : undefined),
    })
    expect(end.signal).toBe('SIGKILL')
    expect(recorded.completion).toBeNull()
  })

  it('ends when the server has disappeared', async () => {
    const { url, recorded, server } = await startServer({
      input: LONG,
      job: { config: { batch_size: 1 }, lease_seconds: LEASE_SECONDS },
      intercept: (_, { events }) => {
        if (events.length > 1) {
          server.close()
          server.closeAllConnections()
        }
        return undefined
      },
    })
    const end = await startWorker(url).ended
    expect(end.signal === 'SIGKILL' || end.code === 1).toBe(true)
    expect(recorded.completion).toBeNull()
  })

  it('fails its job in one sentence, without a stack, where the runtime cannot be loaded', async () => {
    const { url, recorded } = await startServer({ input: sftRows })
    const unloadable = join(import.meta.dirname, '../../support/stand-ins/no-runtime-binary.cjs')
    const { code, stderr } = await startWorker(url, ['--require', unloadable]).ended
    expect(code).toBe(0)
    expect(recorded.failure).toMatchObject({
      code: 'runtime_unusable',
      message: expect.stringMatching(/^ONNX Runtime cannot be loaded on /),
    })
    expect(stderr).toContain('ONNX Runtime cannot be loaded on')
    expect(stderr).not.toMatch(/\bat .+:\d+:\d+/)
  })
})
