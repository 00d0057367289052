/**
 * Which precision `auto` is: by size where nothing is measured, else by a clear difference.
 */
import { describe, expect, it } from 'vitest'
import { choosePrecision, precisionByMeasure, precisionBySize } from '#inference/host/choose-precision.js'
import type { DecoderConfig } from '#model/architectures/decoder-config.js'
import type { Runtime } from '#numerics/runtime/runtime.js'
import { SMALL_CONFIG } from '../../../support/model/training-fixture.js'

/** A decoder of about 16 * layers * hidden^2 parameters. */
function decoder(hiddenSize: number, layerCount: number): DecoderConfig {
  const headCount = hiddenSize / 64
  return {
    ...SMALL_CONFIG,
    hiddenSize,
    layerCount,
    headCount,
    kvHeadCount: headCount,
    headSize: 64,
    mlpSize: 4 * hiddenSize,
  }
}

const SMALL = decoder(256, 4)
const MIDDLE = decoder(576, 30)
const LARGE = decoder(1024, 24)
const MEMORY = 32e9

describe('default precision', () => {
  it('is float32 for small models and int8 for those whose float32 would fill the memory, unmeasured', () => {
    expect(precisionBySize(SMALL, MEMORY)).toEqual({ precision: 'f32', reason: 'size', int8Speedup: null })
    expect(precisionBySize(MIDDLE, MEMORY)).toBeNull()
    expect(precisionBySize(LARGE, MEMORY)).toBeNull()
    expect(precisionBySize(LARGE, 8e9)).toEqual({ precision: 'int8', reason: 'size', int8Speedup: null })
  })

  it('leaves float32 up to 200 million parameters only where int8 is clearly faster', () => {
    expect(precisionByMeasure(MIDDLE, 2.3)).toEqual({ precision: 'int8', reason: 'measured', int8Speedup: 2.3 })
    for (const speedup of [0.4, 1, 1.25]) expect(precisionByMeasure(MIDDLE, speedup).precision).toBe('f32')
  })

  it('leaves int8 above that only where float32 is clearly faster', () => {
    for (const speedup of [3, 1, 0.8]) expect(precisionByMeasure(LARGE, speedup).precision).toBe('int8')
    expect(precisionByMeasure(LARGE, 0.5).precision).toBe('f32')
  })

  it('is what the setting says, whatever the model', async () => {
    const runtime: Runtime = {
      name: 'none',
      device: 'cpu',
      loadSession: () => Promise.reject(new Error('nothing is measured')),
      loadResident: () => Promise.reject(new Error('nothing is measured')),
    }
    for (const precision of ['f32', 'int8', 'int4'] as const) {
      const command = { precision, sourcePath: 'nowhere', preparedDir: 'nowhere', threads: null }
      const choice = await choosePrecision(command, { config: MIDDLE, runtime })
      expect(choice).toEqual({ precision, reason: 'setting', int8Speedup: null })
    }
  })
})
