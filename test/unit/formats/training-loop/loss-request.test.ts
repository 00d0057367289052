/**
 * Reading `ForwardBackwardRequest`: of which run it is before the rest has come, and what of it is counted.
 */
import { describe, expect, it } from 'vitest'
import {
  MAX_ROWS,
  readLossRequest,
  readLossRequestHead,
  readLossRequestPlace,
  readRunOfBeginning,
} from '#formats/training-loop/loss-request.js'
import { encodeLossCall, plainRows } from '../../../support/tinker/tinker-client.js'

const CALL = { loss: 'cross_entropy', data: plainRows([[1, 2, 3]]) }
const bytes = encodeLossCall('session:train:0', 7, CALL)
/** A message with more behind it. */
const followed = (more: Uint8Array): Uint8Array => new Uint8Array(Buffer.concat([bytes, more]))
const repeated = (part: readonly number[], count: number): Uint8Array =>
  Uint8Array.from({ length: part.length * count }, (_, i) => part[i % part.length] ?? 0)
/** A field of bytes. */
function field(number: number, content: Uint8Array): Uint8Array {
  const length = []
  for (let left = content.length; ; left = Math.floor(left / 128)) {
    length.push(left < 128 ? left : (left % 128) + 128)
    if (left < 128) break
  }
  return new Uint8Array(Buffer.concat([Uint8Array.of(number * 8 + 2, ...length), content]))
}

describe('of which run it is', () => {
  it('is known as soon as the name is there, and not before', () => {
    const known = Array.from({ length: 18 }, (_, length) => readRunOfBeginning(bytes.subarray(0, length)))
    expect(known).toEqual([...Array<null>(17).fill(null), 'session:train:0'])
    expect(readRunOfBeginning(bytes)).toBe('session:train:0')
  })

  it.each([
    ['other fields', Uint8Array.of(0x1a, 0x00), 'must begin with model_id'],
    ['a name that is too long', Uint8Array.of(0x0a, 0x80, 0x80, 0x01), 'longer than 500 bytes'],
    ['a name of 501 bytes', Uint8Array.of(0x0a, 0xf5, 0x03), 'longer than 500 bytes'],
  ])('is refused to %s', (_, beginning, message) => {
    if (beginning[1] === 0x80) expect(readRunOfBeginning(beginning.subarray(0, 2))).toBeNull()
    else expect(() => readRunOfBeginning(beginning)).toThrow(message)
  })

  it('is known of what is damaged behind it', () => {
    expect(readLossRequestPlace(followed(Uint8Array.of(0x1f)))).toEqual({ modelId: 'session:train:0', seqId: 7 })
  })
})

describe('counts', () => {
  it('a request of everyday rows has none of them near', () => {
    const rows = Array.from({ length: 1000 }, () => [1, 2, 3, 4])
    const many = encodeLossCall('s', 1, { loss: 'cross_entropy', data: plainRows(rows) })
    expect([readLossRequestHead(many).datumCount, readLossRequest(many).data.length]).toEqual([1000, 1000])
  })

  it('rows beyond the most are refused', () => {
    const most = followed(repeated([0x1a, 0x00], MAX_ROWS - 1))
    expect(readLossRequestHead(most).datumCount).toBe(MAX_ROWS)
    expect(() => readLossRequestHead(followed(repeated([0x1a, 0x00], MAX_ROWS)))).toThrow('more than 32768 rows')
  })

  it('fields that nobody asks for are refused beyond a number', () => {
    expect(() => readLossRequestHead(followed(repeated([0x78, 0x00], 100_000)))).toThrow('more than')
  })

  it('empty pieces inside of one row are refused', () => {
    const row = followed(field(3, repeated([0x0a, 0x00], 2_100_000)))
    expect(readLossRequestHead(row).datumCount).toBe(2)
    expect(() => readLossRequest(row)).toThrow('more than 2000000 fields')
  })

  it('a shape of a million dimensions is refused', () => {
    const tensor = Buffer.concat([
      field(1, new Uint8Array(4)),
      Uint8Array.of(0x18, 1),
      field(4, repeated([1], 1_000_000)),
    ])
    const entry = Buffer.concat([field(1, new TextEncoder().encode('weights')), field(2, tensor)])
    expect(() => readLossRequest(followed(field(3, field(2, entry))))).toThrow('more dimensions')
  })

  it.each([
    [4, 'loss_fn'],
    [1, 'model_id'],
  ])('a name in field %s of a megabyte is refused', (number, name) => {
    const long = followed(field(number, new Uint8Array(2 ** 20).fill(97)))
    expect(() => readLossRequestHead(long)).toThrow(`${name} is longer`)
  })
})
