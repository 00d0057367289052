/**
 * An engine node as on another machine: a process with folders of its own, which knows the server's address and a key and nothing else.
 * What it answers is what the server's own engine answers, to the last bit.
 */
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import type { EngineNodeInfo } from '#contract/wire/engine-nodes.js'
import {
  createTestService,
  type TestService,
  type TestServiceOptions,
} from '../../support/service/create-test-service.js'
import { childrenOf } from '../../support/service/killable-server.js'
import { unassignedPort } from '../../support/service/unassigned-port.js'
import { startWorkerProcess, type WorkerProcess } from '../../support/service/worker-process.js'
import { until } from '../../support/until.js'

const NODES = '/v1/preview/engine-nodes'
const BASE = 'trainyard/tiny-random'
let directory: string
let service: TestService
let nodes: WorkerProcess[] = []

beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), 'trainyard-nodes-'))
})
afterEach(async () => {
  for (const { child } of nodes) child.kill('SIGKILL')
  await Promise.all(nodes.map(({ ended }) => ended))
  nodes = []
  await service.dispose()
  await rm(directory, { recursive: true, force: true, maxRetries: 20 })
})

async function start(options: TestServiceOptions = {}, ofNodes: object = {}): Promise<void> {
  const tuning = { plugins: { 'engine-nodes': { reportMs: 50, ...ofNodes } } }
  service = await createTestService({ scripted: false, threads: 1, engines: 'remote', ...options, tuning })
}

async function keyOf(scope = 'worker', more: object = {}): Promise<string> {
  const { body } = await service.json<{ key: string }>('/v1/preview/keys', { json: { scope, ...more } })
  return body.key
}

function startNode(key: string, name = 'far', flags: readonly string[] = []): WorkerProcess {
  const node = startWorkerProcess({
    url: service.url,
    key,
    directory: join(directory, name),
    command: 'engine-node',
    flags: ['--base-model', BASE, '--name', name, ...flags],
  })
  nodes.push(node)
  return node
}

async function readyNode(name = 'far', flags: readonly string[] = []): Promise<WorkerProcess> {
  const node = startNode(await keyOf(), name, flags)
  await node.heard('ready')
  return node
}

/** Of the command, and of the process that computes. */
function signalAll({ child }: WorkerProcess, signal: NodeJS.Signals): void {
  for (const pid of [...childrenOf(child.pid ?? 0), child.pid ?? 0]) process.kill(pid, signal)
}

const listNodes = async (): Promise<EngineNodeInfo[]> =>
  (await service.json<{ data: EngineNodeInfo[] }>(NODES)).body.data

/** Long enough to be seen at work. */
const LONG = { model: BASE, prompt: 'Once', max_tokens: 450, ignore_eos: true, temperature: 1, n: 24, logprobs: null }

interface Completion {
  readonly choices: readonly { readonly text: string; readonly logprobs: unknown; readonly finish_reason: string }[]
  readonly usage: object
}

function complete(more: object = {}, at = service): Promise<{ status: number; body: Completion }> {
  return at.json<Completion>('/v1/completions', {
    json: JSON.stringify({
      model: BASE,
      prompt: 'Once upon a time',
      max_tokens: 12,
      temperature: 0,
      logprobs: 3,
      return_token_ids: true,
      ...more,
    }).replace(/"@(\d+)@"/, '$1'),
  })
}

/** A checkpoint of a model, trained here. */
async function trained(): Promise<string> {
  const modelId = await service.createModel('m')
  const rows = ['one', 'two'].map((word) =>
    JSON.stringify({
      messages: [
        { role: 'user', content: `Say ${word}` },
        { role: 'assistant', content: `${word} it is` },
      ],
    }),
  )
  const data = `data:application/jsonl;base64,${Buffer.from(rows.join('\n')).toString('base64')}`
  const json = { model_id: modelId, training_data_url: data, config: { batch_size: 1, learning_rate: 1e-2, seed: 1 } }
  const { body } = await service.json<{ id: string }>('/v1/preview/sft-training-jobs', { json })
  expect((await service.waitForJob(body.id)).status).toBe('completed')
  return 'm'
}

/** Stands for a seed beyond 2^53, which `JSON.stringify` cannot write. */
const BIG_SEED = '@9007199254740993@'

