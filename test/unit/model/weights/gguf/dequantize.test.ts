/**
 * Dequantization, block by block, bit for bit against the PyPI package `gguf`: `test/support/model/gguf-goldens.py`.
 */
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { dequantizeGguf } from '../../../../../src/model/weights/gguf/dequantize.js'
import { GGUF_TYPES, READABLE_GGUF_TYPES } from '../../../../../src/model/weights/gguf/types.js'

const FIXTURES = join(import.meta.dirname, '../../../../fixtures/gguf')

test.each(READABLE_GGUF_TYPES)('%s blocks give the bits of the reference', (name) => {
  const blocks = Uint8Array.from(readFileSync(join(FIXTURES, `${name}.blocks`)))
  const expected = Uint8Array.from(readFileSync(join(FIXTURES, `${name}.values`)))
  const type = [...GGUF_TYPES.values()].find((candidate) => candidate.name === name)!
  const length = (blocks.length / type.blockBytes) * type.blockLength
  expect(length).toBe(expected.length / 4)
  const values = dequantizeGguf(name, blocks, length)
  // As raw bits, except that the sign of zero is free: the order of multiplications decides it.
  const bitsOf = (floats: Float32Array) => [...new Uint32Array(Float32Array.from(floats, (x) => x + 0).buffer)]
  expect(bitsOf(values)).toEqual(bitsOf(new Float32Array(expected.buffer)))
})
