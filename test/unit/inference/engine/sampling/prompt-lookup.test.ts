import { describe, expect, it } from 'vitest'
import { PromptLookup } from '#inference/engine/sampling/prompt-lookup.js'

describe('prompt lookup', () => {
  it('proposes what followed the last three tokens the last time', () => {
    const lookup = new PromptLookup([1, 2, 3, 4, 5, 6, 1, 2, 3, 7, 8, 9])
    expect(lookup.propose([1, 2, 3], 8)).toEqual([7, 8, 9])
    expect(lookup.propose([1, 2, 3], 2)).toEqual([7, 8])
    expect(lookup.propose([1, 2, 3], 0)).toEqual([])
    expect(lookup.propose([1, 2, 3, 5], 8)).toEqual([])
  })

  it('proposes nothing for text too short to repeat', () => {
    expect(new PromptLookup([1]).propose([1], 8)).toEqual([])
  })

  it('goes on with a loop beyond what is there, in longer guesses as long as they hold', () => {
    const lookup = new PromptLookup([5])
    expect(lookup.propose([1, 2, 1, 2, 1], 8)).toEqual([2, 1, 2])
    lookup.record(3, 3)
    expect(lookup.propose([1, 2, 1, 2, 1, 2, 1, 2, 1], 8)).toEqual([2, 1, 2, 1, 2, 1])
    lookup.record(6, 1)
    expect(lookup.propose([1, 2, 1, 2, 1, 2, 1, 2, 1, 2, 1], 8)).toEqual([2, 1])
  })

  it('rests where guesses do not pay, longer each time, and tries again', () => {
    const lookup = new PromptLookup([1, 2, 3, 4])
    const rests: number[] = []
    let steps = 0
    for (let i = 0; i < 200; i++) {
      if (lookup.propose([1, 2, 3], 8).length === 0) {
        steps++
        continue
      }
      if (steps > 0) rests.push(steps)
      steps = 0
      lookup.record(3, 0)
    }
    expect(rests.slice(0, 4)).toEqual([8, 16, 32, 64])
  })
})
