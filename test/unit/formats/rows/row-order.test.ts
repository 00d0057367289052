/** Rows in random order and rows held out: each once, the same for the same seed, in the memory of a block. */
import { describe, expect, test } from 'vitest'
import { orderRows, readInOrder } from '#formats/rows/row-order.js'

const ROWS = Array.from({ length: 101 }, (_, i) => `{"row":${i}}`)
// a blank line is no row, but it counts as a line
const CONTENT = `${ROWS.slice(0, 50).join('\n')}\n\n${ROWS.slice(50).join('\n')}`

async function* open() {
  for (let at = 0; at < CONTENT.length; at += 37) yield Buffer.from(CONTENT.slice(at, at + 37))
}

async function read(positions: Int32Array, blockBytes?: number) {
  const lines = []
  for await (const line of readInOrder(open, positions, {
    meanLength: 10,
    ...(blockBytes === undefined ? {} : { blockBytes }),
  })) {
    lines.push(line)
  }
  return lines
}

const ordered = (extra: Partial<Parameters<typeof orderRows>[1]> = {}) =>
  orderRows(open, { seed: 7, isShuffled: true, heldOutShare: 0.1, ...extra })

describe('orderRows', () => {
  test('puts every row into one of both lists, once', async () => {
    const { trained, heldOut } = await ordered()
    expect(heldOut.length).toBe(10)
    expect([...trained, ...heldOut].sort((a, b) => a - b)).toEqual(ROWS.map((_, i) => i))
    expect([...heldOut]).toEqual([...heldOut].sort((a, b) => a - b))
  })

  test('follows from the seed', async () => {
    expect(await ordered()).toEqual(await ordered())
    expect((await ordered({ seed: 8 })).trained).not.toEqual((await ordered()).trained)
  })

  test('holds the same rows out whether the rest is shuffled or not, which then keeps the order of the file', async () => {
    const [shuffled, plain] = [await ordered(), await ordered({ isShuffled: false })]
    expect(plain.heldOut).toEqual(shuffled.heldOut)
    expect([...plain.trained]).toEqual([...shuffled.trained].sort((a, b) => a - b))
    expect([...shuffled.trained]).not.toEqual([...plain.trained])
  })

  test.each([
    [0, 0],
    [0.001, 1],
    [0.5, 51],
    [0.9, 91],
  ])('holds out a share of %d: %i of 101 rows', async (heldOutShare, count) => {
    expect((await ordered({ heldOutShare })).heldOut.length).toBe(count)
  })

  test('never holds out all', async () => {
    const one = async function* () {
      yield Buffer.from('{}')
    }
    const { trained, heldOut } = await orderRows(one, { seed: 1, isShuffled: true, heldOutShare: 0.5 })
    expect([trained.length, heldOut.length]).toEqual([1, 0])
  })

  test('leaves few neighbours of a sorted file beside each other', async () => {
    const { trained } = await ordered({ heldOutShare: 0 })
    const neighbours = [...trained].filter((row, i) => i > 0 && Math.abs(row - trained[i - 1]!) === 1)
    expect(neighbours.length).toBeLessThan(10)
  })
})

describe('readInOrder', () => {
  test('gives the rows in the order asked for, with the numbers of their lines, in blocks of any size', async () => {
    const { trained } = await ordered()
    const wanted = [...trained].map((row) => ({ text: ROWS[row], number: row < 50 ? row + 1 : row + 2 }))
    for (const blockBytes of [undefined, 10, 95, 333]) {
      const lines = await read(trained, blockBytes)
      expect(lines.map(({ text, number }) => ({ text, number }))).toEqual(wanted)
    }
  })
})
