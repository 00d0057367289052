/**
 * Little-endian fields of GGUF's stored blocks, wherever they begin.
 */
import { halfToNumber } from '#numerics/tensor/half.js'

export function half(bytes: Uint8Array, offset: number): number {
  return halfToNumber(uint16(bytes, offset))
}

export function uint16(bytes: Uint8Array, offset: number): number {
  return (bytes[offset] as number) | ((bytes[offset + 1] as number) << 8)
}

export function uint32(bytes: Uint8Array, offset: number): number {
  return (uint16(bytes, offset) | (uint16(bytes, offset + 2) << 16)) >>> 0
}
