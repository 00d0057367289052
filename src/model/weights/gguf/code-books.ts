/**
 * GGUF types whose four bits are places in a list of values: IQ4_NL, IQ4_XS and MXFP4.
 *
 * Lists: `kvalues_iq4nl` and `kvalues_mxfp4` of llama.cpp's `ggml-common.h`; the latter are those of OCP's microscaling formats
 * (E2M1), doubled. Computed and tested as in `dequantize.ts`.
 */
import { half, uint16 } from './fields.js'

const NON_LINEAR = [-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113] as const
const E2M1_DOUBLED = [0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12] as const
/** Of E8M0 exponents, and one more, for the values are doubled. */
const MX_BIAS = 128

/** Block of 32: f16 d, 16 bytes of nibbles; low nibbles are values 0..15, high ones 16..31. x = d*value[q]. */
export function dequantizeIQ4_NL(bytes: Uint8Array, out: Float32Array): void {
  for (let o = 0, p = 0; o < out.length; o += 32, p += 18) {
    readNibbles(bytes, p + 2, { values: NON_LINEAR, scale: half(bytes, p), out, at: o })
  }
}

/**
 * Super-block of 256: f16 d, the upper bit pairs of eight scales, their low nibbles, then eight times the nibbles of IQ4_NL.
 * x = d*(scale-32)*value[q].
 */
export function dequantizeIQ4_XS(bytes: Uint8Array, out: Float32Array): void {
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
export function dequantizeMXFP4(bytes: Uint8Array, out: Float32Array): void {
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
