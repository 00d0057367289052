/** The list of what was started: its order, and that nothing in it keeps the rest from ending. */
import { describe, expect, test } from 'vitest'
import { createDeferred } from '#base/util/deferred.js'
import { createLifetimes, startOrEnd } from '#base/util/lifetimes.js'

describe('lifetimes', () => {
  test('end in the opposite order, one after the other, with the time they have', async () => {
    const seen: string[] = []
    const lifetimes = createLifetimes({
      started: (part) => seen.push(`+${part}`),
      ended: (part) => seen.push(`-${part}`),
    })
    const slow = createDeferred<void>()
    lifetimes.add('a', (deadlineMs) => seen.push(`a has ${deadlineMs}`))
    lifetimes.add('b', () => {
      seen.push('b ends')
      return slow.promise
    })
    const ending = lifetimes.end(70)
    expect(seen).toEqual(['+a', '+b', 'b ends'])
    slow.resolve()
    await ending
    expect(seen).toEqual(['+a', '+b', 'b ends', '-b', 'a has 70', '-a'])
  })

  test('a part that cannot be ended is in the way of no other, and is told of', async () => {
    const ended: string[] = []
    const failed: unknown[] = []
    const lifetimes = createLifetimes({ failed: (part, error) => failed.push([part, error]) })
    lifetimes.add('a', () => ended.push('a'))
    lifetimes.add('b', () => Promise.reject(new Error('b stays')))
    lifetimes.add('c', () => {
      throw new Error('c stays')
    })
    await expect(lifetimes.end(0)).rejects.toThrow('c stays')
    expect(ended).toEqual(['a'])
    expect(failed).toEqual([
      ['c', new Error('c stays')],
      ['b', new Error('b stays')],
    ])
  })

  test('they end once, however often it is asked for', async () => {
    let count = 0
    const lifetimes = createLifetimes()
    lifetimes.add('a', () => {
      count += 1
    })
    const first = lifetimes.end(0)
    expect(lifetimes.end(0)).toBe(first)
    await first
    await lifetimes.end(0)
    expect(count).toBe(1)
  })

  test('a start that fails ends what had begun, and says why it failed though an end fails too', async () => {
    const ended: string[] = []
    const lifetimes = createLifetimes({ ended: (part) => ended.push(part) })
    const started = startOrEnd(lifetimes, async () => {
      lifetimes.add('a', () => undefined)
      lifetimes.add('b', () => Promise.reject(new Error('b stays')))
      await Promise.resolve()
      throw new Error('no room for c')
    })
    await expect(started).rejects.toThrow('no room for c')
    expect(ended).toEqual(['b', 'a'])
  })

  test('a start that succeeds ends nothing', async () => {
    const lifetimes = createLifetimes({ ended: () => expect.unreachable() })
    const started = await startOrEnd(lifetimes, async () => {
      lifetimes.add('a', () => undefined)
      return 5
    })
    expect(started).toBe(5)
  })
})
