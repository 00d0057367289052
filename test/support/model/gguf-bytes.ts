/**
 * Builds GGUF files byte by byte, right or wrong on purpose, for the tests of the reader.
 */

/** A metadata value with its type number. */
export type GgufValue = { readonly type: number; readonly bytes: Uint8Array }

export interface GgufTensorRow {
  readonly name: string
  /** Fastest dimension first, as in the file. */
  readonly dims: readonly (number | bigint)[]
  readonly type: number
  readonly offset: number | bigint
}

export interface GgufParts {
  readonly magic?: string
  readonly version?: number
  readonly tensorCount?: number | bigint
  readonly keyCount?: number | bigint
  readonly keys?: readonly (readonly [string, GgufValue])[]
  readonly tensors?: readonly GgufTensorRow[]
  readonly alignment?: number
  readonly data?: Uint8Array
}

/** The file's bytes; counts default to what is really there. */
export function ggufBytes(parts: GgufParts): Uint8Array<ArrayBuffer> {
  const { keys = [], tensors = [], alignment = 32, data = new Uint8Array() } = parts
  const head = Buffer.concat([
    Buffer.from(parts.magic ?? 'GGUF', 'latin1'),
    u32(parts.version ?? 3),
    u64(parts.tensorCount ?? tensors.length),
    u64(parts.keyCount ?? keys.length),
    ...keys.flatMap(([key, value]) => [text(key), u32(value.type), value.bytes]),
    ...tensors.flatMap(({ name, dims, type, offset }) => [
      text(name),
      u32(dims.length),
      ...dims.map(u64),
      u32(type),
      u64(offset),
    ]),
  ])
  const padding = (alignment - (head.length % alignment)) % alignment
  return Uint8Array.from(Buffer.concat([head, new Uint8Array(padding), data]))
}

export function uint32Value(value: number): GgufValue {
  return { type: 4, bytes: u32(value) }
}

export function stringValue(value: string): GgufValue {
  return { type: 8, bytes: text(value) }
}

/** An array of a type number with any claimed length. */
export function arrayValue(type: number, length: number | bigint, bytes: Uint8Array): GgufValue {
  return { type: 9, bytes: Buffer.concat([u32(type), u64(length), bytes]) }
}

export function u32(value: number): Buffer {
  const bytes = Buffer.alloc(4)
  bytes.writeUInt32LE(value)
  return bytes
}

export function u64(value: number | bigint): Buffer {
  const bytes = Buffer.alloc(8)
  bytes.writeBigUInt64LE(BigInt(value))
  return bytes
}

/** Length and bytes. */
export function text(value: string): Buffer {
  const bytes = Buffer.from(value)
  return Buffer.concat([u64(bytes.length), bytes])
}
