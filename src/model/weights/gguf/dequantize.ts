/**
 * Turns GGUF's stored blocks into float32, one function per type.
 *
 * Every formula is computed in double precision from exact factors and rounded once when stored, which gives the same
 * bits as the float32 arithmetic of the reference. Block layouts: `ggml-common.h` and `ggml-quants.c` of llama.cpp;
 * tested block by block against the PyPI package `gguf`, see `test/support/model/gguf-goldens.py`.
 */
import { bfloat16ToFloat32, float16ToFloat32 } from '#numerics/tensor/half.js'
import { half, uint16, uint32 } from './fields.js'
import type { ReadableGgufType } from './types.js'

/**
 * GGUF types whose four bits are places in a list of values: IQ4_NL, IQ4_XS and MXFP4.
 *
 * Lists: `kvalues_iq4nl` and `kvalues_mxfp4` of llama.cpp's `ggml-common.h`; the latter are those of OCP's microscaling formats
 * (E2M1), doubled. Computed and tested as in `dequantize.ts`.
 */
const NON_LINEAR = [-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113] as const
const E2M1_DOUBLED = [0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12] as const
/** Of E8M0 exponents, and one more, for the values are doubled. */
const MX_BIAS = 128

/** Block of 32: f16 d, 16 bytes of nibbles; low nibbles are values 0..15, high ones 16..31. x = d*value[q]. */
function dequantizeIQ4_NL(bytes: Uint8Array, out: Float32Array): void {
  for (let o = 0, p = 0; o < out.length; o += 32, p += 18) {
    readNibbles(bytes, p + 2, { values: NON_LINEAR, scale: half(bytes, p), out, at: o })
  }
}

/**
 * Super-block of 256: f16 d, the upper bit pairs of eight scales, their low nibbles, then eight times the nibbles of IQ4_NL.
 * x = d*(scale-32)*value[q].
 */
function dequantizeIQ4_XS(bytes: Uint8Array, out: Float32Array): void {
  for (let o = 0, p = 0; o < out.length; o += 256, p += 136) {
    const d = half(bytes, p)
    const high = uint16(bytes, p + 2)
    for (let part = 0; part < 8; part++) {
      const low = (bytes[p + 4 + (part >> 1)] as number) >> (4 * (part & 1))
      const scale = d * (((low & 15) | (((high >> (2 * part)) & 3) << 4)) - 32)
      readNibbles(bytes, p + 8 + part * 16, { values: NON_LINEAR, scale, out, at: o + part * 32 })
    }
  }
}

/** Block of 32: an exponent e (E8M0), nibbles as IQ4_NL. x = 2^(e-127) * value[q]/2. */
function dequantizeMXFP4(bytes: Uint8Array, out: Float32Array): void {
  for (let o = 0, p = 0; o < out.length; o += 32, p += 17) {
    const scale = 2 ** ((bytes[p] as number) - MX_BIAS)
    readNibbles(bytes, p + 1, { values: E2M1_DOUBLED, scale, out, at: o })
  }
}

interface Target {
  readonly values: readonly number[]
  readonly scale: number
  readonly out: Float32Array
  readonly at: number
}

/** 32 values from 16 bytes. */
function readNibbles(bytes: Uint8Array, from: number, { values, scale, out, at }: Target): void {
  for (let j = 0; j < 16; j++) {
    const q = bytes[from + j] as number
    out[at + j] = scale * (values[q & 15] as number)
    out[at + 16 + j] = scale * (values[q >> 4] as number)
  }
}

/** Reads all blocks of `bytes` into `out`, whose length decides how many there are. */
type Dequantize = (bytes: Uint8Array, out: Float32Array) => void

const BLOCK = 32
const SUPER_BLOCK = 256

/**
 * @param bytes whole blocks, aligned to 4 bytes in their buffer
 * @param length number of values they hold
 */
export function dequantizeGguf(type: ReadableGgufType, bytes: Uint8Array, length: number): Float32Array {
  const out = new Float32Array(length)
  DEQUANTIZERS[type](bytes, out)
  return out
}

const DEQUANTIZERS: Readonly<Record<ReadableGgufType, Dequantize>> = {
  F32: (bytes, out) => out.set(new Float32Array(bytes.buffer, bytes.byteOffset, out.length)),
  F16: (bytes, out) => void float16ToFloat32(new Uint16Array(bytes.buffer, bytes.byteOffset, out.length), out),
  BF16: (bytes, out) => void bfloat16ToFloat32(new Uint16Array(bytes.buffer, bytes.byteOffset, out.length), out),
  Q8_0: dequantizeQ8_0,
  Q4_0: dequantizeQ4_0,
  Q4_1: dequantizeQ4_1,
  Q5_0: dequantizeQ5_0,
  Q5_1: dequantizeQ5_1,
  Q2_K: dequantizeQ2_K,
  Q3_K: dequantizeQ3_K,
  Q4_K: dequantizeQ4_K,
  Q5_K: dequantizeQ5_K,
  Q6_K: dequantizeQ6_K,
  IQ4_NL: dequantizeIQ4_NL,
  IQ4_XS: dequantizeIQ4_XS,
  MXFP4: dequantizeMXFP4,
}

