/**
 * The host as a process: it serves over IPC and dies with its server. Uses the build in `dist/`.
 */
import { type ChildProcess, fork } from 'node:child_process'
import { existsSync } from 'node:fs'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, it } from 'vitest'
import type { HostCommand, HostEvents } from '#inference/host/protocol.js'
import { ensureTinyRandomModel } from '#model/built-in/tiny-random.js'
import { until } from '../../support/until.js'
import { ask, converse, EventLog } from './host-harness.js'

const ENTRY = new URL('../../../dist/bundles/inference/host/main.js', import.meta.url)
const SMOLLM2 = new URL('../../../.cache/models/SmolLM2-135M-Instruct.Q4_1.gguf', import.meta.url).pathname

let directory: string
const children: ChildProcess[] = []
beforeAll(async () => {
  directory = await mkdtemp(join(tmpdir(), 'host-process-'))
})
afterAll(async () => {
  for (const child of children) child.kill('SIGKILL')
  await rm(directory, { recursive: true, force: true, maxRetries: 20 })
})

interface RunningHost {
  readonly child: ChildProcess
  readonly log: EventLog
  readonly exited: Promise<number | null>
  readonly send: (command: HostCommand) => void
}

async function startHost(sourcePath: string, precision: 'f32' | 'int8'): Promise<RunningHost> {
  const host = askForModel(sourcePath, precision)
  expect(await answerToLoad(host)).toMatchObject({ type: 'loaded' })
  return host
}

function askForModel(sourcePath: string, precision: 'f32' | 'int8', execArgv: readonly string[] = []): RunningHost {
  const child = fork(ENTRY, [], { serialization: 'advanced', execArgv: [...execArgv] })
  children.push(child)
  const log = new EventLog()
  child.on('message', (events) => {
    for (const event of events as HostEvents) log.push(event)
  })
  const exited = new Promise<number | null>((resolve) => child.on('exit', resolve))
  const send = (command: HostCommand): void => {
    child.send(command)
  }
  const preparedDir = join(directory, 'prepared')
  send({
    type: 'load',
    baseModel: 'm',
    sourcePath,
    preparedDir,
    precision,
    threads: 2,
    maxContextLength: 1024,
    maxConcurrentSequences: 4,
    kvCacheBytes: null,
    speculation: 'off',
  })
  return { child, log, exited, send }
}

const answerToLoad = ({ log }: RunningHost) => log.when((event) => event.type === 'loaded' || event.type === 'failed')

it('serves over IPC and exits 0 when told to', async () => {
  const host = await startHost(await ensureTinyRandomModel(join(directory, 'tiny')), 'f32')
  expect(
    (await converse(host.send, host.log, ask('a', 'x', { seed: 2n ** 62n, temperature: 1, ignoreEos: true }))).ids,
  ).toHaveLength(12)
  host.send({ type: 'shutdown', deadlineMs: 5000 })
  expect(await host.exited).toBe(0)
})

it('hears an abort while it generates', async () => {
  const host = await startHost(await ensureTinyRandomModel(join(directory, 'tiny')), 'f32')
  // this process may get its turn after the last token: not every time
  let count = 0
  await until(async () => {
    count += 1
    const id = `long-${count}`
    host.send(ask(id, 'x', { maxTokens: 900, ignoreEos: true }))
    await host.log.when((event) => event.type === 'delta' && event.id === id)
    host.send({ type: 'abort', id })
    await host.log.ended(id)
    const { finishReason, ids } = host.log.answer(id)
    expect(ids.length < 900).toBe(finishReason === 'abort')
    return finishReason === 'abort'
  }, 'an answer that was aborted')
})

it('says what it needs where its library cannot be loaded, and ends when told to', async () => {
  const unloadable = join(import.meta.dirname, '../../support/stand-ins/no-runtime-binary.cjs')
  const host = askForModel(await ensureTinyRandomModel(join(directory, 'tiny')), 'f32', ['--require', unloadable])
  expect(await answerToLoad(host)).toMatchObject({
    ...{ type: 'failed', id: null },
    error: {
      code: 'runtime_unusable',
      message: expect.stringMatching(
        /^ONNX Runtime cannot be loaded on \w+ \w+: Error loading shared library ld-linux/,
      ),
      hint: expect.stringContaining('not on Alpine'),
    },
  })
  host.send({ type: 'shutdown', deadlineMs: 5000 })
  expect(await host.exited).toBe(0)
})

it('ends when its server is gone, even while it generates', async () => {
  const host = await startHost(await ensureTinyRandomModel(join(directory, 'tiny')), 'f32')
  host.send(ask('long', 'x', { maxTokens: 900, ignoreEos: true }))
  await host.log.when((event) => event.type === 'delta')
  host.child.disconnect()
  expect(await host.exited).toBe(0)
})

it.skipIf(!existsSync(SMOLLM2)).each(['f32', 'int8'] as const)(
  'answers with Paris on the real model in %s (needs `npm run model:smollm2`)',
  async (precision) => {
    const host = await startHost(SMOLLM2, precision)
    const question = 'Name the capital of France in one sentence.'
    const answer = await converse(host.send, host.log, ask('q', question, { maxTokens: 24, topLogprobs: 2 }))
    expect(answer.text).toContain('Paris')
    expect(answer).toMatchObject({ finishReason: 'stop', stopReason: null })
    expect(answer.logprobs.map((entry) => entry.text).join('')).toBe(`${answer.text}<|im_end|>`)
    const stopped = await converse(host.send, host.log, ask('s', question, { maxTokens: 24, stop: ['l of Fr'] }))
    expect(stopped).toMatchObject({ text: 'The capita', finishReason: 'stop', stopReason: 'l of Fr' })
    host.child.kill('SIGKILL')
  },
)
