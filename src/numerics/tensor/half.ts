/**
 * Conversions between float32 and the two 16-bit floats, on raw bits. Round to nearest even; NaN stays NaN.
 *
 * Source: IEEE 754 binary16; bfloat16 as the upper half of binary32.
 */

const scratch = new Float32Array(1)
const scratchBits = new Uint32Array(scratch.buffer)
/** All 65,536 values; made by the first caller, since most processes that load this file widen nothing. */
let halfTable: Float32Array | null = null

/** Widens binary16 bits to float32. Exact. */
export function float16ToFloat32(bits: Uint16Array, out: Float32Array = new Float32Array(bits.length)): Float32Array {
  halfTable ??= buildHalfTable()
  for (let i = 0; i < bits.length; i++) out[i] = halfTable[bits[i] as number] as number
  return out
}

/** Widens one binary16 value. Exact. */
export function halfToNumber(bits: number): number {
  halfTable ??= buildHalfTable()
  return halfTable[bits & 0xffff] as number
}

/** Narrows float32 to binary16 bits, nearest even, overflow to infinity. */
export function float32ToFloat16(values: Float32Array, out: Uint16Array = new Uint16Array(values.length)): Uint16Array {
  for (let i = 0; i < values.length; i++) out[i] = numberToHalf(values[i] as number)
  return out
}

/** Widens bfloat16 bits to float32. Exact. */
export function bfloat16ToFloat32(bits: Uint16Array, out: Float32Array = new Float32Array(bits.length)): Float32Array {
  const outBits = new Uint32Array(out.buffer, out.byteOffset, out.length)
  for (let i = 0; i < bits.length; i++) outBits[i] = (bits[i] as number) << 16
  return out
}

/** Narrows float32 to bfloat16 bits, nearest even. */
export function float32ToBfloat16(
  values: Float32Array,
  out: Uint16Array = new Uint16Array(values.length),
): Uint16Array {
  const bits = new Uint32Array(values.buffer, values.byteOffset, values.length)
  for (let i = 0; i < bits.length; i++) {
    const x = bits[i] as number
    out[i] = (x & 0x7fffffff) > 0x7f800000 ? (x >>> 16) | 0x40 : (x + 0x7fff + ((x >>> 16) & 1)) >>> 16
  }
  return out
}

/** Narrows one number to binary16 bits, nearest even. */
export function numberToHalf(value: number): number {
  scratch[0] = value
  const x = scratchBits[0] as number
  const sign = (x >>> 16) & 0x8000
  const exponent = (x >>> 23) & 0xff
  const mantissa = x & 0x7fffff
  if (exponent === 0xff) return sign | 0x7c00 | (mantissa === 0 ? 0 : 0x200)
  const halfExponent = exponent - 112
  if (halfExponent >= 31) return sign | 0x7c00
  if (halfExponent <= 0) {
    if (halfExponent < -10) return sign
    const full = mantissa | 0x800000
    const shift = 14 - halfExponent
    const base = full >>> shift
    const rest = full & ((1 << shift) - 1)
    const half = 1 << (shift - 1)
    return sign | (rest > half || (rest === half && (base & 1) === 1) ? base + 1 : base)
  }
  const base = (halfExponent << 10) | (mantissa >>> 13)
  const rest = mantissa & 0x1fff
  // A carry out of the mantissa moves into the exponent, which is exactly the next binary16 value.
  return sign | (rest > 0x1000 || (rest === 0x1000 && (base & 1) === 1) ? base + 1 : base)
}

function buildHalfTable(): Float32Array {
  const table = new Float32Array(65536)
  for (let bits = 0; bits < 65536; bits++) {
    const sign = (bits & 0x8000) === 0 ? 1 : -1
    const exponent = (bits >>> 10) & 0x1f
    const mantissa = bits & 0x3ff
    if (exponent === 31) table[bits] = mantissa === 0 ? sign * Number.POSITIVE_INFINITY : Number.NaN
    else if (exponent === 0) table[bits] = sign * mantissa * 2 ** -24
    else table[bits] = sign * (1 + mantissa / 1024) * 2 ** (exponent - 15)
  }
  return table
}
