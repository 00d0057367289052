/**
 * When a choice ends by its tokens, and which log-probabilities are reported.
 */
import { describe, expect, it } from 'vitest'
import { reportedLogprob, topTokens } from '#inference/engine/sampling/logprobs.js'
import { checkStop, type StopRules } from '#inference/engine/sampling/stop-conditions.js'

const RULES: StopRules = {
  eosTokenIds: new Set([0]),
  ignoreEos: false,
  stopTokenIds: new Set([7]),
  minTokens: 0,
  maxTokens: 5,
}

describe('stop conditions', () => {
  it('end of sequence stops without a reason', () => {
    expect(checkStop(RULES, 0, 1)).toEqual({ finishReason: 'stop', stopReason: null })
  })

  it('a stop id is the reason', () => {
    expect(checkStop(RULES, 7, 1)).toEqual({ finishReason: 'stop', stopReason: 7 })
  })

  it('ignore_eos leaves stop ids working', () => {
    const rules = { ...RULES, ignoreEos: true }
    expect(checkStop(rules, 0, 1)).toBeNull()
    expect(checkStop(rules, 7, 1)?.stopReason).toBe(7)
  })

  it('the length limit comes after stop tokens', () => {
    expect(checkStop(RULES, 3, 5)).toEqual({ finishReason: 'length', stopReason: null })
    expect(checkStop(RULES, 0, 5)?.finishReason).toBe('stop')
  })

  it('nothing but the length stops below min_tokens', () => {
    expect(checkStop({ ...RULES, minTokens: 3 }, 7, 2)).toBeNull()
    expect(checkStop({ ...RULES, minTokens: 3 }, 7, 3)?.stopReason).toBe(7)
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
