/**
 * The path through vLLM with real numbers, every day: a program that stands for `vllm serve` computes with our own engine behind vLLM's wire, and
 * drops each adapter that was used. What real vLLM does is in `vllm.test.ts`.
 */
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, expect, it } from 'vitest'
import type { EngineNodeInfo } from '#contract/wire/engine-nodes.js'
import { createTestService, type TestService } from '../../support/service/create-test-service.js'
import { startWorkerProcess, type WorkerProcess } from '../../support/service/worker-process.js'
import { until } from '../../support/until.js'

const VLLM = join(import.meta.dirname, '../../support/stand-ins/vllm.mjs')
const BASE = 'trainyard/tiny-random'
let directory: string
let service: TestService
let node: WorkerProcess | null = null

beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), 'trainyard-wire-'))
})
afterEach(async () => {
  node?.child.kill('SIGKILL')
  await node?.ended
  node = null
  await service.dispose()
  await rm(directory, { recursive: true, force: true, maxRetries: 20 })
})

interface Answer {
  readonly status: number
  readonly body: { readonly choices: readonly object[] }
}

const ask = (more: object): Promise<Answer> =>
  service.json('/v1/completions', {
    json: { model: BASE, prompt: 'Once upon a time', max_tokens: 12, temperature: 0, logprobs: 3, ...more },
  })

/** Of one checkpoint more than its base. */
async function train(): Promise<void> {
  const model_id = await service.createModel('m')
  const messages = ['user', 'assistant'].map((role) => ({ role, content: `${role} says so` }))
  const rows = Buffer.from(JSON.stringify({ messages })).toString('base64')
  const config = { batch_size: 1, learning_rate: 1e-2, seed: 1 }
  const json = { model_id, training_data_url: `data:application/jsonl;base64,${rows}`, config }
  const { body } = await service.json<{ id: string }>('/v1/preview/sft-training-jobs', { json })
  expect((await service.waitForJob(body.id)).status).toBe('completed')
}

async function startNode(): Promise<WorkerProcess> {
  const { body } = await service.json<{ key: string }>('/v1/preview/keys', { json: { scope: 'worker' } })
  const command = ['--base-model', BASE, '--engine', 'vllm', '--vllm', VLLM, '--max-sequences', '8']
  node = startWorkerProcess({ url: service.url, key: body.key, directory, command: 'engine-node', flags: command })
  await node.heard('ready')
  return node
}

async function said(): Promise<readonly string[]> {
  return (await readFile(join(directory, 'said'), 'utf8')).trim().split('\n')
}

it('has the same ids and log-probabilities; an adapter that it dropped is loaded and asked for once more', async () => {
  service = await createTestService({ scripted: false, threads: 1, precision: 'f32', engines: 'local' })
  await train()
  const requests = [
    {},
    { model: 'm' },
    { model: 'm', stop: ['e'] },
    { model: 'm', ignore_eos: true, logit_bias: { 65: 4 }, min_tokens: 6 },
    { model: 'm', allowed_token_ids: [65, 66, 67], repetition_penalty: 1.3 },
    // log-probabilities that nobody reads are not asked for; the best of several is told by them
    { logprobs: null },
    { logprobs: null, best_of: 3, temperature: 1, seed: 5 },
  ]
  const local: Answer[] = []
  for (const request of requests) local.push(await ask(request))
  service = await service.restart({ engines: 'remote', tuning: { plugins: { 'engine-nodes': { reportMs: 50 } } } })
  await startNode()
  for (const [i, request] of requests.entries()) {
    const { status, body } = await ask(request)
    expect([status, body.choices], JSON.stringify(request)).toEqual([200, local[i]?.body.choices])
  }
  const once = ['generate 404', 'load', 'generate 200']
  const [base, unread, best] = ['generate 200', 'generate 200 without log-probabilities', 'generate 200']
  expect((await said()).slice(1)).toEqual([base, 'load', 'generate 200', ...once, ...once, ...once, unread, best])
})

it('that was killed is started again, and its requests are an error that says so', async () => {
  service = await createTestService({
    ...{ scripted: false, threads: 1, precision: 'f32', engines: 'remote' },
    tuning: { plugins: { 'engine-nodes': { reportMs: 50 } } },
  })
  await startNode()
  const hold = join(directory, 'hold')
  await writeFile(hold, '')
  const json = { model: BASE, prompt: 'Once', max_tokens: 20, ignore_eos: true, stream: true }
  const response = await service.fetch('/v1/completions', { json })
  const reader = response.body?.pipeThrough(new TextDecoderStream()).getReader()
  let text = (await reader?.read())?.value ?? ''
  await rm(hold)
  process.kill(Number((await said()).find((line) => line.startsWith('pid '))?.slice(4)), 'SIGKILL')
  for (let part = await reader?.read(); part?.done === false; part = await reader?.read()) text += part.value
  expect(text).toContain('broke off')
  const stateOf = async (): Promise<string | undefined> =>
    (await service.json<{ data: EngineNodeInfo[] }>('/v1/preview/engine-nodes')).body.data[0]?.state
  await until(async () => (await said()).filter((line) => line.startsWith('pid ')).length === 2, 'another one')
  await until(async () => (await stateOf()) === 'ready', 'a node that is ready again')
  expect((await ask({})).status).toBe(200)
})
