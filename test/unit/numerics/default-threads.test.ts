import { describe, expect, test } from 'vitest'
import { engineThreadsFor, threadsBesideJob, threadsFor } from '#numerics/runtime/default-threads.js'

describe('threads', () => {
  test('are half of the cores for small models and all for others', () => {
    expect([1, 2, 3, 8].map((cores) => threadsFor(4e6, null, cores, 8))).toEqual([1, 1, 1, 4])
    expect(threadsFor(50e6, null, 2, 2)).toBe(1)
    expect(threadsFor(50e6 + 1, null, 2, 2)).toBeNull()
  })

  test('of an engine are at most eight for small models, unless the setting says more', () => {
    expect([2, 16, 64].map((cores) => engineThreadsFor(4e6, null, cores, 64))).toEqual([1, 8, 8])
    expect(engineThreadsFor(4e6, 32, 64, 64)).toBe(32)
    expect(engineThreadsFor(135e6, null, 64, 64)).toBeNull()
    expect(threadsFor(4e6, null, 64, 64)).toBe(32)
  })

  test('are counted where a container has a part of the machine', () => {
    expect(threadsFor(135e6, null, 2, 64)).toBe(2)
  })

  test('are what the setting says, whatever the size', () => {
    expect(threadsFor(4e6, 2, 2)).toBe(2)
    expect(threadsFor(135e6, 1, 2)).toBe(1)
  })

  test('are half of the cores beside a job, where nothing is set and a model has more alone', () => {
    expect([1, 2, 3, 8].map((cores) => threadsBesideJob(135e6, null, cores))).toEqual([null, 1, 1, 4])
    expect(threadsBesideJob(4e6, null, 8)).toBeNull()
    expect(threadsBesideJob(135e6, 2, 8)).toBeNull()
  })
})
