/** Why a conversation was cut: same text in other tokens, or another text. */
import { describe, expect, it } from 'vitest'
import { findSplit } from '#training/rows/splits.js'

/** Token 1 is "a", 2 is "b", 3 is "ab". */
const textOf = (ids: readonly number[]): string => ids.map((id) => ['', 'a', 'b', 'ab', 'c'][id] ?? '?').join('')
const turn = (promptIds: number[], completionIds: number[]) => ({ promptIds, completionIds })

describe('findSplit', () => {
  it('finds none where every prompt begins with all tokens before it', () => {
    expect(findSplit([turn([1], [2]), turn([1, 2, 4], [3]), turn([1, 2, 4, 3, 1], [2])], textOf)).toBeNull()
    expect(findSplit([], textOf)).toBeNull()
  })

  it('tells a text that is spelled in other tokens', () => {
    expect(findSplit([turn([4], [1, 2]), turn([4, 3, 4], [1])], textOf)).toEqual({
      turn: 2,
      position: 1,
      cause: 'other_tokens',
      before: 1,
      now: 3,
    })
  })

  it('tells a turn that is rendered in another way, also one that is cut short', () => {
    expect(findSplit([turn([4], [1, 2]), turn([4, 1, 4], [1])], textOf)).toEqual({
      turn: 2,
      position: 2,
      cause: 'other_text',
      before: 2,
      now: 4,
    })
    expect(findSplit([turn([4], [1, 2]), turn([4, 1], [1])], textOf)).toMatchObject({
      cause: 'other_text',
      before: 2,
      now: null,
    })
  })
})
