/**
 * What is said of rewards, as properties: "stop" or "solved" never below 0.9 of the range of a reward, and never without a
 * range; no sentence again after its advice was followed; never nothing where no group can train. Over tables of rewards that
 * were told wrongly once, and a seeded generator of more.
 */
import { describe, expect, test } from 'vitest'
import { createRng } from '#base/util/rng.js'
import { type AnsweredGroup, callsUnoffered } from '#contract/jobs/diagnosis/answers.js'
import { diagnoseGroups } from '#contract/jobs/diagnosis/diagnose.js'
import { type RewardRange, shareOfRange } from '#formats/rows/reward-range.js'

type Table = readonly (readonly number[])[]
const times = <T>(count: number, value: T): T[] => Array.from({ length: count }, () => value)
const alike = (count: number, reward: number): Table => times(count, times(8, reward))

/** Each with what its reward can be. */
const TABLES: readonly (readonly [name: string, table: Table, range: RewardRange])[] = [
  ['20 groups of 0.1, one answer 0', [...alike(19, 0.1), [...times(7, 0.1), 0]], [0, 1]],
  ['20 groups of 0.4, one answer 0.2', [...alike(19, 0.4), [...times(7, 0.4), 0.2]], [0, 1]],
  ['20 groups of 0.1, all alike', alike(20, 0.1), [0, 1]],
  ['penalties, all at their best', alike(20, 0), [-1, 0]],
  ['penalties, all at their worst', alike(20, -1), [-1, 0]],
  ['10 of 10 everywhere', alike(20, 10), [0, 10]],
  ['10 of 10, one answer 0', [...alike(19, 10), [...times(7, 10), 0]], [0, 10]],
  ['one right of 160', [...alike(19, 0), [1, ...times(7, 0)]], [0, 1]],
  ['0.05 for the form everywhere, 3 of 160 right', [...alike(17, 0.05), ...times(3, [1, ...times(7, 0.05)])], [0, 1]],
]

const LEVELS: readonly RewardRange[] = [
  [0, 1],
  [-1, 0],
  [0, 10],
  [-5, 5],
  [0, 0.5],
]

/** Tables of all kinds: flat ones at any height, a few answers off, mixed ones; small and large. */
function generated(seed: number): readonly [string, Table, RewardRange] {
  const rng = createRng(`rewards ${seed}`)
  const range = LEVELS[rng.integer(LEVELS.length)] as RewardRange
  const at = (share: number): number => range[0] + share * (range[1] - range[0])
  const level = () => at(rng.integer(11) / 10)
  const [groups, size] = [1 + rng.integer(24), 1 + rng.integer(12)]
  const common = level()
  const [isMixed, odd] = [rng.integer(3) === 0, rng.integer(4)]
  const table = times(groups, 0).map(() => times(size, 0).map(() => (isMixed ? level() : common)))
  for (let i = 0; i < odd; i += 1) (table[rng.integer(groups)] as number[])[rng.integer(size)] = level()
  return [`seed ${seed}`, table, range]
}
const ALL = [...TABLES, ...times(2000, 0).map((_, seed) => generated(seed))]

function answered(table: Table, range: RewardRange | null, isCut = false): AnsweredGroup[] {
  return table.map((rewards, i) =>
    rewards.map((reward, k) => ({
      text: `answer ${i} ${k}`,
      reward,
      share: range === null ? undefined : shareOfRange(reward, range),
      isCut,
    })),
  )
}
const DONE = /\bstop\b|solved|nothing left|little is left/
const SHOW = /show (it|more)/
const sentence = ({ says, next }: { says: string; next: string }) =>
  `${says}; ${next}`.replace('take prompts that are solved sometimes', '')
const say = (...of: Parameters<typeof diagnoseGroups>) => diagnoseGroups(...of).map(sentence)

describe('stop and solved', () => {
  test('are said of nothing below 0.9 of the range', () => {
    for (const [name, table, range] of ALL) {
      const shares = table.flat().map((reward) => shareOfRange(reward, range))
      const mean = shares.reduce((a, b) => a + b, 0) / shares.length
      const said = say(answered(table, range)).filter((each) => DONE.test(each))
      if (mean < 0.9) expect(said, name).toEqual([])
    }
  })

  test('are said of nothing whose range nobody knows', () => {
    for (const [name, table] of ALL)
      expect(
        say(answered(table, null)).filter((each) => DONE.test(each)),
        name,
      ).toEqual([])
  })

  test('are said where everything is earned, penalties and tens too', () => {
    for (const [least, most] of LEVELS) {
      expect(say(answered(alike(20, most), [least, most]))).toEqual([
        expect.stringMatching(/nothing left to teach; stop here/),
      ])
    }
    expect(say(answered(TABLES[6]?.[1] ?? [], [0, 10]))).toEqual([
      expect.stringMatching(/little is left to learn; stop here/),
    ])
  })
})

