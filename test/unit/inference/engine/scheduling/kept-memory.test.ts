/** How much of prompts and answers is kept for later ones, and when it is given back. */
import { expect, test, vi } from 'vitest'
import { kvBytesPerToken } from '#inference/engine/runner/kv-shape.js'
import { createIdleGiving, keptBytes } from '#inference/engine/scheduling/kept-memory.js'

const GB = 2 ** 30
const SPARK = kvBytesPerToken({ layerCount: 5, kvHeadCount: 2, headSize: 64 })
const LARGE = kvBytesPerToken({ layerCount: 30, kvHeadCount: 3, headSize: 64 })

test('a small model keeps four conversations on a machine of any size', () => {
  const conversation = 2048 * 5120
  const expected = { most: 4 * conversation, idle: conversation }
  for (const kvBytes of [6 * GB, 600 * GB]) expect(keptBytes(SPARK, 2048, kvBytes)).toEqual(expected)
})

test('a model that is large for the machine keeps half of what keys and values may take', () => {
  const { most, idle } = keptBytes(LARGE, 8192, 2 * GB)
  expect(most).toBe(GB)
  expect(idle).toBe(8192 * 46_080)
  expect(keptBytes(LARGE, 8192, 0.1 * GB)).toEqual({ most: 0.05 * GB, idle: 0.05 * GB })
})

test('it is given back in steps while nobody asks, and not at all where somebody does in between', () => {
  vi.useFakeTimers()
  try {
    const done: string[] = []
    const step = (name: string) => () => void done.push(name)
    const names = ['trim', 'shrink', 'rested', 'empty'] as const
    const [trim, shrink, rested, empty] = names.map(step) as [() => void, () => void, () => void, () => void]
    const giving = createIdleGiving({ trim, shrink, rested, empty })
    giving.start()
    vi.advanceTimersByTime(10_000)
    expect(done).toEqual(['trim'])
    giving.stop()
    vi.advanceTimersByTime(3_600_000)
    expect(done).toEqual(['trim'])
    giving.start()
    vi.advanceTimersByTime(30_000)
    expect(done).toEqual(['trim', 'trim', 'shrink'])
    vi.advanceTimersByTime(15_000)
    expect(done).toEqual(['trim', 'trim', 'shrink', 'rested'])
    vi.advanceTimersByTime(555_000)
    expect(done).toEqual(['trim', 'trim', 'shrink', 'rested', 'empty'])
  } finally {
    vi.useRealTimers()
  }
})
