/**
 * Reads protobuf messages field by field, without a schema. Bytes are views of the message: nothing is copied.
 *
 * Fields that nobody asks for are passed over, as the format wants it. Source: https://protobuf.dev/programming-guides/encoding.
 */
import { InvalidRequestError } from '../errors/errors.js'

/** Wire types of a field's tag. */
const VARINT = 0
const FIXED64 = 1
const LENGTH_DELIMITED = 2
const FIXED32 = 5

const utf8 = new TextDecoder('utf-8', { fatal: true })

/** One field as it stands in the message. */
export interface ProtobufField {
  readonly number: number
  /** An integer, or the bits of a fixed-size number as eight or four bytes, or the bytes of a text, bytes or message. */
  readonly value: number | Uint8Array
}

/**
 * The fields of a message in their order.
 *
 * @throws {InvalidRequestError} `malformed_protobuf` where the message breaks off or has an unknown encoding
 */
export function* readFields(message: Uint8Array): Generator<ProtobufField> {
  let at = 0
  const varint = (): number => {
    let value = 0
    let scale = 1
    for (let count = 0; count < 10; count++) {
      const byte = message[at++]
      if (byte === undefined) throw malformed('ends inside an integer')
      // the tenth byte of a negative number lies beyond 2^53: only its sign matters, and no field here is negative
      value += (byte & 127) * scale
      scale *= 128
      if (byte < 128) return value
    }
    throw malformed('holds an integer of more than ten bytes')
  }
  const take = (length: number): Uint8Array => {
    if (at + length > message.length) throw malformed('ends inside a field')
    at += length
    return message.subarray(at - length, at)
  }
  while (at < message.length) {
    const tag = varint()
    const number = Math.floor(tag / 8)
    const wireType = tag % 8
    if (wireType === VARINT) yield { number, value: varint() }
    else if (wireType === LENGTH_DELIMITED) yield { number, value: take(varint()) }
    else if (wireType === FIXED64) yield { number, value: take(8) }
    else if (wireType === FIXED32) yield { number, value: take(4) }
    else throw malformed(`holds a field of wire type ${wireType}`)
  }
}

/** @throws {InvalidRequestError} `malformed_protobuf` if the field holds bytes */
export function integerOf({ number, value }: ProtobufField): number {
  if (typeof value === 'number') return value
  throw malformed(`has bytes in field ${number}, expected an integer`)
}

/** @throws {InvalidRequestError} `malformed_protobuf` if the field holds an integer */
export function bytesOf({ number, value }: ProtobufField): Uint8Array {
  if (typeof value !== 'number') return value
  throw malformed(`has an integer in field ${number}, expected bytes`)
}

/** @throws {InvalidRequestError} `malformed_protobuf` for what is no UTF-8 */
export function textOf(field: ProtobufField): string {
  try {
    return utf8.decode(bytesOf(field))
  } catch (cause) {
    if (cause instanceof InvalidRequestError) throw cause
    throw malformed(`has no UTF-8 text in field ${field.number}`)
  }
}

/** A `double`. @throws {InvalidRequestError} `malformed_protobuf` */
export function doubleOf(field: ProtobufField): number {
  const bytes = bytesOf(field)
  if (bytes.length !== 8) throw malformed(`has ${bytes.length} bytes in field ${field.number}, expected a double`)
  return new DataView(bytes.buffer, bytes.byteOffset, 8).getFloat64(0, true)
}

/** Integers of a repeated field: one of them, or several in packed form. */
export function integersOf(field: ProtobufField): number[] {
  if (typeof field.value === 'number') return [field.value]
  // in a message of their own each integer would have a tag: the same bytes are read without one
  const integers: number[] = []
  let value = 0
  let scale = 1
  for (const byte of field.value) {
    value += (byte & 127) * scale
    scale *= 128
    if (byte >= 128) continue
    integers.push(value)
    value = 0
    scale = 1
  }
  if (scale !== 1) throw malformed(`breaks off inside the integers of field ${field.number}`)
  return integers
}

function malformed(problem: string): InvalidRequestError {
  return new InvalidRequestError('malformed_protobuf', `the protobuf message ${problem}`)
}
