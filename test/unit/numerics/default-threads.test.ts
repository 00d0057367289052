import { describe, expect, test } from 'vitest'
import { threadsBesideJob, threadsFor } from '#numerics/runtime/default-threads.js'

describe('threads', () => {
  test('are half of the cores for small models and all for others', () => {
    expect([1, 2, 3, 8].map((cores) => threadsFor(4e6, null, cores, 8))).toEqual([1, 1, 1, 4])
    expect(threadsFor(50e6, null, 2, 2)).toBe(1)
    expect(threadsFor(50e6 + 1, null, 2, 2)).toBeNull()
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
