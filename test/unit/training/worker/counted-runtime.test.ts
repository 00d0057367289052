import { expect, test } from 'vitest'
import type { Runtime } from '#numerics/runtime/runtime.js'
import { countRuns } from '#training/worker/counted-runtime.js'
import { keepSessions } from '#training/worker/kept-sessions.js'

/** On an accelerator, without one. */
const runtime: Runtime = {
  name: 'none',
  device: 'webgpu',
  loadSession: () => Promise.reject(new Error('nothing is loaded')),
  loadResident: () => Promise.reject(new Error('nothing is loaded')),
}

// a graph that is not rewritten for its device gives wrong gradients there, and no error says so
test('who wraps a runtime passes its device on', () => {
  expect(countRuns(runtime, () => undefined)).toMatchObject({ name: 'none', device: 'webgpu' })
  expect(keepSessions(runtime, { isMemoryShort: () => false }).runtime).toMatchObject({
    name: 'none',
    device: 'webgpu',
  })
})
