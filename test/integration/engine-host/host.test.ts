/**
 * The host on the tiny model: conversations in, text out; every request ends exactly once.
 */
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { systemClock } from '#base/util/clock.js'
import { createHost, type Host, type HostOptions } from '#inference/host/host.js'
import type { HostCommand, HostEvent, LoadCommand } from '#inference/host/protocol.js'
import { ensureTinyRandomModel } from '#model/built-in/tiny-random.js'
import { toDeviceError } from '#numerics/runtime/device-errors.js'
import { createOrtRuntime } from '#numerics/runtime/ort-runtime.js'
import type { Runtime } from '#numerics/runtime/runtime.js'
import { until } from '../../support/until.js'
import { ask, converse, EventLog } from './host-harness.js'

let directory: string
let load: LoadCommand
let host: Host
const log = new EventLog()
let exits = 0

function createTestHost(events: EventLog, more: Partial<HostOptions> = {}): Host {
  const exit = (): void => {
    exits++
  }
  return createHost({ runtime: createOrtRuntime(), clock: systemClock, send: events.push, exit, ...more })
}

const send = (command: HostCommand): void => {
  host.handle(command).catch((error: unknown) => {
    throw error
  })
}

beforeAll(async () => {
  directory = await mkdtemp(join(tmpdir(), 'host-'))
  load = {
    type: 'load',
    baseModel: 'tiny',
    sourcePath: await ensureTinyRandomModel(join(directory, 'model')),
    preparedDir: join(directory, 'prepared'),
    precision: 'auto',
    threads: 1,
    maxContextLength: 200,
    maxConcurrentSequences: 4,
    kvCacheBytes: null,
    speculation: 'off',
  }
  host = createTestHost(log)
  await host.handle(load)
})
afterAll(async () => {
  await rm(directory, { recursive: true, force: true, maxRetries: 20 })
})

