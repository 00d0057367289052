/**
 * The order of training rows: resumable from a number, files balanced at any time, sequences apart from each other.
 */
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import type { Row } from '#training/trainer/row-batch.js'
import { openTrainingData, toMicroBatches, toRow } from '../../spark/data/data-order.js'
import { LOSS, REAL, rowBytes, START } from '../../spark/data/mixture.js'

const FILES = [
  { file: 'train-4.bin', rowLength: 4, rows: 26 },
  { file: 'train-8.bin', rowLength: 8, rows: 9 },
]
const MICRO_BATCH_TOKENS = 16

let directory: string
beforeAll(() => {
  directory = mkdtempSync(join(tmpdir(), 'spark-order-'))
  for (const [index, { file, rowLength, rows }] of FILES.entries()) {
    // The first token of a row tells its file and number.
    const packed = Array.from({ length: rows }, (_, row) => ({
      ids: new Uint16Array(rowLength).fill(1000 * index + row),
      flags: new Uint8Array(rowLength).fill(LOSS | REAL).fill(LOSS | REAL | START, 0, 1),
    }))
    writeFileSync(join(directory, file), Buffer.concat(packed.map(rowBytes)))
  }
})
afterAll(() => rmSync(directory, { recursive: true, force: true, maxRetries: 20 }))

const open = (train = FILES) => openTrainingData(directory, { train }, MICRO_BATCH_TOKENS)
const numbersOf = (rows: readonly Row[]): number[] => rows.map(({ tokens }) => tokens[0]!)
const take = (data: ReturnType<typeof open>, count: number): number[][] =>
  Array.from({ length: count }, () => numbersOf(data.next()))

describe('micro-batches', () => {
  test('have about the same number of tokens and rows of one length', () => {
    const data = open()
    for (let n = 0; n < 20; n++) {
      const rows = data.next()
      expect(new Set(rows.map(({ tokens }) => tokens.length)).size).toBe(1)
      expect(rows.reduce((sum, { tokens }) => sum + tokens.length, 0)).toBe(MICRO_BATCH_TOKENS)
    }
    data.close()
  })

  test('of an epoch are every row once, but for those that do not fill a last one; then all begins again', () => {
    const data = open()
    expect(data.epochLength).toBe(6 + 4)
    const epoch = take(data, data.epochLength)
    const expected = [
      ...Array.from({ length: 24 }, (_, row) => row),
      ...Array.from({ length: 8 }, (_, row) => 1000 + row),
    ]
    expect(epoch.flat().sort((a, b) => a - b)).toEqual(expected)
    expect(take(data, data.epochLength)).toEqual(epoch)
    data.close()
  })

  test('go on from any position, also in a later epoch, as if never stopped', () => {
    const straight = open()
    const all = take(straight, 35)
    for (const at of [0, 1, 7, 10, 23]) {
      const before = open()
      take(before, at)
      const position = JSON.parse(JSON.stringify(before.position)) as number[]
      const after = open()
      after.seek(position)
      expect(after.position).toEqual(position)
      expect(take(after, 35 - at), `after ${at}`).toEqual(all.slice(at))
      before.close()
      after.close()
    }
    straight.close()
  })

  test('read the files evenly: none is ever a micro-batch ahead of its share', () => {
    const data = open()
    for (let n = 1; n <= 40; n++) {
      data.next()
      const [first, second] = data.position as [number, number]
      expect(first + second).toBe(n)
      expect(Math.abs(first - (n * 6) / 10)).toBeLessThan(1)
    }
    data.close()
  })

  test('of a file with fewer rows than fill one, or none, are what there is', () => {
    const few = open([
      { ...FILES[0]!, rows: 3 },
      { ...FILES[1]!, rows: 0 },
    ])
    expect(take(few, 2)).toEqual([
      [0, 1, 2],
      [0, 1, 2],
    ])
    expect(few.epochLength).toBe(1)
    few.close()
  })
})

describe('a packed row', () => {
  const [first, next, silent, padding] = [START | REAL | LOSS, REAL | LOSS, REAL, 0]
  const row = toRow({
    ids: Uint16Array.of(5, 6, 7, 8, 9, 10, 0, 0),
    flags: Uint8Array.of(first, next, silent, START | REAL, next, next, padding, padding),
  })

  test('begins a segment and its positions at every START; padding has no segment', () => {
    expect([...row.groupIds]).toEqual([0, 0, 0, 1, 1, 1, -1, -1])
    expect(row.parentIds).toEqual(row.groupIds)
    expect([...row.positions.subarray(0, 6)]).toEqual([0, 1, 2, 0, 1, 2])
    expect([...row.lossMask]).toEqual([1, 1, 0, 0, 1, 1, 0, 0])
    expect([...row.tokens]).toEqual([5, 6, 7, 8, 9, 10, 0, 0])
  })

  test('trains no first token of a sequence, and shares the denominator of its step', () => {
    const other = toRow({ ids: Uint16Array.of(1, 2), flags: Uint8Array.of(first, next) })
    const { microBatches, tokens, trained } = toMicroBatches([[row], [other]])
    expect(microBatches.map(({ batch }) => batch.trained.map(({ index, label }) => [index, label]))).toEqual([
      [
        [1, 6],
        [4, 9],
        [5, 10],
      ],
      [[1, 2]],
    ])
    expect({ tokens, trained }).toEqual({ tokens: 8, trained: 4 })
    for (const { lossInputs } of microBatches)
      expect([...(lossInputs['denominator']!.data as Float32Array)]).toEqual([4])
  })
})
