/**
 * An engine host that freezes, dies again and again, or holds more requests than allowed; shutdown with streams. Stand-ins.
 */
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { afterEach, describe, expect, it } from 'vitest'
import { createLogger } from '#base/logging/logger.js'
import type { TunedServiceOptions } from '#service/create-service.js'
import { createTestService, type TestService } from '../../support/service/create-test-service.js'
import { isAlive } from '../../support/service/is-alive.js'
import { until } from '../../support/until.js'

const CHAT = '/v1/chat/completions'
const say = (content: string, more: object = {}) => ({ messages: [{ role: 'user', content }], ...more })

let service: TestService
let log: string[] = []
afterEach(() => service.dispose())

async function start(options: Partial<TunedServiceOptions> = {}): Promise<void> {
  log = []
  service = await createTestService({
    logger: createLogger({ level: 'info', destination: { write: (line) => void log.push(line) } }),
    tuning: { engineWatchdog: { frozenMs: 1500, tickMs: 100 } },
    ...options,
  })
  expect((await service.json(CHAT, { json: say('hi') })).status).toBe(200)
}
const logged = (event: string) => log.map((line) => JSON.parse(line)).filter((line) => line.event === event)
const errors = () => log.map((line) => JSON.parse(line)).filter((line) => line.level >= 50)

/** Opens a stream and waits for its first bytes. */
async function openStream(content: string) {
  const response = await service.fetch(CHAT, { json: say(content, { stream: true }) })
  const reader = response.body?.getReader()
  const first = await reader?.read()
  return {
    async rest(): Promise<string> {
      const decoder = new TextDecoder()
      let text = decoder.decode(first?.value)
      for (let next = await reader?.read(); next?.done === false; next = await reader?.read()) {
        text += decoder.decode(next.value)
      }
      return text
    },
  }
}

describe('an engine host that holds more than it needs', () => {
  it('is replaced while nobody waits; who asks in that moment waits for the new one', async () => {
    await start()
    const [pid = 0] = service.enginePids()
    const asked: Promise<{ status: number }>[] = []
    await until(async () => {
      const worn = service.json(CHAT, { json: say('WORN') })
      asked.push(worn)
      await worn
      const next = service.json(CHAT, { json: say('hi') })
      asked.push(next)
      // what is said behind the end of the first has come when the second ends: it was kept if the second came before
      await next
      return logged('engine.renewed').length > 0
    }, 'a new host')
    asked.push(service.json(CHAT, { json: say('hi') }))
    expect(new Set((await Promise.all(asked)).map(({ status }) => status))).toEqual(new Set([200]))
    expect(service.enginePids()).toHaveLength(1)
    expect(service.enginePids()).not.toContain(pid)
    expect(logged('engine.renewed')).toMatchObject([{ resident_bytes: 3e8, loaded_bytes: 1e8 }])
    expect([...logged('engine.died'), ...logged('engine.frozen')]).toEqual([])
    await until(() => !isAlive(pid), 'the end of the old host')
  })

  it('is kept where somebody waits for it', async () => {
    await start()
    const [pid = 0] = service.enginePids()
    await openStream('FOREVER')
    // what is said behind the end of the first has come when the second ends
    for (const text of ['WORN', 'hi']) expect((await service.json(CHAT, { json: say(text) })).status).toBe(200)
    expect(service.enginePids()).toEqual([pid])
    expect(logged('engine.renewed')).toEqual([])
  })
})

describe('a frozen engine host', () => {
  it('that was stopped: its streams end with an error that says so, and the next request is served', async () => {
    await start()
    const stream = await openStream('FOREVER')
    const [pid = 0] = service.enginePids()
    process.kill(pid, 'SIGSTOP')
    const text = await stream.rest()
    expect(text).toMatch(/"message":"the engine of base model .* showed no sign of life for \d+ s and restarts"/)
    expect(text.trimEnd().endsWith('data: [DONE]')).toBe(true)
    expect((await service.json(CHAT, { json: say('hi') })).status).toBe(200)
    expect(service.enginePids()).not.toContain(pid)
    expect(logged('engine.frozen')).toMatchObject([{ pid, reason: expect.stringContaining('no sign of life') }])
  })

  it('that is deadlocked: a plain request gets 503 with Retry-After', async () => {
    await start()
    const response = await service.fetch(CHAT, { json: say('FREEZE here') })
    expect([response.status, response.headers.get('retry-after')]).toEqual([503, '1'])
    expect(await response.text()).toContain('no sign of life')
  })

  it('that only computes for longer than that is left alone', async () => {
    await start({ tuning: { engineWatchdog: { frozenMs: 1000, tickMs: 100 } } })
    const { status, body } = await service.json<{ choices: { message: { content: string } }[] }>(CHAT, {
      json: say('BUSY'),
    })
    expect([status, body.choices[0]?.message.content]).toEqual([200, 'base:BUSY'])
    expect(logged('engine.frozen')).toEqual([])
  })
})