/** Block: f16 d, int8 q[32]. x = d*q. */
function dequantizeQ8_0(bytes: Uint8Array, out: Float32Array): void {
  const signed = new Int8Array(bytes.buffer, bytes.byteOffset, bytes.length)
  for (let o = 0, p = 0; o < out.length; o += BLOCK, p += 34) {
    const d = half(bytes, p)
    for (let j = 0; j < BLOCK; j++) out[o + j] = d * (signed[p + 2 + j] as number)
  }
}

/** Block: f16 d, 16 bytes of nibbles; low nibbles are values 0..15, high ones 16..31. x = d*(q-8). */
function dequantizeQ4_0(bytes: Uint8Array, out: Float32Array): void {
  for (let o = 0, p = 0; o < out.length; o += BLOCK, p += 18) {
    const d = half(bytes, p)
    for (let j = 0; j < 16; j++) {
      const q = bytes[p + 2 + j] as number
      out[o + j] = d * ((q & 15) - 8)
      out[o + j + 16] = d * ((q >> 4) - 8)
    }
  }
}

/** Block: f16 d, f16 m, nibbles as Q4_0. x = d*q + m. */
function dequantizeQ4_1(bytes: Uint8Array, out: Float32Array): void {
  for (let o = 0, p = 0; o < out.length; o += BLOCK, p += 20) {
    const d = half(bytes, p)
    const m = half(bytes, p + 2)
    for (let j = 0; j < 16; j++) {
      const q = bytes[p + 4 + j] as number
      out[o + j] = d * (q & 15) + m
      out[o + j + 16] = d * (q >> 4) + m
    }
  }
}

/** Block: f16 d, 32 fifth bits, nibbles as Q4_0. x = d*(q-16). */
function dequantizeQ5_0(bytes: Uint8Array, out: Float32Array): void {
  for (let o = 0, p = 0; o < out.length; o += BLOCK, p += 22) {
    const d = half(bytes, p)
    const high = uint32(bytes, p + 2)
    for (let j = 0; j < 16; j++) {
      const q = bytes[p + 6 + j] as number
      out[o + j] = d * (((q & 15) | (((high >>> j) & 1) << 4)) - 16)
      out[o + j + 16] = d * (((q >> 4) | (((high >>> (j + 16)) & 1) << 4)) - 16)
    }
  }
}

/** Block: f16 d, f16 m, 32 fifth bits, nibbles as Q4_0. x = d*q + m. */
function dequantizeQ5_1(bytes: Uint8Array, out: Float32Array): void {
  for (let o = 0, p = 0; o < out.length; o += BLOCK, p += 24) {
    const d = half(bytes, p)
    const m = half(bytes, p + 2)
    const high = uint32(bytes, p + 4)
    for (let j = 0; j < 16; j++) {
      const q = bytes[p + 8 + j] as number
      out[o + j] = d * ((q & 15) | (((high >>> j) & 1) << 4)) + m
      out[o + j + 16] = d * ((q >> 4) | (((high >>> (j + 16)) & 1) << 4)) + m
    }
  }
}

/** Super-block: sixteen bytes of 4-bit (scale, min) pairs, 64 bytes of bit pairs, f16 d, f16 dmin. x = d*scale*q - dmin*min. */
function dequantizeQ2_K(bytes: Uint8Array, out: Float32Array): void {
  for (let o = 0, p = 0; o < out.length; o += SUPER_BLOCK, p += 84) {
    const d = half(bytes, p + 80)
    const dmin = half(bytes, p + 82)
    for (let group = 0; group < 16; group++) {
      const packed = bytes[p + group] as number
      const scale = d * (packed & 15)
      const min = dmin * (packed >> 4)
      const { quants, shift } = bitPairsOf(group)
      for (let j = 0; j < 16; j++) {
        const q = ((bytes[p + 16 + quants + j] as number) >> shift) & 3
        out[o + group * 16 + j] = scale * q - min
      }
    }
  }
}

/** Super-block: 32 bytes of third bits, 64 bytes of bit pairs, 12 bytes of sixteen 6-bit scales, f16 d. x = d*(scale-32)*(q-4). */
function dequantizeQ3_K(bytes: Uint8Array, out: Float32Array): void {
  for (let o = 0, p = 0; o < out.length; o += SUPER_BLOCK, p += 110) {
    const d = half(bytes, p + 108)
    for (let group = 0; group < 16; group++) {
      const low = (bytes[p + 96 + (group & 7)] as number) >> (group < 8 ? 0 : 4)
      const high = (bytes[p + 104 + (group & 3)] as number) >> (2 * (group >> 2))
      const scale = d * (((low & 15) | ((high & 3) << 4)) - 32)
      const { quants, shift } = bitPairsOf(group)
      for (let j = 0; j < 16; j++) {
        const pair = ((bytes[p + 32 + quants + j] as number) >> shift) & 3
        const third = ((bytes[p + (group & 1) * 16 + j] as number) >> (group >> 1)) & 1
        out[o + group * 16 + j] = scale * ((pair | (third << 2)) - 4)
      }
    }
  }
}

