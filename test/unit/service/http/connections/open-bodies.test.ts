/**
 * Whose body is read next of those that come without a key, and that nothing is kept of who has left.
 */
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import { expect, it } from 'vitest'
import { createOpenBodies } from '#service/http/connections/open-bodies.js'

function collect(): void {
  setFlagsFromString('--expose-gc')
  ;(runInNewContext('gc') as () => void)()
}

it('reads the newest next, of those that are still there', () => {
  const bodies = createOpenBodies(1)
  const begun: string[] = []
  const enter = (name: string, isGone = false) =>
    bodies.enter('a', { begin: () => begun.push(name), isGone: () => isGone })
  const leaveFirst = enter('first')
  const leaveOld = enter('old')
  enter('older')
  const leaveEnded = enter('ended')
  enter('newest')
  enter('gone', true)
  leaveEnded()
  leaveFirst()
  leaveFirst()
  expect(begun).toEqual(['first', 'newest'])
  leaveOld()
  expect(begun).toEqual(['first', 'newest'])
})

it('keeps nothing of those that end while they wait', async () => {
  const bodies = createOpenBodies(1)
  const stay = () => ({ begin: () => undefined, isGone: () => false })
  const leave = bodies.enter('a', stay())
  const ended = ((): WeakRef<object>[] => {
    const requests = Array.from({ length: 20 }, stay)
    for (const request of requests) bodies.enter('a', request)()
    return requests.map((request) => new WeakRef(request.isGone))
  })()
  // a reference that was made in this turn is kept until it ends
  await new Promise(setImmediate)
  collect()
  expect(ended.filter((reference) => reference.deref() !== undefined)).toEqual([])
  leave()
})
