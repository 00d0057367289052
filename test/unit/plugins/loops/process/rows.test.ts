/** Rows of a loop and their order: by the seed alone, every row once an epoch. */
import { describe, expect, it } from 'vitest'
import { stringifyExact } from '#base/json/exact-json.js'
import { defaultHeldOut } from '#plugins/loops/create-loop.js'
import { readRows, rowsOfStep, seedOf, splitRows } from '#plugins/loops/process/rows.js'

const spec = { seed: 7, promptsPerStep: 4 } as Parameters<typeof rowsOfStep>[2]

describe('rows of a step', () => {
  it('are every row once an epoch, each epoch in another order, the same by the same seed', () => {
    const all = Array.from({ length: 30 }, (_, step) => rowsOfStep(12, step, spec)).flat()
    const epochs = Array.from({ length: 10 }, (_, epoch) => all.slice(12 * epoch, 12 * (epoch + 1)))
    for (const epoch of epochs) expect(epoch.toSorted((a, b) => a - b)).toEqual(Array.from({ length: 12 }, (_, i) => i))
    expect(new Set(epochs.map(String)).size).toBeGreaterThan(1)
    expect(rowsOfStep(12, 5, spec)).toEqual(rowsOfStep(12, 5, spec))
    expect(rowsOfStep(12, 0, { ...spec, seed: 8 })).not.toEqual(rowsOfStep(12, 0, spec))
  })

  it('go on in the next epoch where one ends within a step', () => {
    const first = rowsOfStep(3, 0, spec)
    expect(new Set(first.slice(0, 3)).size).toBe(3)
    expect(first).toHaveLength(4)
  })

  it('have seeds below 2³¹ that differ', () => {
    const seeds = Array.from({ length: 100 }, (_, i) => seedOf(7, 'step', 3, i))
    expect(new Set(seeds).size).toBe(100)
    expect(seeds.every((seed) => Number.isInteger(seed) && seed >= 0 && seed < 2 ** 31)).toBe(true)
  })
})

describe('held-out rows', () => {
  const rows = Array.from({ length: 20 }, (_, i) => i)

  it('are chosen by the seed, and train nothing', () => {
    const { train, heldOut } = splitRows(rows, null, { seed: 7, heldOutRows: 6 })
    expect(heldOut).toHaveLength(6)
    expect([...train, ...heldOut].toSorted((a, b) => a - b)).toEqual(rows)
    expect(splitRows(rows, null, { seed: 7, heldOutRows: 6 }).heldOut).toEqual(heldOut)
    expect(splitRows(rows, null, { seed: 8, heldOutRows: 6 }).heldOut).not.toEqual(heldOut)
  })

  it('leave one row to train on, and are a file of their own where one is given', () => {
    expect(splitRows([1, 2], null, { seed: 1, heldOutRows: 5 }).train).toHaveLength(1)
    expect(splitRows(rows, [99], { seed: 1, heldOutRows: 5 })).toEqual({ train: rows, heldOut: [99] })
  })

  it.each([
    [1, 0],
    [6, 3],
    [40, 4],
    [500, 50],
    [9000, 200],
  ])('are of %i rows %i unless somebody says', (count, expected) => {
    expect(defaultHeldOut(count)).toBe(expected)
  })
})

describe('a file of prompts', () => {
  it('has messages or a prompt, and keeps numbers as they were written', () => {
    const [first, second] = readRows('{"messages":[{"role":"user","content":"a"}],"n":5.0}\n\n{"prompt":"b"}\n')
    expect(first?.messages).toEqual([{ role: 'user', content: 'a' }])
    expect(stringifyExact(first?.item ?? {})).toContain('"n":5.0')
    expect(second?.messages).toEqual([{ role: 'user', content: 'b' }])
  })

  it.each([
    ['', 'holds no row'],
    ['{"messages":[]}', 'line 1 has no "messages"'],
    ['{"prompt":"a"}\n{', 'line 2 is not JSON'],
    ['[1]', 'line 1 is no object'],
  ])('%j is refused', (text, words) => {
    expect(() => readRows(text)).toThrow(words)
  })
})
