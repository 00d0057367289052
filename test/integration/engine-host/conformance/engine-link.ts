/**
 * What every way to an engine host has to do, wherever the host runs: orders arrive whole and in turn, so do events, and the end is
 * told once. A second implementation calls this with a way of its own to the real host.
 */
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest'
import type { HostEvent, LoadCommand } from '#inference/host/protocol.js'
import { ensureTinyRandomModel } from '#model/built-in/tiny-random.js'
import type { EngineLink, OpenEngineLink } from '#service/processes/engine-link.js'
import { until } from '../../../support/until.js'
import { ask, converse, EventLog } from '../host-harness.js'

/** A link with all that it told. */
interface Opened {
  readonly link: EngineLink
  readonly log: EventLog
  /** Each end that was told, with how many events had come by then. */
  readonly ends: { readonly reason: string; readonly events: number }[]
}

/** @param name of the way */
export function engineLinkConformance(name: string, open: OpenEngineLink): void {
  describe(`${name} is a link to an engine host`, { timeout: 120_000 }, () => {
    let directory: string
    let load: LoadCommand
    const opened: Opened[] = []

    beforeAll(async () => {
      directory = await mkdtemp(join(tmpdir(), 'trainyard-link-'))
      load = {
        type: 'load',
        baseModel: 'tiny',
        sourcePath: await ensureTinyRandomModel(join(directory, 'model')),
        preparedDir: join(directory, 'prepared'),
        precision: 'f32',
        threads: 1,
        maxContextLength: 1024,
        maxConcurrentSequences: 4,
        kvCacheBytes: null,
        speculation: 'off',
      }
    })
    afterEach(() => {
      for (const { link } of opened) link.kill()
    })
    afterAll(() => rm(directory, { recursive: true, force: true, maxRetries: 20 }))

    function connect(): Opened {
      const log = new EventLog()
      const ends: Opened['ends'] = []
      let isOpen = false
      const link = open({
        received: (events) => {
          expect(isOpen).toBe(true)
          for (const event of events) log.push(event)
        },
        ended: (reason) => {
          expect(isOpen).toBe(true)
          ends.push({ reason, events: log.events.length })
        },
      })
      isOpen = true
      const one = { link, log, ends }
      opened.push(one)
      return one
    }

    async function connectAndLoad(): Promise<Opened> {
      const one = connect()
      one.link.send(load)
      expect(await answerToLoad(one)).toMatchObject({ type: 'loaded', baseModel: 'tiny' })
      return one
    }

    it('brings commands whole and in order, and events the same way', async () => {
      const { link, log } = connect()
      link.send(load)
      link.send({ type: 'ping', id: 'behind the load' })
      // a seed beyond 2^53 and an answer drawn by it: what a wire of JSON would round
      const drawn = { temperature: 1, seed: 9_007_199_254_740_993n, maxTokens: 40, topLogprobs: 3, ignoreEos: true }
      await log.when((event) => event.type === 'loaded')
      const answer = await converse(link.send, log, ask('a', 'Grüße, Äpfel und 🍏', drawn))
      expect(answer.ids).toHaveLength(40)
      expect(answer.logprobs).toHaveLength(40)
      expect(answer.logprobs[0]?.top).toHaveLength(3)
      expect((await converse(link.send, log, ask('b', 'Grüße, Äpfel und 🍏', drawn))).ids).toEqual(answer.ids)
      const rounded = { ...drawn, seed: 9_007_199_254_740_992n }
      expect((await converse(link.send, log, ask('c', 'Grüße, Äpfel und 🍏', rounded))).ids).not.toEqual(answer.ids)
      const kinds = log.events.filter((event) => 'id' in event && event.id === 'a').map((event) => event.type)
      expect([kinds[0], kinds.at(-1)]).toEqual(['started', 'finished'])
      expect(new Set(kinds.slice(1, -1))).toEqual(new Set(['delta']))
    })

    it('carries several calls at once, each to its end', async () => {
      const { link, log } = await connectAndLoad()
      const ids = ['one', 'two', 'three', 'four', 'five', 'six']
      for (const id of ids) link.send(ask(id, id, { maxTokens: 20, ignoreEos: true }))
      link.send({ type: 'ping', id: 'p' })
      await log.when((event) => event.type === 'pong' && event.id === 'p')
      await Promise.all(ids.map((id) => log.ended(id)))
      for (const id of ids) expect(log.answer(id).ids).toHaveLength(20)
    })

    it('stays open when a model cannot be loaded', async () => {
      const one = connect()
      one.link.send({ ...load, sourcePath: join(directory, 'nothing') })
      expect(await answerToLoad(one)).toMatchObject({ type: 'failed', id: null, error: { code: expect.any(String) } })
      expect(one.ends).toEqual([])
    })

    it('tells once of the end that was asked for, behind all that the host still said', async () => {
      const one = await connectAndLoad()
      one.link.send(ask('last', 'Hello', { maxTokens: 30, ignoreEos: true }))
      await one.log.when((event) => event.type === 'started')
      one.link.send({ type: 'shutdown', deadlineMs: 100_000 })
      await expectOneEnd(one)
      expect(one.log.answer('last')).toMatchObject({ finishReason: 'length' })
    })

    it('tells once of an end in the middle of an answer, and of nothing after it', async () => {
      const one = await connectAndLoad()
      one.link.send(ask('cut', 'Hello', { maxTokens: 900, ignoreEos: true }))
      await one.log.when((event) => event.type === 'delta')
      one.link.kill()
      await expectOneEnd(one)
    })
  })
}

const answerToLoad = ({ log }: Opened): Promise<HostEvent> =>
  log.when((event) => event.type === 'loaded' || (event.type === 'failed' && event.id === null))

async function expectOneEnd({ link, log, ends }: Opened): Promise<void> {
  await until(() => ends.length > 0, 'the end of the host')
  expect(ends[0]?.reason).toMatch(/^\w+ .+/)
  // nobody hears these, and nothing fails
  link.send({ type: 'ping', id: 'late' })
  link.kill()
  await new Promise(setImmediate)
  expect(ends).toHaveLength(1)
  expect(log.events).toHaveLength(ends[0]?.events ?? -1)
}
