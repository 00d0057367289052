/**
 * Binary16: every value survives a round trip, and everything between two values goes to the nearest, ties to the even one.
 */
import { expect, test } from 'vitest'
import { float16ToFloat32, float32ToFloat16, halfToNumber, numberToHalf } from '../../../../src/numerics/tensor/half.js'

const ALL = Uint16Array.from({ length: 65536 }, (_, bits) => bits)
const isNan = (bits: number) => (bits & 0x7fff) > 0x7c00
/** Bits of the float32 just above (`by` 1) or below (`by` -1) in magnitude. */
function neighbour(value: number, by: number): number {
  const bits = new Uint32Array(Float32Array.of(value).buffer)
  bits[0]! += by
  return new Float32Array(bits.buffer)[0]!
}

test('all 65,536 values survive a round trip; NaN stays NaN', () => {
  const back = float32ToFloat16(float16ToFloat32(ALL))
  const changed = [...ALL].filter((bits) => (isNan(bits) ? !isNan(back[bits]!) : back[bits] !== bits))
  expect(changed).toEqual([])
})

test('between any two neighbours: nearest, and the even one from exactly the middle', () => {
  const wrong: number[] = []
  for (let bits = 0; bits < 0x7bff; bits += 1) {
    // Neighbours have at most 12 significant bits together, so their middle is exact in float32.
    const middle = (halfToNumber(bits) + halfToNumber(bits + 1)) / 2
    const even = bits % 2 === 0 ? bits : bits + 1
    const isRight =
      numberToHalf(middle) === even &&
      numberToHalf(neighbour(middle, -1)) === bits &&
      numberToHalf(neighbour(middle, 1)) === bits + 1 &&
      numberToHalf(-middle) === (even | 0x8000)
    if (!isRight) wrong.push(bits)
  }
  expect(wrong).toEqual([])
})

test('65,520 and above is infinite, half of the smallest value and below is zero; the sign stays', () => {
  const values = [
    neighbour(65520, -1),
    65520,
    1e9,
    Number.POSITIVE_INFINITY,
    2 ** -25,
    neighbour(2 ** -25, 1),
    1e-40,
    -0,
  ]
  expect(values.map(numberToHalf)).toEqual([0x7bff, 0x7c00, 0x7c00, 0x7c00, 0, 1, 0, 0x8000])
  expect(values.map((value) => numberToHalf(-value) ^ 0x8000)).toEqual(values.map(numberToHalf))
})
