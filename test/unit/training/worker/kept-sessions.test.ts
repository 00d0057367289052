/**
 * Which sessions are used again, and when they are freed.
 */
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import type { Runtime } from '#numerics/runtime/runtime.js'
import { keepSessions } from '#training/worker/kept-sessions.js'
import { temporaryDirectory } from '../../../support/temporary-directory.js'

function recordingRuntime(): { runtime: Runtime; log: string[] } {
  const log: string[] = []
  let count = 0
  const runtime: Runtime = {
    name: 'recording',
    device: 'cpu',
    loadSession: async () => {
      const id = ++count
      log.push(`load ${id}`)
      return {
        inputNames: [],
        outputNames: [],
        run: async () => ({}),
        release: async () => void log.push(`free ${id}`),
      }
    },
    loadResident: async () => null,
  }
  return { runtime, log }
}

describe('kept sessions', () => {
  it('are those of equal graphs with equal options in the same directory', async () => {
    const directory = await temporaryDirectory()
    const { runtime, log } = recordingRuntime()
    const kept = keepSessions(runtime, { isMemoryShort: () => false })
    const use = async (bytes: string, options = {}) => {
      const path = join(directory, `${Math.random()}.onnx`)
      await writeFile(path, bytes)
      const session = await kept.runtime.loadSession(path, options)
      await session.release()
      await session.release()
    }
    await use('a', { threads: 1, isPrepacked: false })
    await use('a', { isPrepacked: false, threads: 1 })
    expect(log).toEqual(['load 1'])
    await use('a', { threads: 2 })
    await use('b')
    expect(log).toEqual(['load 1', 'load 2', 'load 3', 'free 1'])
    await use('b', { profilePrefix: 'x' })
    expect(log.slice(4)).toEqual(['load 4', 'free 4', 'free 4'])
    await kept.clear()
    expect(log.slice(7)).toEqual(['free 2', 'free 3'])
  })

  it('serve one user at a time, and give way when memory is short', async () => {
    const directory = await temporaryDirectory()
    const { runtime, log } = recordingRuntime()
    let isMemoryShort = false
    const kept = keepSessions(runtime, { isMemoryShort: () => isMemoryShort })
    const load = async (name: string) => {
      await writeFile(join(directory, name), name)
      return kept.runtime.loadSession(join(directory, name))
    }
    const both = [await load('a'), await load('a')]
    for (const session of both) await session.release()
    expect(log).toEqual(['load 1', 'load 2', 'free 1'])
    isMemoryShort = true
    await load('b')
    expect(log.slice(3)).toEqual(['free 2', 'load 3'])
  })
})