describe('engine host', () => {
  it('reports what it loaded', () => {
    expect(log.events[0]).toMatchObject({
      type: 'loaded',
      family: 'llama',
      precision: 'f32',
      contextLength: 200,
      vocabularySize: 259,
    })
  })

  it('streams text that joins to the decoded tokens, after one started event', async () => {
    const answer = await converse(send, log, ask('plain', 'Hello'))
    const started = log.events.filter((event) => event.type === 'started' && event.id === 'plain')
    expect(started).toHaveLength(1)
    expect(started[0]).toMatchObject({ cachedTokens: 0, promptTokenIds: expect.arrayContaining([257, 258]) })
    expect(answer.finishReason).toBe('length')
    expect(answer.ids).toHaveLength(12)
    expect(answer.text).toBe(Buffer.from(answer.ids).toString('utf8'))
    expect(answer.logprobs.map((entry) => entry.id)).toEqual(answer.ids)
  })

  it('finds a stop string across tokens and cuts the text before it, keeping all ids', async () => {
    // Each token of the tiny model is one byte, so this string spans three tokens.
    const bias = { temperature: 1, seed: 3n, allowedTokenIds: [97, 98], maxTokens: 60, ignoreEos: true }
    const free = await converse(send, log, ask('free', 'x', bias))
    const stop = free.text.slice(5, 8)
    const at = free.text.indexOf(stop)
    const cut = await converse(send, log, ask('cut', 'x', { ...bias, stop: [stop] }))
    expect(cut).toMatchObject({ text: free.text.slice(0, at), finishReason: 'stop', stopReason: stop })
    expect(cut.ids).toEqual(free.ids.slice(0, at + 3))
    const kept = await converse(send, log, ask('kept', 'x', { ...bias, stop: [stop], includeStopStrInOutput: true }))
    expect(kept).toMatchObject({ text: free.text.slice(0, at + 3), stopReason: stop })
    const late = await converse(send, log, ask('late', 'x', { ...bias, stop: [stop], minTokens: 30 }))
    expect(late.ids.length).toBeGreaterThanOrEqual(30)
    expect(late.text.startsWith(free.text.slice(0, 29))).toBe(true)
  })

  it('lets a stop string win over the length limit on the same token', async () => {
    const rules = { allowedTokenIds: [97], stop: ['aaa'], maxTokens: 3 }
    expect(await converse(send, log, ask('tie', 'x', rules))).toMatchObject({
      finishReason: 'stop',
      stopReason: 'aaa',
      text: '',
    })
  })

  it('leaves the text of a stop token out unless asked, and keeps its id', async () => {
    const rules = { logitBias: { '256': 100 }, maxTokens: 5 }
    expect(await converse(send, log, ask('eos', 'x', rules))).toMatchObject({
      text: '',
      ids: [256],
      finishReason: 'stop',
      stopReason: null,
    })
    const shown = { ...rules, includeStopStrInOutput: true, skipSpecialTokens: false }
    expect((await converse(send, log, ask('eos-shown', 'x', shown))).text).toBe('<|endoftext|>')
    const id = { logitBias: { '98': 100 }, stopTokenIds: [98] }
    expect(await converse(send, log, ask('id', 'x', id))).toMatchObject({ text: '', ids: [98], stopReason: 98 })
    const ignored = await converse(send, log, ask('ignored', 'x', { ...rules, ignoreEos: true }))
    expect(ignored).toMatchObject({ finishReason: 'length', ids: [256, 256, 256, 256, 256], text: '' })
  })

  it('never emits half a character', async () => {
    const bytes = [...Buffer.from('é')]
    const half = await converse(send, log, ask('half', 'x', { allowedTokenIds: [bytes[0] ?? 0], maxTokens: 1 }))
    expect(half.text).toBe('\ufffd')
    expect(half.logprobs[0]?.text).toBe('')
  })

  it('gives n choices their own streams', async () => {
    await converse(send, log, ask('n', 'x', { n: 3, temperature: 1, seed: 1n }))
    const texts = [0, 1, 2].map((choice) => log.answer('n', choice))
    expect(texts.every((answer) => answer.finishReason !== null)).toBe(true)
    expect(new Set(texts.map((answer) => answer.ids.join())).size).toBe(3)
  })

  it('ends an aborted request with abort and finished', async () => {
    send(ask('aborted', 'x', { maxTokens: 100, ignoreEos: true }))
    await log.when((event) => event.type === 'delta' && event.id === 'aborted')
    send({ type: 'abort', id: 'aborted' })
    expect((await log.ended('aborted')).type).toBe('finished')
    expect(log.answer('aborted').finishReason).toBe('abort')
    expect(log.answer('aborted').ids.length).toBeLessThan(100)
  })

  it('answers a ping with what runs and waits', async () => {
    send({ type: 'ping', id: 'p' })
    expect(await log.when((event) => event.type === 'pong')).toMatchObject({
      id: 'p',
      runningSequences: 0,
      waitingRequests: 0,
      preemptions: 0,
      kvCacheUsage: expect.any(Number),
    })
  })

  it('truncates the prompt to its last tokens', async () => {
    const truncated = (id: string, count: number) => ({
      ...ask(id, 'a long question '.repeat(3)),
      truncatePromptTokens: count,
    })
    await converse(send, log, truncated('t5', 5))
    expect(log.events.find((event) => event.type === 'started' && event.id === 't5')).toMatchObject({
      promptTokenIds: [...Buffer.from('tant\n')],
    })
    const long = { ...ask('all', 'y'.repeat(400)), truncatePromptTokens: -1 }
    await converse(send, log, long)
    const started = log.events.find((event) => event.type === 'started' && event.id === 'all')
    expect(started?.type === 'started' ? started.promptTokenIds.length : 0).toBe(188)
  })

  it.each([
    ['too long', ask('long', 'y'.repeat(400)), 'context_length_exceeded'],
    ['truncation above the context', { ...ask('trunc', 'y'), truncatePromptTokens: 199 }, 'invalid_value'],
    ['an empty prompt', { ...ask('none', 'y'), truncatePromptTokens: 0 }, 'invalid_value'],
    ['a foreign stop id', ask('foreign', 'y', { stopTokenIds: [99999] }), 'invalid_value'],
  ])('refuses a request that is %s', async (_, command, code) => {
    send(command)
    expect(await log.ended(command.id)).toMatchObject({ type: 'failed', error: { category: 'invalid_request', code } })
    expect(log.events.some((event) => event.type === 'started' && event.id === command.id)).toBe(false)
  })

  it('fails a request whose adapter is missing, and goes on', async () => {
    const file = { path: join(directory, 'nowhere'), sha256: '0'.repeat(64) }
    const files = { 'adapter_model.safetensors': file, 'adapter_config.json': file }
    send({ ...ask('no-adapter', 'x'), adapter: { digest: 'd', checkpoint: 'step 3 of model "m"', files } })
    const error = { category: 'internal', code: 'checkpoint_corrupt', message: expect.stringContaining('step 3') }
    expect(await log.ended('no-adapter')).toMatchObject({ type: 'failed', error })
    expect((await converse(send, log, ask('after', 'x'))).ids).toHaveLength(12)
  })

  it('ends every request exactly once', () => {
    const ends = log.events.filter(
      (event) => event.type === 'finished' || (event.type === 'failed' && event.id !== null),
    )
    const ids = ends.map((event) => ('id' in event ? event.id : ''))
    expect(new Set(ids).size).toBe(ids.length)
  })

  it('reports a load that fails', async () => {
    const events = new EventLog()
    await createTestHost(events).handle({ ...load, sourcePath: join(directory, 'missing') })
    expect(events.events).toMatchObject([{ type: 'failed', id: null }])
    const folder = join(directory, 'broken')
    await ensureTinyRandomModel(folder)
    await writeFile(join(folder, 'model.safetensors'), 'garbage')
    await createTestHost(events).handle({ ...load, sourcePath: folder })
    expect(events.events[1]).toMatchObject({ type: 'failed', id: null, error: { category: 'invalid_request' } })
  })

  it('refuses requests before the load', async () => {
    const events = new EventLog()
    await createTestHost(events).handle(ask('early', 'x'))
    expect(events.events).toMatchObject([{ type: 'failed', id: 'early', error: { category: 'unavailable' } }])
  })

  it('finishes what runs before it exits', async () => {
    send(ask('last', 'x'))
    send({ type: 'shutdown', deadlineMs: 60_000 })
    await log.ended('last')
    expect(log.answer('last').finishReason).toBe('length')
    await until(() => exits > 0, 'the exit')
    expect(exits).toBe(1)
  })
})