describe('an engine host that keeps dying', () => {
  it('is started less and less often; error and log say why', async () => {
    await start()
    let waitSeconds = 0
    let message = ''
    while (waitSeconds < 2) {
      const response = await service.fetch(CHAT, { json: say('CRASH') })
      expect(response.status).toBe(503)
      waitSeconds = Number(response.headers.get('retry-after'))
      message = JSON.stringify(await response.json())
      await sleep(50)
    }
    expect(message).toMatch(
      /stopped \d+ times in a row, the last time it was ended by SIGKILL; it starts again in \d+ s/,
    )
    const deaths = logged('engine.died')
    expect(deaths.map((line) => line.backoff_ms).slice(0, 4)).toEqual([0, 500, 1000, 2000])
    expect(deaths[0]).toMatchObject({ reason: 'was ended by SIGKILL', deaths: 1 })
  })
})

describe('an engine host whose device was lost', () => {
  it('says so to all that it answered, and to the log', async () => {
    await start()
    const beside = await openStream('FOREVER')
    const response = await service.fetch(CHAT, { json: say('LOST') })
    expect([response.status, await response.text()]).toEqual([503, expect.stringContaining('webgpu was lost')])
    expect(await beside.rest()).toContain('lost its device and restarts')
    expect(logged('engine.died')).toMatchObject([{ reason: 'lost its device', deaths: 1 }])
    expect((await service.json(CHAT, { json: say('hi') })).status).toBe(200)
  })
})

describe('a base model that cannot be loaded', () => {
  it('is logged with the reason alone: that its host was then ended is no death', async () => {
    log = []
    const sourcePath = await mkdtemp(join(tmpdir(), 'trainyard-no-model-'))
    service = await createTestService({
      scripted: false,
      logger: createLogger({ level: 'info', destination: { write: (line) => void log.push(line) } }),
      baseModels: [{ name: 'empty', sourcePath }],
    })
    await until(async () => {
      const response = await service.fetch(CHAT, { json: say('hi') })
      expect([response.status, await response.text()]).toEqual([503, expect.stringContaining('cannot be loaded')])
      return logged('engine.load_failed').length > 1
    }, 'a second host that could not load it')
    await until(() => service.enginePids().length === 0, 'the end of that host')
    expect(logged('engine.died')).toEqual([])
    expect(log.join('')).not.toContain('SIGKILL')
    await rm(sourcePath, { recursive: true })
  })
})

describe('pending requests', () => {
  it('are limited by the number that was set, above 272 too, and those who leave before their start are no error', async () => {
    await start({ maxPendingRequests: 300 })
    const gone = new AbortController()
    const held = Array.from({ length: 300 }, () =>
      service.fetch(CHAT, { json: say('WAIT'), signal: gone.signal }).catch(() => null),
    )
    await service.untilEngineHas({ waiting: 300 })
    expect((await service.fetch(CHAT, { json: say('hi') })).status).toBe(429)
    gone.abort()
    await Promise.all(held)
    await until(() => logged('http.request').filter((line) => line.status === 499).length === 300, '300 lines of 499')
    expect(errors()).toEqual([])
  })
})

describe('shutdown', () => {
  it('at its deadline ends streams with an error event and [DONE], and answers the others with 503', async () => {
    await start()
    const streams = await Promise.all([openStream('FOREVER'), openStream('FOREVER')])
    const waiting = service.fetch(CHAT, { json: say('WAIT') })
    const plain = service.fetch(CHAT, { json: say('FOREVER') })
    await service.untilEngineHas({ running: 3, waiting: 1 })
    const closed = service.close(300)
    for (const stream of streams) {
      const text = await stream.rest()
      expect(text).toContain('"message":"the server is shutting down"')
      expect(text.trimEnd().endsWith('data: [DONE]')).toBe(true)
    }
    for (const response of await Promise.all([waiting, plain])) {
      expect([response.status, response.headers.get('retry-after')]).toEqual([503, '5'])
    }
    await closed
  })
})
