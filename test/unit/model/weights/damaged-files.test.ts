/**
 * Random damage to good files: each is either still a valid file or refused with our own error. Nothing else, ever.
 */
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { WeightsError } from '../../../../src/base/errors/errors.js'
import { createRng, type Rng } from '../../../../src/base/util/rng.js'
import { randomTensors, TINY_RANDOM } from '../../../../src/model/built-in/tiny-random.js'
import { parseGguf } from '../../../../src/model/weights/gguf-metadata.js'
import { decodeSafetensors, encodeSafetensors } from '../../../../src/model/weights/safetensors.js'

const ROUNDS = 3000
const GGUF = Uint8Array.from(readFileSync(join(import.meta.dirname, '../../../fixtures/gguf/tiny-llama.gguf')))
const SAFETENSORS = encodeSafetensors(randomTensors({ ...TINY_RANDOM, layerCount: 1, hiddenSize: 8, mlpSize: 8 }))

/** Cuts, overwrites, inserts or swaps bytes, mostly in the head. */
function damaged(bytes: Uint8Array, rng: Rng): Uint8Array {
  const at = rng.integer(rng.uniform() < 0.9 ? 2500 : bytes.length)
  switch (rng.integer(5)) {
    case 0:
      return bytes.slice(0, at)
    case 1:
      return Uint8Array.from([...bytes.subarray(0, at), rng.integer(256), ...bytes.subarray(at)])
    case 2: {
      // A whole 64-bit field at once: lengths and offsets are such fields.
      const copy = bytes.slice()
      const value = [0, 0xff, 0x7f, 1][rng.integer(4)]
      return copy.fill(value, at, at + 8)
    }
    default: {
      const copy = bytes.slice()
      for (let i = rng.integer(4); i >= 0; i--) copy[rng.integer(2500)] ^= 1 << rng.integer(8)
      return copy
    }
  }
}

test.each([
  ['GGUF', GGUF, (bytes: Uint8Array) => parseGguf(bytes, bytes.length).tensors.length],
  ['safetensors', SAFETENSORS, (bytes: Uint8Array) => decodeSafetensors(bytes).tensors.size],
] as const)('%s', (name, good, parse) => {
  expect(parse(good)).toBeGreaterThan(5)
  let refused = 0
  for (let round = 0; round < ROUNDS; round++) {
    const bytes = damaged(good, createRng(`${name} ${round}`))
    try {
      parse(bytes)
    } catch (error) {
      if (!(error instanceof WeightsError)) throw new Error(`round ${round}: ${String(error)}`, { cause: error })
      refused++
    }
  }
  expect(refused).toBeGreaterThan(ROUNDS / 3)
})
