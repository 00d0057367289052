/**
 * The measurement behind the default precision: made once per model, machine and runtime, and kept with the prepared weights.
 */
import { readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { hasFastIntegerProducts } from '#inference/engine/runner/integer-weights.js'
import { type Int8Kind, measurePrecisions } from '#inference/engine/runner/precision-probe.js'
import { measuredSpeedup } from '#inference/host/choose-precision.js'
import { createOrtRuntime } from '#numerics/runtime/ort-runtime.js'
import type { Runtime } from '#numerics/runtime/runtime.js'
import { SMALL_CONFIG } from '../../support/model/training-fixture.js'
import { temporaryDirectory } from '../../support/temporary-directory.js'

const real = createOrtRuntime()
/** The runtime, and how many sessions it has made. */
function counting(): { readonly runtime: Runtime; readonly sessions: () => number } {
  let count = 0
  const runtime: Runtime = {
    ...real,
    loadSession: (model, options) => {
      count++
      return real.loadSession(model, options)
    },
  }
  return { runtime, sessions: () => count }
}

describe('measured precision', () => {
  it('runs the products of every kind in the shapes of the model', async () => {
    const kinds: Int8Kind[] = (await hasFastIntegerProducts(real, 1)) ? ['blocks', 'integer'] : ['blocks']
    for (const int8Kind of kinds) {
      const speedup = await measurePrecisions(SMALL_CONFIG, { runtime: real, threads: 1, int8Kind })
      expect(Number.isFinite(speedup) && speedup > 0).toBe(true)
    }
  })

  it('is made once and kept; another number of threads, or a file that is no measurement, makes it again', async () => {
    const directory = await temporaryDirectory()
    const { runtime, sessions } = counting()
    const measure = (threads: number): Promise<number> =>
      measuredSpeedup(directory, { config: SMALL_CONFIG, runtime, threads })
    const first = await measure(1)
    const made = sessions()
    expect(made).toBeGreaterThan(0)
    expect(await measure(1)).toBe(first)
    expect(sessions()).toBe(made)
    await measure(2)
    expect(sessions()).toBe(2 * made)
    const path = join(directory, 'precision.json')
    expect(JSON.parse(await readFile(path, 'utf8'))).toMatchObject({
      version: 1,
      machine: expect.stringContaining('| 2 |'),
    })
    for (const broken of ['{', '{"version":1}', 'null']) {
      await writeFile(path, broken)
      const before = sessions()
      await measure(2)
      expect(sessions()).toBe(before + made)
    }
  })
})