/** Ways to ask that reach every part of the wire. */
const ASKED: readonly object[] = [
  {},
  { temperature: 1, seed: BIG_SEED, n: 2 },
  { temperature: 0.8, top_p: 0.9, top_k: 20, min_p: 0.01, seed: 5, repetition_penalty: 1.2, presence_penalty: 0.3 },
  { temperature: 0.7, seed: 6, frequency_penalty: 0.5, min_tokens: 4, stop: ['e'], include_stop_str_in_output: true },
  { logit_bias: { 65: 5, 66: -100 }, stop_token_ids: [101, 102], ignore_eos: true },
  { allowed_token_ids: [65, 66, 67], max_tokens: 5 },
  { bad_words: ['e', 'th'], temperature: 1, seed: 2 },
  { prompt_logprobs: 2, echo: false },
  { structured_outputs: { choice: ['yes', 'no'] } },
  { structured_outputs: { regex: '[a-c]{4}' }, temperature: 1, seed: 8 },
  { xtc_probability: 0.5, xtc_threshold: 0.05, temperature: 1, seed: 3 },
  { dry_multiplier: 0.8, temperature: 1, seed: 4, max_tokens: 20 },
  { use_beam_search: true, n: 3, max_tokens: 5, logprobs: null },
]

describe('an engine node', () => {
  it('answers as the server itself does, bit for bit, for the base model and an adapter', async () => {
    await start({ engines: 'local' })
    await trained()
    const requests = [...ASKED, ...ASKED.map((each) => ({ ...each, model: 'm' }))]
    const local: { readonly status: number }[] = []
    for (const request of requests) local.push(comparable(await complete(request)))
    service = await service.restart({ engines: 'remote' })
    const node = await readyNode('far', ['--precision', 'f32'])
    for (const [i, request] of requests.entries()) {
      expect(comparable(await complete(request)), JSON.stringify(request)).toEqual(local[i])
    }
    expect(local.map(({ status }) => status)).toEqual(requests.map(() => 200))
    await until(async () => (await listNodes())[0]?.adapters === 1, 'a node that says what it holds')
    expect(await listNodes()).toMatchObject([
      { name: 'far', base_model: BASE, engine: 'onnx', device: 'cpu', state: 'ready', adapters: 1 },
    ])
    // the server's own engine has computed nothing: its metrics are the host's, its sessions are not there
    const check = await service.json<{ checks: { name: string; message: string }[] }>('/v1/system-check')
    const message = check.body.checks.find(({ name }) => name === 'gpu_queue')?.message
    expect(message).toBe(`1 of 1 engine nodes serve ${BASE}: far`)
    expect(await (await service.fetch('/metrics')).text()).toContain(
      'trainyard_engine_nodes{engine="onnx",state="ready"} 1',
    )
    node.child.kill('SIGTERM')
    expect(await node.ended).toMatchObject({ code: 0 })
  })

  it('streams, stops at stop strings, and ends what nobody reads', async () => {
    await start()
    await readyNode()
    const body = { ...LONG, stream: true }
    const gone = new AbortController()
    const response = await service.fetch('/v1/completions', { json: body, signal: gone.signal })
    const reader = response.body?.getReader()
    await reader?.read()
    await until(async () => (await listNodes())[0]?.running === LONG.n, 'a node that says it computes')
    gone.abort()
    await until(async () => (await listNodes())[0]?.running === 0, 'a node that computes nothing')
  })

  it('drains: what runs goes on, new requests go elsewhere', async () => {
    await start()
    const first = await readyNode('first')
    const long = complete(LONG)
    await until(async () => (await listNodes())[0]?.running === LONG.n, 'a node that computes')
    first.child.kill('SIGTERM')
    await until(async () => (await listNodes())[0]?.state === 'leaving', 'a node that leaves')
    await readyNode('second')
    expect((await complete()).status).toBe(200)
    expect(await long).toMatchObject({ status: 200, body: { usage: { completion_tokens: LONG.n * LONG.max_tokens } } })
    expect(await first.ended).toMatchObject({ code: 0 })
  })

  it('killed in the middle of a stream is a clear error, before the first token another node goes on', async () => {
    await start({}, { leaseMs: 600_000 })
    const first = await readyNode('first')
    const { body } = await service.json<Completion>('/v1/completions', {
      json: { model: BASE, prompt: 'Once', max_tokens: 2, temperature: 0 },
    })
    const cut = service.fetch('/v1/completions', {
      // long beside what the node needs to see that its parent is gone
      json: { ...LONG, stream: true },
    })
    const reader = (await cut).body?.pipeThrough(new TextDecoderStream()).getReader()
    let text = (await reader?.read())?.value ?? ''
    first.child.kill('SIGKILL')
    for (let part = await reader?.read(); part?.done === false; part = await reader?.read()) text += part.value
    expect(text).toContain('engine node \\"first\\"')
    expect(text).toContain('broke off')
    // the dead node is still in the list: it is tried, and the other one answers
    await readyNode('second')
    expect((await listNodes()).map(({ name }) => name)).toEqual(['first', 'second'])
    for (const prompt of ['a', 'b', 'c', 'd', 'e', 'f']) expect((await complete({ prompt })).status).toBe(200)
    const again = await service.json<Completion>('/v1/completions', {
      json: { model: BASE, prompt: 'Once', max_tokens: 2, temperature: 0 },
    })
    expect(again.body.choices).toEqual(body.choices)
  })

  it('is forgotten when it is silent, and without one there is a sentence', async () => {
    await start({}, { leaseMs: 500 })
    const node = await readyNode()
    node.child.kill('SIGKILL')
    await until(async () => (await listNodes()).length === 0, 'a node that is forgotten')
    const { status, body } = await service.json<{ error: { message: string } }>('/v1/completions', {
      json: { model: BASE, prompt: 'a' },
    })
    expect(status).toBe(503)
    expect(body.error.message).toBe(`no engine node serves base model "${BASE}"`)
  })

  it('says again that it is there to a server that was started anew, whose requests wait for it', async () => {
    await start({ port: await unassignedPort() })
    const node = await readyNode()
    const before = await complete()
    service = await service.restart()
    // the first one may be asked before the node has been heard
    const { status, body } = await complete()
    expect([status, body.choices]).toEqual([200, before.body.choices])
    expect((await listNodes()).map(({ name }) => name)).toEqual(['far'])
    expect(node.child.exitCode).toBeNull()
  })

  it('that is silent and alive loses its requests to another one before their first token, and is taken back', async () => {
    await start({}, { leaseMs: 5000 })
    const first = await readyNode('first')
    const expected = (await complete()).body.choices
    // as behind a cut network: connections stay open, and nothing comes
    signalAll(first, 'SIGSTOP')
    const asked = complete()
    await readyNode('second')
    expect(await asked).toMatchObject({ status: 200, body: { choices: expected } })
    signalAll(first, 'SIGCONT')
    await until(async () => (await listNodes()).length === 2, 'both nodes')
    expect(first.child.exitCode).toBeNull()
  })

  it('of another minor version is refused, with the version that fits', async () => {
    await start()
    const json = {
      ...{ id: 'node-of-a-test', name: 'old', url: 'http://127.0.0.1:9', token: 't'.repeat(32), engine: 'onnx' },
      ...{ versions: { trainyard: '0.99.3' }, device: 'cpu', base_model: { name: BASE, digest: 'a'.repeat(64) } },
      ...{ context_length: 64, slots: 1, running: 0, waiting: 0, adapters: [], is_leaving: false },
    }
    const headers = { authorization: `Bearer ${await keyOf()}`, 'content-type': 'application/json' }
    const refused = await service.json('/internal/engine/nodes', { json, headers })
    expect(refused).toMatchObject({
      status: 410,
      body: { error: { code: 'worker_version', hint: expect.stringContaining('install trainyard') } },
    })
  })

  it('leaves the work to the server where that may compute', async () => {
    await start({ engines: 'auto' })
    const here = await complete()
    expect(here.status).toBe(200)
    await readyNode('far', ['--precision', 'f32'])
    expect((await complete()).body.choices).toEqual(here.body.choices)
  })

  it('sees no request of another entity or project than its key', async () => {
    await start({ engines: 'auto', engineNodeHosts: ['127.0.0.1'] })
    const node = startNode(await keyOf('worker', { project: 'other' }))
    await node.heard('ready')
    // computed here, by the engine that is loaded for it
    expect((await complete()).status).toBe(200)
    const digest = 'a'.repeat(64)
    const asked = await service.fetch(`/internal/engine/adapters/${digest}`)
    expect(asked.status).toBe(404)
  })

  it('is refused by a server that computes itself, with another key, at an address that is not its own', async () => {
    await start({ engines: 'local' })
    const node = startNode(await keyOf())
    expect(await node.ended).toMatchObject({ code: 5 })
    expect(node.stderr() + JSON.stringify(node.events)).toContain('--engines remote')
    const reader = startNode(await keyOf('read'), 'reader')
    expect(await reader.ended).toMatchObject({ code: 4 })
    service = await service.restart({ engines: 'remote' })
    const elsewhere = startNode(await keyOf(), 'lost', ['--url', 'http://127.0.0.1:9'])
    expect(await elsewhere.ended).toMatchObject({ code: 5 })
    expect(elsewhere.stderr() + JSON.stringify(elsewhere.events)).toContain('does not reach the engine node')
  })
})

interface Comparable {
  readonly status: number
  readonly choices: Completion['choices']
  readonly usage: object
  readonly error?: unknown
}

/** All of an answer that does not tell of its time and id. */
function comparable({ status, body }: { status: number; body: Completion }): Comparable {
  const { choices, usage } = body
  return {
    status,
    choices,
    usage: { ...usage, prompt_tokens_details: null },
    ...('error' in body ? { error: body.error } : {}),
  }
}
