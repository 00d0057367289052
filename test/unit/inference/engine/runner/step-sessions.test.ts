/** When the step's session is loaded anew, by sessions that only count. */
import { expect, test } from 'vitest'
import { StepSessions } from '#inference/engine/runner/step-sessions.js'
import type { Session } from '#numerics/runtime/runtime.js'

const MB = 1e6

function fixture({ weightBytes = 20 * MB }: { weightBytes?: number } = {}) {
  const seen = { resident: 100 * MB, loaded: 0, released: [] as number[] }
  const load = async (): Promise<Session> => {
    const number = ++seen.loaded
    const release = async (): Promise<void> => {
      seen.released.push(number)
      seen.resident = 110 * MB
    }
    return { inputNames: [], outputNames: [], run: async () => ({}), release }
  }
  const options = { load, threads: 2, fewThreads: 1, weightBytes, residentBytes: () => seen.resident }
  return { seen, open: () => StepSessions.open(options) }
}

const IDLE = (): boolean => true

test('a process that has grown loads its session anew and releases the one before, once', async () => {
  const { seen, open } = fixture()
  const sessions = await open()
  const first = sessions.current
  seen.resident = 200 * MB
  await sessions.renew(IDLE)
  expect([seen.loaded, seen.released, sessions.current === first]).toEqual([2, [1], false])
  await sessions.renew(IDLE)
  expect(seen.loaded).toBe(2)
  await sessions.release()
  expect(seen.released).toEqual([1, 2])
})

test('one that has hardly grown, or whose weights are large, does not', async () => {
  const small = fixture()
  const few = await small.open()
  small.seen.resident = 130 * MB
  await few.renew(IDLE)
  const large = fixture({ weightBytes: 500 * MB })
  const many = await large.open()
  large.seen.resident = 900 * MB
  await many.renew(IDLE)
  expect([small.seen.loaded, large.seen.loaded]).toEqual([1, 1])
})

test('a step that begins meanwhile keeps its session, and the new one is released', async () => {
  const { seen, open } = fixture()
  const sessions = await open()
  const first = sessions.current
  seen.resident = 200 * MB
  await sessions.renew(() => false)
  expect([sessions.current === first, seen.released]).toEqual([true, [2]])
})

test('beside a job, when the session of few threads runs, nothing is touched', async () => {
  const { seen, open } = fixture()
  const sessions = await open()
  await sessions.narrow()
  seen.resident = 200 * MB
  await sessions.renew(IDLE)
  expect([seen.loaded, sessions.isNarrow]).toEqual([2, true])
})
