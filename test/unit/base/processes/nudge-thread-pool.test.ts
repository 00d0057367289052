/** That the pool gets work where somebody waits: a lost wake-up itself cannot be made to happen. */
import { createHook } from 'node:async_hooks'
import { expect, test } from 'vitest'
import { nudgeThreadPool } from '#base/processes/nudge-thread-pool.js'
import { createHost } from '#inference/host/host.js'

/** Requests to the file system that `act` makes. */
function requestsOf(act: () => void): number {
  let count = 0
  const hook = createHook({
    init(_, type) {
      if (type.startsWith('FSREQ')) count += 1
    },
  }).enable()
  act()
  hook.disable()
  return count
}

test('the pool is given work', () => {
  expect(requestsOf(() => undefined)).toBe(0)
  expect(requestsOf(nudgeThreadPool)).toBe(1)
})

test('an engine that is asked for a sign of life gives it some', () => {
  const sent: object[] = []
  const host = createHost({
    runtime: {} as never,
    clock: { monotonicMs: () => 0 } as never,
    send: (event) => void sent.push(event),
    exit: () => undefined,
  })
  expect(requestsOf(() => void host.handle({ type: 'ping', id: 'p' }))).toBe(1)
  expect(sent).toMatchObject([{ type: 'pong', id: 'p', waitingRequests: 0 }])
})
