/**
 * Joining by ids: whatever a program did, the histories hold each sampled token once, in turns whose prompts begin with all
 * before them.
 */
import { describe, expect, it } from 'vitest'
import { createRng } from '#base/util/rng.js'
import { joinCalls } from '#plugins/recording/join.js'

interface Call {
  readonly name: string
  readonly promptIds: number[]
  readonly choices: { readonly tokenIds: number[] }[]
}

const call = (name: string, promptIds: number[], ...answers: number[][]): Call => ({
  name,
  promptIds,
  choices: answers.map((tokenIds) => ({ tokenIds })),
})
const namesOf = (calls: readonly Call[]): string[][] =>
  joinCalls(calls).map((turns) => turns.map((turn) => (turn.call as Call).name))

describe('joined', () => {
  it('are turns whose prompts hold all before them, whatever was said between', () => {
    const calls = [call('a', [1, 2], [3]), call('b', [1, 2, 3, 9, 9], [4, 5]), call('c', [1, 2, 3, 9, 9, 4, 5, 8], [6])]
    expect(namesOf(calls)).toEqual([['a', 'b', 'c']])
  })

  it('are not: another text, another tokenization, a compacted conversation, a second one that goes on from the same answer', () => {
    const first = call('a', [1, 2], [3, 4])
    expect(namesOf([first, call('b', [7, 7], [1])])).toEqual([['a'], ['b']])
    expect(namesOf([first, call('b', [1, 2, 34, 9], [1])])).toEqual([['a'], ['b']])
    expect(namesOf([first, call('b', [1, 2, 3], [1])])).toEqual([['a'], ['b']])
    expect(namesOf([first, call('b', [1, 2, 3, 4, 5], [1]), call('c', [1, 2, 3, 4, 6], [1])])).toEqual([
      ['a', 'b'],
      ['c'],
    ])
  })

  it('go on from the choice that the prompt holds; the others stand alone', () => {
    const calls = [call('a', [1], [2], [3], [4]), call('b', [1, 3, 9], [5])]
    const histories = joinCalls(calls)
    expect(histories.map((turns) => turns.map(({ choice }) => choice.tokenIds))).toEqual([[[2]], [[3], [5]], [[4]]])
  })

  it('go on from the longest answer that they hold', () => {
    expect(namesOf([call('a', [1], [2]), call('b', [1], [2, 3]), call('c', [1, 2, 3, 4], [5])])).toEqual([
      ['a'],
      ['b', 'c'],
    ])
  })
})

describe('whatever a program does', () => {
  it.each(Array.from({ length: 200 }, (_, seed) => seed))(
    'seed %i: histories are what was sampled, each token once',
    (seed) => {
      const rng = createRng(seed)
      const random = (): number => rng.uniform()
      const below = (count: number): number => Math.floor(random() * count)
      const some = (most: number): number[] => Array.from({ length: 1 + below(most) }, () => below(3))
      const calls: Call[] = []
      for (let c = 0; c < 30; c++) {
        const before = calls[below(Math.max(1, calls.length))]
        const answer = before?.choices[below(before.choices.length)]?.tokenIds ?? []
        const goesOn = before !== undefined && random() < 0.7
        // goes on, goes on from a part of it, or begins anew; three ids, so that prompts are alike by chance
        const held = [...(before?.promptIds ?? []), ...answer]
        const promptIds = goesOn
          ? [...held.slice(0, random() < 0.8 ? held.length : below(held.length)), ...some(2)]
          : some(4)
        calls.push(call(`${c}`, promptIds, ...Array.from({ length: 1 + below(2) }, () => some(3))))
      }
      const histories = joinCalls(calls)
      const joined = histories.flat().map(({ choice }) => choice)
      expect(new Set(joined)).toEqual(new Set(calls.flatMap(({ choices }) => choices)))
      expect(joined).toHaveLength(calls.flatMap(({ choices }) => choices).length)
      for (const turns of histories) {
        let sofar: number[] = []
        for (const {
          call: { promptIds },
          choice,
        } of turns) {
          expect(promptIds.slice(0, sofar.length)).toEqual(sofar)
          sofar = [...promptIds, ...choice.tokenIds]
        }
      }
    },
  )
})