test('something is said wherever no group differs, and one thing at a time of what was earned', () => {
  for (const [name, table, range] of ALL) {
    const isFlat = table.every((rewards) => rewards.every((reward) => reward === rewards[0]))
    for (const known of [range, null]) {
      const said = say(answered(table, known))
      if (isFlat) expect(said, name).toHaveLength(1)
      expect(said.length, name).toBeLessThan(2)
    }
  }
})

test('a range that is asked for is not asked for again once it is said', () => {
  for (const [name, table, range] of ALL) {
    expect(
      say(answered(table, range)).filter((each) => each.includes('--reward-range')),
      name,
    ).toEqual([])
  }
})

test('examples are not asked for again in the same words after examples', () => {
  for (const [name, table, range] of ALL) {
    for (const known of [range, null]) {
      const before = say(answered(table, known))
      const after = say(answered(table, known), [], { shown: 1 })
      for (const each of before.filter((said) => SHOW.test(said))) expect(after, name).not.toContain(each)
    }
  }
})

test('all answers equal above the least need examples as at it', () => {
  expect(say(answered(alike(20, 0.1), [0, 1]))).toEqual([
    expect.stringMatching(/earns 0\.1, 10% of what can be earned.*show it good answers/),
  ])
  expect(say(answered(alike(20, -1), [-1, 0]))).toEqual([
    expect.stringMatching(/^reward -1 everywhere: .*show it good answers/),
  ])
})

test('answers that are nearly all cut name the limit first, and nothing else', () => {
  for (const [name, table, range] of TABLES.filter(([, table, range]) =>
    table.flat().some((reward) => reward < range[1]),
  )) {
    const said = diagnoseGroups(answered(table, range, true))
    const isSolved = name === '10 of 10, one answer 0'
    expect(
      said.map((each) => each.name),
      name,
    ).toEqual([isSolved ? 'nearly_solved' : 'answers_cut'])
  }
  expect(say([[{ text: 'a', reward: 0, isCut: true }]])).toEqual([expect.stringContaining('--max-tokens')])
})

test('calls of tools that nobody offered are said as that', () => {
  const calls = times(2, times(4, { text: '[{}]', reward: 0, isCut: false, isUnoffered: true }))
  expect(diagnoseGroups(calls).map(({ name }) => name)).toEqual(['tools_not_offered', 'reward_zero'])
  const of = (name: string) => [{ type: 'function', function: { name, arguments: '{}' } }]
  expect(callsUnoffered(of('weather'), of('weather'))).toBe(false)
  expect(callsUnoffered([...of('weather'), ...of('mail')], of('weather'))).toBe(true)
  expect(callsUnoffered(of('weather'), null)).toBe(true)
  expect(callsUnoffered(undefined, undefined)).toBe(false)
})

/** What advice changes, where it changes nothing of what is earned: a model that learns nothing, whatever is done. */
interface Stubborn {
  readonly range: RewardRange | null
  readonly shown: number
  readonly size: number
  readonly limit: number
  readonly isOffered: boolean
}

/** Each piece of advice with what following it changes; null: that ends the matter. */
const FOLLOWED: readonly (readonly [RegExp, (state: Stubborn, range: RewardRange) => Stubborn | null])[] = [
  [/stop here|take a larger base model|pays nothing for them/, () => null],
  [/raise the limit/, (state) => ({ ...state, limit: 4 * state.limit })],
  [/--reward-range/, (state, range) => ({ ...state, range })],
  [/offer the tools/, (state) => ({ ...state, isOffered: true })],
  [/show (it|more)/, (state) => ({ ...state, shown: state.shown + 1 })],
  [/ask more often/, (state) => ({ ...state, size: 2 * state.size })],
]

test('no advice comes again after it was followed, whichever part is followed first', () => {
  const some = ALL.filter((_, i) => i < TABLES.length || i % 20 === 0)
  for (const [i, [name, table, range]] of some.entries()) {
    const rng = createRng(`advice ${i}`)
    const isCut = rng.integer(4) === 0
    const isCalling = rng.integer(4) === 0
    let state: Stubborn | null = { range: null, shown: 0, size: 1, limit: 2, isOffered: false }
    const followed = new Set<string>()
    for (let turn = 0; state !== null && turn < 12; turn += 1) {
      const { range: known, shown, size, limit, isOffered }: Stubborn = state
      const wide = table.map((rewards) => times(size, rewards).flat())
      const groups = answered(wide, known, isCut).map((group) =>
        group.map((each) => ({ ...each, tokens: limit, isUnoffered: isCalling && !isOffered })),
      )
      const said = diagnoseGroups(groups, [], { shown }).map(({ next }) => next)
      for (const each of said) expect(followed, `${name}, turn ${turn}`).not.toContain(each)
      const [first] = said
      if (first === undefined) break
      const meant = FOLLOWED.filter(([words]) => words.test(first))
      expect(meant, first).not.toEqual([])
      const [, follow] = meant[rng.integer(meant.length)] as (typeof FOLLOWED)[number]
      followed.add(first)
      state = follow(state, range)
      if (size > 2) break
    }
  }
})