describe('a host that rests', () => {
  const idleSteps = { trimMs: 0, shrinkMs: 0, restedMs: 1, emptyMs: 600_000 }

  it.each([
    [{ loaded: 100e6, now: 140e6 }, true],
    [{ loaded: 100e6, now: 110e6 }, false],
    [{ loaded: 60e6, now: 72e6 }, false],
    [{ loaded: 900e6, now: 1400e6 }, false],
  ])('says that it may be replaced where that is worth it: %o is %s', async ({ loaded, now }, isWorth) => {
    const events = new EventLog()
    const looked: number[] = []
    const residentBytes = (): number => {
      const bytes = looked.length === 0 ? loaded : now
      looked.push(bytes)
      return bytes
    }
    const rests = createTestHost(events, { idleSteps, residentBytes })
    await rests.handle(load)
    await converse((command) => void rests.handle(command), events, ask('one', 'Hello'))
    await until(() => looked.length > 1, 'a look at the memory')
    const said = events.events.filter(({ type }) => type === 'worn')
    expect(said).toEqual(isWorth ? [{ type: 'worn', id: null, residentBytes: now, loadedBytes: loaded }] : [])
  })
})

describe('a host whose device fails', () => {
  /** The device's words once, and then what the CPU computes. */
  function failingOnce(words: string): Runtime {
    const cpu = createOrtRuntime()
    let hasFailed = false
    return {
      ...cpu,
      async loadSession(...given) {
        const session = await cpu.loadSession(...given)
        const run: typeof session.run = (...feeds) => {
          const error = hasFailed ? null : toDeviceError('webgpu', new Error(words))
          hasFailed = true
          return error === null ? session.run(...feeds) : Promise.reject(error)
        }
        return { ...session, run }
      },
    }
  }

  it('ends where it was lost, after it has told its requests', async () => {
    const events = new EventLog()
    const told: HostEvent[][] = []
    const exit = (): void => {
      told.push(events.events.filter(({ type }) => type === 'failed'))
    }
    const runtime = failingOnce('vkQueueSubmit failed with VK_ERROR_DEVICE_LOST')
    const lost = createTestHost(events, { runtime, exit })
    await lost.handle(load)
    await lost.handle(ask('one', 'Hello'))
    await until(() => told.length > 0, 'its end')
    expect(told[0]).toMatchObject([
      { id: 'one', error: { code: 'device_lost', message: expect.stringMatching(/^webgpu was lost/) } },
    ])
  })

  it('goes on where memory was refused', async () => {
    const events = new EventLog()
    let isOver = false
    const exit = (): void => {
      isOver = true
    }
    const runtime = failingOnce('vkAllocateMemory failed with VK_ERROR_OUT_OF_DEVICE_MEMORY')
    const short = createTestHost(events, { runtime, exit })
    await short.handle(load)
    await short.handle(ask('one', 'Hello'))
    await until(() => events.events.some(({ type }) => type === 'failed'), 'its failure')
    const answer = await converse((command) => void short.handle(command), events, ask('two', 'Hello'))
    expect(answer.finishReason).toBe('length')
    expect(events.events.filter(({ type }) => type === 'failed')).toMatchObject([
      { id: 'one', error: { code: 'device_memory', category: 'unavailable' } },
    ])
    expect(isOver).toBe(false)
  })
})
