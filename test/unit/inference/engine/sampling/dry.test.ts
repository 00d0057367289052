/**
 * DRY against its definition, tried out token by token.
 */
import { describe, expect, it } from 'vitest'
import { createRng } from '#base/util/rng.js'
import { createDry, type DryRules } from '#inference/engine/sampling/dry.js'

const RULES: DryRules = { multiplier: 0.5, base: 2, allowedLength: 2, lastTokens: -1, breakerIds: new Set() }

function penalties(rules: DryRules, promptIds: readonly number[], outputIds: readonly number[], size = 8): number[] {
  const logits = new Float32Array(size)
  createDry(rules, promptIds).apply(logits, outputIds)
  return Array.from(logits, (value) => (value === 0 ? 0 : -value))
}

/** The longest text before an earlier `candidate` that is also the end of the text, without a breaker in it. */
function repeatedLength(ids: readonly number[], candidate: number, breakers: ReadonlySet<number>): number {
  let longest = 0
  for (let at = 0; at < ids.length; at++) {
    if (ids[at] !== candidate) continue
    let length = 0
    while (length < at) {
      const id = ids[at - 1 - length] as number
      if (id !== ids[ids.length - 1 - length] || breakers.has(id)) break
      length++
    }
    longest = Math.max(longest, length)
  }
  return longest
}

describe('DRY', () => {
  it('penalizes what would go on with a repetition, by its length', () => {
    // "1 2 3" was followed by 4: 0.5 * 2 ** (3 - 2)
    expect(penalties(RULES, [1, 2, 3, 4, 7], [1, 2, 3])).toEqual([0, 0, 0, 0, 1, 0, 0, 0])
    expect(penalties(RULES, [2, 3, 4, 7], [1, 2, 3])).toEqual([0, 0, 0, 0, 0.5, 0, 0, 0])
    expect(penalties(RULES, [3, 4, 7], [1, 2, 3])).toEqual([0, 0, 0, 0, 0, 0, 0, 0])
  })

  it('looks at the last tokens only, and not across a breaker', () => {
    expect(penalties({ ...RULES, lastTokens: 7 }, [1, 2, 3, 4, 7], [1, 2, 3])[4]).toBe(0.5)
    expect(penalties({ ...RULES, lastTokens: 4 }, [1, 2, 3, 4, 7], [1, 2, 3])[4]).toBe(0)
    expect(penalties({ ...RULES, breakerIds: new Set([2]) }, [1, 2, 3, 4, 7], [1, 2, 3])[4]).toBe(0)
    expect(penalties({ ...RULES, breakerIds: new Set([1]) }, [1, 2, 3, 4, 7], [1, 2, 3])[4]).toBe(0.5)
  })

  it('is finite however long the repetition', () => {
    const ids = Array.from({ length: 4000 }, () => 1)
    expect(penalties(RULES, ids, [])[1]).toBeCloseTo(1e30, -26)
  })

  it('equals its definition on random texts', () => {
    const rng = createRng(11n)
    for (let trial = 0; trial < 300; trial++) {
      const ids = Array.from({ length: 2 + Math.floor(rng.uniform() * 30) }, () => Math.floor(rng.uniform() * 3))
      const breakerIds = new Set(trial % 3 === 0 ? [2] : [])
      const split = Math.floor(rng.uniform() * ids.length)
      const actual = penalties({ ...RULES, breakerIds }, ids.slice(0, split), ids.slice(split), 3)
      const expected = [0, 1, 2].map((candidate) => {
        const length = breakerIds.has(candidate) ? 0 : repeatedLength(ids, candidate, breakerIds)
        return length < 2 ? 0 : Math.fround(0.5 * 2 ** (length - 2))
      })
      expect(actual, `${ids} breakers ${[...breakerIds]}`).toEqual(expected)
    }
  })
})
