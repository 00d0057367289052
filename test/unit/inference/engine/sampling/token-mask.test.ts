/**
 * Masks: who is left, and that what is left is a distribution.
 */
import { describe, expect, it } from 'vitest'
import { maskLogprobs, maskScores } from '#inference/engine/sampling/token-mask.js'

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

describe('token masks', () => {
  it('keep the allowed tokens at their scores, across words and at their borders', () => {
    const scores = Float32Array.from({ length: 70 }, (_, i) => i)
    const allowed = [0, 31, 32, 63, 64, 69]
    const masked = maskScores(scores, maskOf(allowed, 70))
    const left = [...masked].flatMap((value, id) => (value === Number.NEGATIVE_INFINITY ? [] : [id]))
    expect(left).toEqual(allowed)
    for (const id of allowed) expect(masked[id]).toBe(id)
  })

  it('keep whole words', () => {
    const scores = Float32Array.from({ length: 64 }, (_, i) => i)
    const masked = maskScores(scores, Uint32Array.of(0xffffffff, 1))
    expect([...masked.subarray(0, 33)]).toEqual([...scores.subarray(0, 33)])
    expect(masked[33]).toBe(Number.NEGATIVE_INFINITY)
  })

  it('make the log-softmax over the allowed tokens', () => {
    const logits = [1, -2, 3, 0.5, 2]
    const masked = maskLogprobs(logSoftmax(logits), maskOf([0, 3, 4], 5))
    const expected = logSoftmax([1, 0.5, 2])
    expect(masked?.[0]).toBeCloseTo(expected[0] ?? 0, 6)
    expect(masked?.[3]).toBeCloseTo(expected[1] ?? 0, 6)
    expect(masked?.[4]).toBeCloseTo(expected[2] ?? 0, 6)
    expect(masked?.[1]).toBe(Number.NEGATIVE_INFINITY)
  })

  it('leave the row as it was', () => {
    const row = logSoftmax([1, 2])
    const copy = row.slice()
    maskLogprobs(row, maskOf([1], 2))
    expect(row).toEqual(copy)
  })

  it('leave nothing when nothing possible is allowed', () => {
    const row = Float32Array.of(0, Number.NEGATIVE_INFINITY)
    expect(maskLogprobs(row, maskOf([1], 2))).toBeNull()
    expect(maskLogprobs(row, maskOf([], 2))).toBeNull()
  })

  it('do not hide numbers that are not finite', () => {
    expect(maskLogprobs(Float32Array.of(Number.NaN, 0), maskOf([0], 2))?.[0]).toBeNaN()
  })
})
