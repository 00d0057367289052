/** One sentence and one command at every number of a measurement, and what is missing in answers whose wanted ones are known. */
import { describe, expect, test } from 'vitest'
import { findMissing } from '#plugins/rollout/missing.js'
import { type Measured, verdictOf } from '#plugins/rollout/verdict.js'

const at = (changed: Partial<Measured>) =>
  verdictOf({
    model: 'dates',
    isTrainable: true,
    reward: 0,
    range: [0, 1],
    cutShare: 0,
    isGuessing: false,
    shown: 0,
    missing: null,
    rightShare: null,
    files: { training: 'train.jsonl', examples: 'examples.jsonl' },
    flags: { prompts: 'held-out.jsonl', reward: undefined, maxTokens: 16 },
    asked: ['--max-tokens', '16'],
    ...changed,
  })

describe('the verdict', () => {
  test('names a command at every number, by what is known', () => {
    for (let reward = 0; reward <= 1; reward += 0.01) {
      for (const shown of [0, 1, 2]) {
        for (const cutShare of [0, 1]) {
          for (const range of [[0, 1] as const, null]) {
            const { says, command } = at({ reward, shown, cutShare, range })
            expect(command).toMatch(/^trainyard (train|rollout|eval|chat|base-models|models) ?/)
            if (reward < 0.9 || range === null) expect(says).not.toMatch(/^learned/)
          }
        }
      }
    }
  })

  test.each([
    ['nothing is right', {}, /right answers come first/, 'trainyard train sft dates --file examples.jsonl --watch'],
    [
      'some are right',
      { reward: 0.3 },
      /partly learned, 30%/,
      'trainyard rollout dates --prompts train.jsonl --max-tokens 16 | trainyard train rl dates --file - --watch',
    ],
    ['penalties are at their best', { reward: 0, range: [-1, 0] }, /^learned: 100%/, 'trainyard chat dates'],
    ['nearly all are right', { reward: 0.97 }, /^learned: 97%/, 'trainyard chat dates'],
    [
      'answers are cut',
      { cutShare: 1 },
      /100% of the answers are cut off at 16/,
      'trainyard eval dates --prompts held-out.jsonl --max-tokens 64',
    ],
    [
      'the model guesses',
      { reward: 0.5, isGuessing: true },
      /no better than guessing/,
      'trainyard train sft dates --file examples.jsonl --watch',
    ],
    [
      'nobody knows the range',
      { reward: 7, range: null },
      /--reward-range says/,
      'trainyard rollout dates --prompts train.jsonl --max-tokens 16 | trainyard train rl dates --file - --watch',
    ],
    [
      'it is a base model',
      { model: 'trainyard/spark', isTrainable: false },
      /only measured/,
      'trainyard models create my-spark --base-model trainyard/spark',
    ],
  ] as const)('where %s', (_, changed, says, command) => {
    const verdict = at(changed as Partial<Measured>)
    expect(verdict.says).toMatch(says)
    expect(verdict.command).toBe(command)
  })

  test('after examples it says what is missing and not the same again', () => {
    const missing = { kind: 'content', says: 'the form of the wanted answer is right in 90 of 96' } as const
    const [before, after] = [at({ missing }), at({ missing, shown: 1 })]
    expect(after.says).toContain(
      'not learned from its examples: the form of the wanted answer is right in 90 of 96; more different examples',
    )
    expect(after.says).not.toBe(before.says)
    const again = at({ missing, shown: 2 })
    expect(again.says).toContain('not learned in 2 jobs on examples: the form')
    expect(again.command).toBe('trainyard base-models list')
    const characters = { kind: 'characters', says: '"<" never comes' } as const
    expect(at({ shown: 1, missing: characters })).toEqual({
      says: 'not learned from its examples: "<" never comes; more examples that hold it',
      command: 'trainyard train sft dates --file examples.jsonl --watch',
    })
  })

  test('what a base model cannot write is no matter of examples, where most answers need it', () => {
    const missing = {
      kind: 'lost',
      isMost: true,
      says: 'wanted answers hold "<" (24 of 24), which spark cannot',
    } as const
    for (const shown of [0, 1, 2]) {
      expect(at({ shown, missing, reward: 0.03 })).toEqual({
        says: `not learned: ${missing.says}; neither examples nor rewards change that, another base model may have them`,
        command: 'trainyard base-models list',
      })
    }
    const some = at({ missing: { ...missing, isMost: false }, reward: 0.3 })
    expect(some.says).toBe(
      `partly learned, 30% of what can be earned: ${missing.says}; rewards raise what is right now and then`,
    )
  })

  test('answers that are known are shown before rewards, with and without a range, and once', () => {
    const show = 'trainyard train sft dates --file examples.jsonl --watch'
    expect(at({ reward: 0.2, rightShare: 0.1 }).command).toBe(show)
    expect(at({ reward: 0.2, rightShare: 0.1, range: null }).command).toBe(show)
    expect(at({ reward: 0.2, rightShare: 0.1, shown: 1 }).command).toContain('train rl')
    expect(at({ reward: 0.7, rightShare: 0.1 }).command).toContain('train rl')
    expect(at({ reward: 0.2, rightShare: null }).command).toContain('train rl')
  })
})

describe('what is missing', () => {
  const examples = (...pairs: readonly (readonly [string, string])[]) =>
    pairs.map(([answer, wanted]) => ({ answer, row: { answer: wanted }, messages: [], reward: 0, metrics: {} }))

  test('are characters that never come', () => {
    expect(findMissing(examples(['49', '$49'], ['7', '$7']))).toMatchObject({
      kind: 'characters',
      rightShare: 0,
      says: '"$" never comes, in 2 answers of which 2 should hold it',
    })
  })
  test('is the form, or a part of it', () => {
    expect(findMissing(examples(['On May 3, 2024-05', '2024-05-03'], ['2020-01-03', '2020-01-04']))).toMatchObject({
      kind: 'content',
      rightShare: 0,
      says: 'the form of the wanted answer is right in 1 of 2; part 3 of 3 is right least often, in 0 of 1',
    })
    expect(
      findMissing(examples(['the year 2024-05', '2024-05-03'], ['on 03-04', '2020-01-04'], ['x1', '2020-01-04'])),
    ).toMatchObject({
      kind: 'form',
      rightShare: 0,
      says: 'the form of the wanted answer is right in 0 of 3',
    })
  })
  test('is nothing where all are right, or nobody knows what is wanted', () => {
    expect(findMissing(examples(['a', 'a']))).toBeNull()
    expect(findMissing([{ answer: 'a', row: {}, messages: [], reward: 0, metrics: {} }])).toBeNull()
  })
})
