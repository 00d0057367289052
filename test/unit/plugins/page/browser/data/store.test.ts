/** What was read from a server: never given up for a newer question of its own, asked at a bounded pace, kept for the way back. */
import { afterEach, beforeEach, expect, test, vi } from 'vitest'
import { createStore, type Store } from '../../../../../../src/plugins/page/browser/data/store.js'

const GAP_MS = 600

let store: Store
beforeEach(() => {
  vi.useFakeTimers()
  store = createStore(GAP_MS)
})
afterEach(() => {
  vi.useRealTimers()
})

/** A server that answers when it is told to. */
function scriptedServer() {
  const waiting: { answer: (value: number) => void; refuse: (error: Error) => void; signal: AbortSignal }[] = []
  let asked = 0
  const load = (signal: AbortSignal): Promise<number> => {
    asked += 1
    return new Promise((answer, refuse) => waiting.push({ answer, refuse, signal }))
  }
  return {
    load,
    asked: () => asked,
    next: async (value: number | Error) => {
      const request = waiting.shift()
      if (value instanceof Error) request?.refuse(value)
      else request?.answer(value)
      await vi.advanceTimersByTimeAsync(0)
      return request?.signal.aborted
    },
  }
}

test('a question that runs is not given up: it is asked once more after its answer', async () => {
  const server = scriptedServer()
  store.watch('a', server.load, () => undefined)
  for (let i = 0; i < 5; i += 1) store.reload('a')
  expect(server.asked()).toBe(1)
  expect(await server.next(1)).toBe(false)
  expect(store.read('a').data).toBe(1)
  expect(server.asked()).toBe(2)
  await server.next(2)
  expect([server.asked(), store.read('a').data]).toEqual([2, 2])
})

test('news asks one question at a time, with a pause between, however much there is of it', async () => {
  const servers = ['a', 'b', 'c'].map((key) => ({ key, ...scriptedServer() }))
  for (const { key, load } of servers) store.watch(key, load, () => undefined)
  for (const { next } of servers) await next(0)
  const asked = () => servers.reduce((sum, server) => sum + server.asked(), 0)
  const before = asked()
  for (let ms = 0; ms < 6000; ms += 50) {
    for (const { key } of servers) store.touch(key)
    await vi.advanceTimersByTimeAsync(50)
    for (const { next } of servers) await next(1)
  }
  expect(asked() - before).toBeGreaterThanOrEqual(6000 / GAP_MS - 2)
  expect(asked() - before).toBeLessThanOrEqual(6000 / GAP_MS + 1)
  // each has its turn
  for (const server of servers) expect(server.asked()).toBeGreaterThanOrEqual(3)
})

test('what is there stays when the next answer fails, and is there at once when it is shown again', async () => {
  const server = scriptedServer()
  const leave = store.watch('a', server.load, () => undefined)
  await server.next(7)
  store.reload('a')
  await server.next(new Error('down'))
  expect(store.read('a')).toMatchObject({ data: 7, error: { message: 'down' } })
  leave()
  await vi.advanceTimersByTimeAsync(1000)
  expect(store.read('a').data).toBe(7)
  store.watch('a', server.load, () => undefined)
  expect(server.asked()).toBe(3)
})

test('the last one who leaves ends the question; a few answers are kept, not all', async () => {
  const server = scriptedServer()
  store.watch('a', server.load, () => undefined)()
  await vi.advanceTimersByTimeAsync(0)
  expect(await server.next(1)).toBe(true)
  expect(store.read('a').data).toBeNull()
  for (let i = 0; i < 100; i += 1) {
    const leave = store.watch(
      `key ${i}`,
      async () => i,
      () => undefined,
    )
    await vi.advanceTimersByTimeAsync(0)
    leave()
    await vi.advanceTimersByTimeAsync(0)
  }
  const kept = Array.from({ length: 100 }, (_, i) => store.read(`key ${i}`).data).filter((data) => data !== null)
  expect(kept.length).toBeLessThanOrEqual(20)
  expect(kept.at(-1)).toBe(99)
})

test('what changes without a question is told; somebody else finds nothing', async () => {
  let told = 0
  store.watch(
    'a',
    async () => 1,
    () => {
      told += 1
    },
  )
  await vi.advanceTimersByTimeAsync(0)
  store.change<number>('a', (data) => data + 1)
  expect([told, store.read('a').data]).toEqual([2, 2])
  store.change<number>('a', (data) => data)
  expect(told).toBe(2)
  store.clear(false)
  expect(store.read('a').data).toBeNull()
})
