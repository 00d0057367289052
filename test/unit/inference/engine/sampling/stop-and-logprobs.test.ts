/**
 * When a choice ends by its tokens, and which log-probabilities are reported.
 */
import { describe, expect, it } from 'vitest'
import { createRng } from '#base/util/rng.js'
import { reportedLogprob, topTokens } from '#inference/engine/sampling/logprobs.js'
import { checkStop, type StopRules } from '#inference/engine/sampling/stop-conditions.js'

const RULES: StopRules = {
  eosTokenIds: new Set([0]),
  ignoreEos: false,
  stopTokenIds: new Set([7]),
  minTokens: 0,
  maxTokens: 5,
}

/** An answer of so many tokens that ends with `last` and repeats nothing. */
const outputs = (last: number, count: number): number[] => [
  ...Array.from({ length: count - 1 }, (_, i) => 100 + i),
  last,
]

describe('stop conditions', () => {
  it('end of sequence stops without a reason', () => {
    expect(checkStop(RULES, outputs(0, 1))).toEqual({ finishReason: 'stop', stopReason: null })
  })

  it('a stop id is the reason', () => {
    expect(checkStop(RULES, outputs(7, 1))).toEqual({ finishReason: 'stop', stopReason: 7 })
  })

  it('ignore_eos leaves stop ids working', () => {
    const rules = { ...RULES, ignoreEos: true }
    expect(checkStop(rules, outputs(0, 1))).toBeNull()
    expect(checkStop(rules, outputs(7, 1))?.stopReason).toBe(7)
  })

  it('the length limit comes after stop tokens', () => {
    expect(checkStop(RULES, outputs(3, 5))).toEqual({ finishReason: 'length', stopReason: null })
    expect(checkStop(RULES, outputs(0, 5))?.finishReason).toBe('stop')
  })

  it('nothing but the length stops below min_tokens', () => {
    expect(checkStop({ ...RULES, minTokens: 3 }, outputs(7, 2))).toBeNull()
    expect(checkStop({ ...RULES, minTokens: 3 }, outputs(7, 3))?.stopReason).toBe(7)
  })

  it.each<[string, number[], [min: number, max: number, count: number], boolean]>([
    ['copies of one token', [1, 2, 2, 2], [0, 3, 3], true],
    ['too few copies', [1, 2, 2], [0, 3, 3], false],
    ['copies of a pattern', [9, 1, 2, 1, 2], [0, 2, 2], true],
    ['a pattern longer than the longest', [1, 2, 3, 1, 2, 3], [0, 2, 2], false],
    ['a pattern shorter than the shortest', [1, 1, 1, 1, 5, 5], [2, 3, 2], false],
    ['a short pattern that makes a longer one', [1, 1, 1, 1], [2, 2, 2], true],
    ['copies that are not at the end', [1, 1, 1, 4], [0, 3, 3], false],
    ['exactly the whole answer', [1, 2, 3, 1, 2, 3], [3, 3, 2], true],
  ])('a repetition: %s', (_, ids, [minPatternSize, maxPatternSize, minCount], isFound) => {
    const rules = { ...RULES, maxTokens: 99, repetition: { minPatternSize, maxPatternSize, minCount } }
    const expected = isFound ? { finishReason: 'repetition', stopReason: 'repetition_detected' } : null
    expect(checkStop(rules, ids)).toEqual(expected)
    expect(checkStop({ ...rules, minTokens: ids.length + 1 }, ids)).toBeNull()
  })

  it('finds repetitions where trying all spans does', () => {
    const rng = createRng(3n)
    for (let trial = 0; trial < 500; trial++) {
      const ids = Array.from({ length: 1 + Math.floor(rng.uniform() * 14) }, () => Math.floor(rng.uniform() * 2))
      const [minPatternSize, minCount] = [Math.floor(rng.uniform() * 3), 2 + Math.floor(rng.uniform() * 3)]
      const maxPatternSize = minPatternSize + Math.floor(rng.uniform() * 4)
      let isFound = false
      for (let size = Math.max(1, minPatternSize); size <= maxPatternSize; size++) {
        const pattern = ids.slice(-size).join(',')
        const copies = Array.from({ length: minCount }, (_, i) =>
          ids.slice(ids.length - size * (i + 1), ids.length - size * i),
        )
        if (size * minCount <= ids.length && copies.every((copy) => copy.join(',') === pattern)) isFound = true
      }
      const repetition = { minPatternSize, maxPatternSize, minCount }
      const stop = checkStop({ ...RULES, eosTokenIds: new Set(), maxTokens: 99, repetition }, ids)
      expect(stop?.finishReason === 'repetition', JSON.stringify({ ids, repetition })).toBe(isFound)
    }
  })
})

describe('logprobs', () => {
  it('are reported by rank, the lower id first among equals', () => {
    const row = Float32Array.of(-3, -1, -2, -1, -5)
    expect(topTokens(row, 3)).toEqual([
      { id: 1, logprob: -1 },
      { id: 3, logprob: -1 },
      { id: 2, logprob: -2 },
    ])
  })

  it('hold as many tokens as the vocabulary has at most, and none for 0', () => {
    expect(topTokens(Float32Array.of(-1, -2), 20)).toHaveLength(2)
    expect(topTokens(Float32Array.of(-1, -2), 0)).toEqual([])
  })

  it('never are minus infinity', () => {
    expect(reportedLogprob(Number.NEGATIVE_INFINITY)).toBe(-9999)
    expect(topTokens(Float32Array.of(-1, Number.NEGATIVE_INFINITY), 2)[1]).toEqual({ id: 1, logprob: -9999 })
  })
})
