/**
 * Reads any protobuf message by field number, without a schema: the tests' own reader, written from the format's description
 * (https://protobuf.dev/programming-guides/encoding) and independent of the writer.
 */

/** A field's values in order: integers, bytes of length-delimited fields, the bytes of a fixed32 or fixed64. */
export type Message = ReadonlyMap<number, readonly (bigint | Uint8Array)[]>

export function readMessage(bytes: Uint8Array): Message {
  const fields = new Map<number, (bigint | Uint8Array)[]>()
  let at = 0
  const varint = (): bigint => {
    let value = 0n
    for (let shift = 0n; ; shift += 7n) {
      const byte = bytes[at]
      at += 1
      if (byte === undefined) throw new Error('the message ends inside an integer')
      value |= BigInt(byte & 127) << shift
      if (byte < 128) return BigInt.asIntN(64, value)
    }
  }
  const take = (length: number): Uint8Array => {
    if (at + length > bytes.length) throw new Error('the message ends inside a field')
    at += length
    return bytes.subarray(at - length, at)
  }
  while (at < bytes.length) {
    const tag = Number(varint())
    const list = fields.get(tag >> 3) ?? []
    fields.set(tag >> 3, list)
    if ((tag & 7) === 0) list.push(varint())
    else if ((tag & 7) === 2) list.push(take(Number(varint())))
    else if ((tag & 7) === 1) list.push(take(8))
    else if ((tag & 7) === 5) list.push(take(4))
    else throw new Error(`unexpected wire type ${tag & 7}`)
  }
  return fields
}

/** Integers of a repeated field in packed form. */
export function readPacked(bytes: Uint8Array): number[] {
  // the same integers as fields of one message: each gets a tag of its own
  const values: number[] = []
  let start = 0
  bytes.forEach((byte, i) => {
    if (byte >= 128) return
    const [value] = readMessage(Uint8Array.of(8, ...bytes.subarray(start, i + 1))).get(1) ?? []
    values.push(Number(value))
    start = i + 1
  })
  return values
}

/** The messages of a field. */
export function messagesAt(message: Message, field: number): Message[] {
  return (message.get(field) ?? []).map((value) => readMessage(asBytes(value)))
}

/** The texts of a field. */
export function textsAt(message: Message, field: number): string[] {
  return (message.get(field) ?? []).map((value) => new TextDecoder('utf-8', { fatal: true }).decode(asBytes(value)))
}

/** The integers of a field. */
export function integersAt(message: Message, field: number): number[] {
  return (message.get(field) ?? []).map(Number)
}

export function asBytes(value: bigint | Uint8Array | undefined): Uint8Array {
  if (value instanceof Uint8Array) return value
  throw new Error('the field has no bytes')
}
