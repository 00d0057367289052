/**
 * Masks: who is left, and that what is left is a distribution.
 */
import { describe, expect, it } from 'vitest'
import {
  allowedTokens,
  argMaxAllowed,
  drawAllowed,
  logMass,
  maskLogprobs,
  maskScores,
} from '#inference/engine/sampling/token-mask.js'

/** A mask that allows `ids`. */
function maskOf(ids: readonly number[], vocabularySize: number): Uint32Array {
  const mask = new Uint32Array(Math.ceil(vocabularySize / 32))
  for (const id of ids) mask[id >>> 5] = ((mask[id >>> 5] ?? 0) | (1 << (id & 31))) >>> 0
  return mask
}

function logSoftmax(logits: readonly number[]): Float32Array {
  const sum = logits.reduce((total, x) => total + Math.exp(x), 0)
  return Float32Array.from(logits, (x) => x - Math.log(sum))
}

/** What is left of a row, or null if nothing is. */
function masked(row: Float32Array, ids: readonly number[]): Float32Array | null {
  const allowed = allowedTokens(maskOf(ids, row.length), row.length)
  const mass = logMass(row, allowed)
  return mass === Number.NEGATIVE_INFINITY ? null : maskLogprobs(row, allowed, mass)
}

describe('token masks', () => {
  it('are runs of neighbouring ids, across words and at their borders', () => {
    const runsOf = (ids: readonly number[], size: number) => allowedTokens(maskOf(ids, size), size)
    expect(runsOf([0, 31, 32, 63, 64, 69], 70)).toMatchObject({ count: 6, edges: [0, 1, 31, 33, 63, 65, 69, 70] })
    expect(runsOf([], 70)).toMatchObject({ count: 0, edges: [] })
    const all = Array.from({ length: 64 }, (_, id) => id)
    expect(runsOf(all, 64)).toMatchObject({ count: 64, edges: [0, 64] })
    expect(runsOf([1, 2, 3, 33], 64)).toMatchObject({ count: 4, edges: [1, 4, 33, 34] })
  })

  it('end with the vocabulary, however long the mask is', () => {
    expect(allowedTokens(Uint32Array.of(0xffffffff, 0xffffffff), 40).edges).toEqual([0, 40])
    expect(allowedTokens(Uint32Array.of(1, 0xff000000), 40)).toMatchObject({ count: 1, edges: [0, 1] })
    expect(allowedTokens(Uint32Array.of(0x80000000), 64).edges).toEqual([31, 32])
  })

  it('keep the allowed tokens at their scores', () => {
    const scores = Float32Array.from({ length: 70 }, (_, i) => i)
    const allowed = [0, 31, 32, 63, 64, 69]
    const row = maskScores(scores, allowedTokens(maskOf(allowed, 70), 70))
    const left = [...row].flatMap((value, id) => (value === Number.NEGATIVE_INFINITY ? [] : [id]))
    expect(left).toEqual(allowed)
    for (const id of allowed) expect(row[id]).toBe(id)
  })

  it('make the log-softmax over the allowed tokens, be they few or most, likely or not', () => {
    const logits = [1, -2, 3, 0.5, 2, -30, -31]
    for (const ids of [[0, 3, 4], [0, 1, 2, 3, 4], [0, 1, 3, 4, 5, 6], [1], [5, 6]]) {
      const row = masked(logSoftmax(logits), ids)
      const expected = logSoftmax(ids.map((id) => logits[id] ?? 0))
      for (const [i, id] of ids.entries()) expect(row?.[id]).toBeCloseTo(expected[i] ?? 0, 5)
      expect([...(row ?? [])].filter(Number.isFinite)).toHaveLength(ids.length)
    }
  })

  it('make it of tokens that the model all but rules out', () => {
    const row = masked(Float32Array.of(0, -2000, -2001, -3000), [1, 2, 3])
    const expected = logSoftmax([1, 0])
    expect(row?.[1]).toBeCloseTo(expected[0] ?? 0, 4)
    expect(row?.[2]).toBeCloseTo(expected[1] ?? 0, 4)
  })

  it('leave the row as it was', () => {
    const row = logSoftmax([1, 2])
    const copy = row.slice()
    masked(row, [1])
    expect(row).toEqual(copy)
  })

  it('leave nothing when nothing possible is allowed', () => {
    const row = Float32Array.of(0, Number.NEGATIVE_INFINITY)
    expect(masked(row, [1])).toBeNull()
    expect(masked(row, [])).toBeNull()
  })

  it('do not hide numbers that are not finite', () => {
    expect(masked(Float32Array.of(Number.NaN, 0), [0])?.[0]).toBeNaN()
    expect(masked(Float32Array.of(Number.NaN, 0, 0), [0, 1])?.[0]).toBeNaN()
  })

  it('name the most likely allowed token, the first of equals', () => {
    const row = Float32Array.of(9, 2, 5, 5, 1)
    expect(argMaxAllowed(row, allowedTokens(maskOf([1, 2, 3, 4], 5), 5))).toBe(2)
    expect(argMaxAllowed(row, allowedTokens(maskOf([4], 5), 5))).toBe(4)
  })

  it('draw allowed tokens as often as they are likely', () => {
    const probabilities = Float32Array.of(0.5, 0.1, 0, 0.1, 0.3)
    const allowed = allowedTokens(maskOf([1, 2, 3, 4], 5), 5)
    const drawn = [0, 0.19, 0.21, 0.39, 0.41, 0.999999].map((uniform) => drawAllowed(probabilities, allowed, uniform))
    expect(drawn.map((each) => each?.tokenId)).toEqual([1, 1, 3, 3, 4, 4])
    for (const each of drawn) {
      const p = probabilities[each?.tokenId ?? 0] as number
      expect(each?.logprob).toBeCloseTo(Math.log(p / 0.5), 7)
    }
  })

  it('leave it to the logarithms where probabilities are lost', () => {
    expect(drawAllowed(Float32Array.of(1, 1e-30, 0), allowedTokens(maskOf([1, 2], 3), 3), 0.5)).toBeNull()
  })
})
