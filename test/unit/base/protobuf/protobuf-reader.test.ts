import { expect, test } from 'vitest'
import { InvalidRequestError } from '#base/errors/errors.js'
import { bytesOf, doubleOf, integerOf, integersOf, readFields, textOf } from '#base/protobuf/protobuf-reader.js'
import { ProtobufWriter } from '#base/protobuf/protobuf-writer.js'

const fieldsOf = (bytes: Uint8Array) => [...readFields(bytes)]

test('what the writer wrote is read back, in order', () => {
  const inner = new ProtobufWriter().string(1, 'käse').double(2, -0.1)
  const bytes = new ProtobufWriter()
    .integer(1, 300)
    .integers(4, [0, 127, 128, 2 ** 40])
    .message(20, inner)
    .bytes(3, Uint8Array.of(7, 8))
    .float(5, 1.5)
    .finish()
  const [count, list, message, raw, fixed] = fieldsOf(bytes)
  expect(count && integerOf(count)).toBe(300)
  expect(list && integersOf(list)).toEqual([0, 127, 128, 2 ** 40])
  expect(message?.number).toBe(20)
  const [name, value] = fieldsOf(message?.value as Uint8Array)
  expect(name && textOf(name)).toBe('käse')
  expect(value && doubleOf(value)).toBe(-0.1)
  expect(raw && [...bytesOf(raw)]).toEqual([7, 8])
  expect(fixed?.value).toHaveLength(4)
})

test.each([
  ['ends inside an integer', [0x08, 0x80]],
  ['ends inside a field', [0x0a, 5, 1]],
  ['holds a field of wire type 3', [0x0b]],
  ['holds an integer of more than ten bytes', [0x08, ...Array<number>(11).fill(0xff)]],
])('a message that %s is refused in these words', (words, bytes) => {
  const error = (() => {
    try {
      fieldsOf(Uint8Array.from(bytes))
      return null
    } catch (caught) {
      return caught
    }
  })()
  expect(error).toBeInstanceOf(InvalidRequestError)
  expect(error).toMatchObject({ code: 'malformed_protobuf', message: expect.stringContaining(words) })
})

test('a field of another encoding than asked for is refused', () => {
  const [integer, bytes] = fieldsOf(new ProtobufWriter().integer(1, 5).bytes(2, Uint8Array.of(0xff, 0xfe)).finish())
  if (integer === undefined || bytes === undefined) throw new Error('two fields were written')
  expect(() => bytesOf(integer)).toThrow('has an integer in field 1, expected bytes')
  expect(() => integerOf(bytes)).toThrow('has bytes in field 2, expected an integer')
  expect(() => textOf(bytes)).toThrow('has no UTF-8 text in field 2')
  expect(() => doubleOf(bytes)).toThrow('has 2 bytes in field 2, expected a double')
  expect(() => integersOf({ number: 9, value: Uint8Array.of(1, 0x80) })).toThrow('breaks off')
})
