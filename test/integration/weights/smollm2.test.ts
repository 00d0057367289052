/**
 * The real model: SmolLM2-135M-Instruct as GGUF. Skipped where `npm run model:smollm2` has not fetched it.
 */
import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { parameterCount } from '../../../src/model/architectures/decoder-config.js'
import { checkDecoderTensors, decoderConfigOf } from '../../../src/model/architectures/registry.js'
import { openWeights } from '../../../src/model/weights/base-weights.js'
import smollm2 from '../../support/model/smollm2-135m.json' with { type: 'json' }

const MODEL = join(import.meta.dirname, '../../../.cache/models/SmolLM2-135M-Instruct.Q4_1.gguf')

test.skipIf(!existsSync(MODEL))('every tensor is read and finite, and the parameters add up', async () => {
  const source = await openWeights(MODEL)
  const config = decoderConfigOf(source)
  checkDecoderTensors(source, config)
  // a GGUF file stores the epsilon as float32
  expect(config).toEqual({ ...smollm2, normEpsilon: expect.closeTo(smollm2.normEpsilon, 9) })
  const storage = new Map<string, number>()
  let count = 0
  for (const name of source.tensorNames) {
    count += (await source.readFloat32(name)).length
    storage.set(source.tensorStorage(name), (storage.get(source.tensorStorage(name)) ?? 0) + 1)
  }
  await source.close()
  expect(count).toBe(parameterCount(config))
  expect(Object.fromEntries(storage)).toEqual({ Q8_0: 1, Q4_1: 210, F32: 61 })
})