/** Where the bit pairs of sixteen values lie: 32 bytes hold 128 values, four to a byte. */
function bitPairsOf(group: number): { readonly quants: number; readonly shift: number } {
  return { quants: (group >> 3) * 32 + (group & 1) * 16, shift: 2 * ((group >> 1) & 3) }
}

/** Super-block: f16 d, f16 dmin, 12 bytes of eight 6-bit (scale, min) pairs, 128 bytes of nibbles. */
function dequantizeQ4_K(bytes: Uint8Array, out: Float32Array): void {
  const { scales, mins } = subBlockScales()
  for (let o = 0, p = 0; o < out.length; o += SUPER_BLOCK, p += 144) {
    readSubBlockScales(bytes, p, scales, mins)
    for (let pair = 0; pair < 4; pair++) {
      const quants = p + 16 + pair * 32
      const low = o + pair * 64
      for (let j = 0; j < 32; j++) {
        const q = bytes[quants + j] as number
        out[low + j] = (scales[2 * pair] as number) * (q & 15) - (mins[2 * pair] as number)
        out[low + 32 + j] = (scales[2 * pair + 1] as number) * (q >> 4) - (mins[2 * pair + 1] as number)
      }
    }
  }
}

/** Super-block: as Q4_K with 32 bytes of fifth bits (one bit per sub-block) before the nibbles. */
function dequantizeQ5_K(bytes: Uint8Array, out: Float32Array): void {
  const { scales, mins } = subBlockScales()
  for (let o = 0, p = 0; o < out.length; o += SUPER_BLOCK, p += 176) {
    readSubBlockScales(bytes, p, scales, mins)
    for (let pair = 0; pair < 4; pair++) {
      const quants = p + 48 + pair * 32
      const low = o + pair * 64
      for (let j = 0; j < 32; j++) {
        const q = bytes[quants + j] as number
        const high = (bytes[p + 16 + j] as number) >> (2 * pair)
        const lowValue = (q & 15) | ((high & 1) << 4)
        const highValue = (q >> 4) | ((high & 2) << 3)
        out[low + j] = (scales[2 * pair] as number) * lowValue - (mins[2 * pair] as number)
        out[low + 32 + j] = (scales[2 * pair + 1] as number) * highValue - (mins[2 * pair + 1] as number)
      }
    }
  }
}

/** Super-block: 128 bytes of low nibbles, 64 bytes of upper bit pairs, sixteen int8 scales, f16 d. x = d*scale*(q-32). */
function dequantizeQ6_K(bytes: Uint8Array, out: Float32Array): void {
  const signed = new Int8Array(bytes.buffer, bytes.byteOffset, bytes.length)
  for (let o = 0, p = 0; o < out.length; o += SUPER_BLOCK, p += 210) {
    const d = half(bytes, p + 208)
    for (let part = 0; part < 2; part++) {
      const target = o + part * 128
      const nibbles = p + part * 64
      const pairs = p + 128 + part * 32
      const scales = p + 192 + part * 8
      for (let j = 0; j < 32; j++) {
        const group = scales + (j >> 4)
        const first = bytes[nibbles + j] as number
        const second = bytes[nibbles + 32 + j] as number
        const high = bytes[pairs + j] as number
        out[target + j] = d * (signed[group] as number) * (((first & 15) | ((high & 3) << 4)) - 32)
        out[target + 32 + j] = d * (signed[group + 2] as number) * (((second & 15) | ((high & 12) << 2)) - 32)
        out[target + 64 + j] = d * (signed[group + 4] as number) * (((first >> 4) | (high & 48)) - 32)
        out[target + 96 + j] = d * (signed[group + 6] as number) * (((second >> 4) | ((high & 192) >> 2)) - 32)
      }
    }
  }
}

function subBlockScales(): { scales: Float64Array; mins: Float64Array } {
  return { scales: new Float64Array(8), mins: new Float64Array(8) }
}

/** Unpacks the eight 6-bit scales and mins of a K super-block at `p` and multiplies them by d and dmin. */
function readSubBlockScales(bytes: Uint8Array, p: number, scales: Float64Array, mins: Float64Array): void {
  const d = half(bytes, p)
  const dmin = half(bytes, p + 2)
  for (let j = 0; j < 4; j++) {
    const scale = bytes[p + 4 + j] as number
    const min = bytes[p + 8 + j] as number
    const rest = bytes[p + 12 + j] as number
    scales[j] = d * (scale & 63)
    mins[j] = dmin * (min & 63)
    scales[j + 4] = d * ((rest & 15) | ((scale >> 6) << 4))
    mins[j + 4] = dmin * ((rest >> 4) | ((min >> 6) << 4))
  }
}
