import { setImmediate as nextTurn } from 'node:timers/promises'
import { getHeapStatistics } from 'node:v8'
import { afterEach, describe, expect, it } from 'vitest'
import { type IdleCollection, startIdleCollection } from '#service/idle-collection.js'
import { until } from '../../support/until.js'

const MB = 1024 ** 2
const CHECK_MS = 20

let collection: IdleCollection | null = null
afterEach(() => collection?.stop())

const heldBytes = () => getHeapStatistics().total_physical_size

/** Keeps a million objects until they are old, and drops them; returns the memory held with them. */
function leaveGarbage(): number {
  const objects = Array.from({ length: 1_000_000 }, (_, index) => ({ index, values: [index] }))
  return objects.length === 0 ? 0 : heldBytes()
}

/**
 * Leaves garbage until a look has found it; returns the memory held with it. V8 may take the garbage by itself before anybody
 * looks: then more is left.
 */
async function collectionOfGarbage(started: IdleCollection): Promise<number> {
  const before = started.count()
  let mostBytes = leaveGarbage()
  await until(() => {
    if (started.count() > before) return true
    if (heldBytes() < mostBytes - 50 * MB) mostBytes = leaveGarbage()
    return false
  }, 'a collection')
  return mostBytes
}

/** Calls `turn` for so long as some looks take. */
async function duringLooks(turn: () => Promise<unknown>): Promise<void> {
  const endMs = performance.now() + 10 * CHECK_MS
  while (performance.now() < endMs) await turn()
}

describe('startIdleCollection', () => {
  it('gives back what a burst has left, each time', async () => {
    const started = startIdleCollection({ checkMs: CHECK_MS })
    collection = started
    for (let burst = 0; burst < 3; burst += 1) {
      const mostBytes = await collectionOfGarbage(started)
      await until(() => heldBytes() < mostBytes - 50 * MB, 'the memory is given back')
    }
  })

  it('waits until the event loop rests', async () => {
    leaveGarbage()
    const started = startIdleCollection({ checkMs: CHECK_MS })
    collection = started
    await duringLooks(() => nextTurn())
    expect(started.count()).toBe(0)
    await collectionOfGarbage(started)
  })

  it('leaves a heap alone that has not grown', async () => {
    const started = startIdleCollection({ checkMs: CHECK_MS, leastGrowthBytes: 64 * MB })
    collection = started
    await collectionOfGarbage(started)
    await duringLooks(() => new Promise((resolve) => setTimeout(resolve, CHECK_MS)))
    expect(started.count()).toBe(1)
  })
})
