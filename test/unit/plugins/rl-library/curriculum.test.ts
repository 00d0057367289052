/** What is remembered of prompts, which are drawn, and that a run which goes on from its file draws as one that was never stopped. */
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { gather, group, openCurriculum, Trajectory } from '#rl.js'

let folder = ''
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'trainyard-curriculum-'))
})
afterEach(() => rmSync(folder, { recursive: true, force: true, maxRetries: 20 }))

function rewarded(reward: number): Trajectory {
  const trajectory = new Trajectory([{ role: 'user', content: 'q' }])
  trajectory.reward = reward
  return trajectory
}

/** 40 prompts: ten that are right half of the time, fifteen always, fifteen never. */
const KEYS = Array.from({ length: 40 }, (_, i) => `prompt ${i}`)
const rightOf = (at: number, index: number): number => (at % 4 === 0 ? index % 2 : at % 4 === 1 || at % 8 === 2 ? 1 : 0)

test('rates lie between the least and the greatest reward, and newer answers count more', async () => {
  const curriculum = await openCurriculum()
  expect(curriculum.rateOf('a')).toBe(null)
  curriculum.record('a', [2, 2])
  // all rewards are the same: nothing is known of what is right
  expect(curriculum.rateOf('a')).toBe(null)
  curriculum.record('b', [2, 10])
  expect([curriculum.rateOf('a'), curriculum.rateOf('b')]).toEqual([0, 0.5])
  curriculum.record('b', [10, 10])
  // two older answers count as one: (6 + 20) / 3 on the way from 2 to 10
  expect(curriculum.rateOf('b')).toBeCloseTo((26 / 3 - 2) / 8, 12)
  curriculum.record('b', [Number.NaN])
  expect(curriculum.rateOf('b')).toBeCloseTo((26 / 3 - 2) / 8, 12)
})

test('prompts that earn the same for every answer teach nothing, whatever they earn', async () => {
  const curriculum = await openCurriculum()
  curriculum.record('right', [1, 1])
  curriculum.record('wrong', [0, 0])
  curriculum.record('half', [0.4, 0.4])
  curriculum.record('differs', [0, 0.4, 1])
  curriculum.record(
    'nearly never',
    Array.from({ length: 16 }, (_, i) => (i === 0 ? 1 : 0)),
  )
  expect(curriculum.count(['right', 'wrong', 'half', 'differs', 'nearly never', 'new'])).toEqual({
    unasked: 1,
    below: 3,
    between: 1,
    above: 1,
  })
})

test.each([
  [1, 'above'],
  [0, 'below'],
])('while every answer earned %s its prompts are %s', async (reward, place) => {
  const curriculum = await openCurriculum()
  curriculum.record('a', [reward, reward])
  expect(curriculum.count(['a'])).toEqual({ unasked: 0, below: 0, between: 0, above: 0, [place]: 1 })
})

test('three in four of a draw are right now and then as long as there are so many, then come those that were never asked', async () => {
  const curriculum = await openCurriculum({ seed: 3 })
  for (let at = 0; at < 20; at += 1) {
    const answers = Array.from({ length: 8 }, (_, index) => rightOf(at, index))
    curriculum.record(KEYS[at] as string, answers)
  }
  const drawn = curriculum.draw(KEYS, 12)
  // of the twenty that were asked five are between: all of them are drawn, and seven of the twenty others
  expect(drawn).toHaveLength(12)
  expect(drawn.filter((at) => at < 20)).toEqual([0, 4, 8, 12, 16])
  expect(curriculum.draw(KEYS, 4).filter((at) => at < 20 && at % 4 === 0)).toHaveLength(3)
  const all = curriculum.draw(KEYS, 100)
  expect(all).toEqual(KEYS.map((_, at) => at))
})

test('a run that goes on from its file draws and remembers as one that was never stopped', async () => {
  const asked: string[][] = [[], []]
  const plansOf = (run: number) =>
    KEYS.map((key, at) =>
      group(
        4,
        async (index) => {
          if (index === 0) asked[run]?.push(key)
          return rewarded(rightOf(at, index))
        },
        { key },
      ),
    )
  const file = join(folder, 'curriculum.json')
  const whole = await openCurriculum({ seed: 7 })
  for (let round = 0; round < 6; round += 1) {
    await gather(plansOf(0), { curriculum: whole, pick: 10, concurrency: 1 })
    // its own seed is in the file
    const resumed = await openCurriculum({ file, seed: round === 0 ? 7 : 99 })
    await gather(plansOf(1), { curriculum: resumed, pick: 10, concurrency: 1 })
  }
  expect(asked[1]).toEqual(asked[0])
  expect(JSON.parse(readFileSync(file, 'utf8'))).toEqual(JSON.parse(JSON.stringify(whole)))
  // the first four rounds find the ten that teach; from then on they are asked more than any other
  const late = asked[0]?.slice(40) ?? []
  expect(late.filter((key) => KEYS.indexOf(key) % 4 === 0).length / late.length).toBeGreaterThan(0.6)
  const other = await openCurriculum({ seed: 8 })
  expect(other.draw(KEYS, 10)).not.toEqual((await openCurriculum({ seed: 7 })).draw(KEYS, 10))
})

test('groups that are thrown away are remembered, too, and prompts that come round again answer anew', async () => {
  const curriculum = await openCurriculum()
  const seen: string[] = []
  const plans = ['never', 'sometimes'].map((key) =>
    group(
      2,
      async (index) => {
        seen.push(`${key} ${index}`)
        return rewarded(key === 'never' ? 0 : index % 2)
      },
      { key },
    ),
  )
  const groups = await gather(plans, { curriculum, untilTrainable: 5 })
  expect(groups.length).toBeGreaterThanOrEqual(5)
  expect(new Set(seen).size).toBe(seen.length)
  expect([curriculum.rateOf('never'), curriculum.rateOf('sometimes')]).toEqual([0, 0.5])
})

test('what is no curriculum is refused and left alone; plans without a key, and options that contradict each other, are refused', async () => {
  for (const text of [
    '',
    '{"object":"other"}',
    '{"object":"curriculum","seed":0,"draws":0,"rewards":null,"prompts":{"a":[1,"x",2]}}',
  ]) {
    const file = join(folder, 'mine.json')
    writeFileSync(file, text)
    await expect(openCurriculum({ file })).rejects.toMatchObject({ code: 'curriculum_invalid' })
    expect(readFileSync(file, 'utf8')).toBe(text)
  }
  await expect(openCurriculum({ file: folder })).rejects.toMatchObject({ code: 'curriculum_unreadable' })
  const curriculum = await openCurriculum()
  const plan = group(1, async () => rewarded(1))
  for (const [plans, options, message] of [
    [[plan], { curriculum }, 'plan 0 has no key'],
    [[plan], { pick: 3 }, 'none is given'],
    [[{ ...plan, key: 'a' }], { curriculum, pick: 1, untilTrainable: 1 }, 'both say'],
    [[{ ...plan, key: 'a' }], { curriculum, pick: Number.POSITIVE_INFINITY }, 'given Infinity'],
    [[{ ...plan, key: 'a' }], { curriculum, pick: Number.NaN }, 'given NaN'],
    [[{ ...plan, key: 'a' }], { curriculum, pick: 0 }, 'pick must be a whole number from 1 up, given 0'],
    [[{ ...plan, key: 'a' }], { curriculum, pick: 1.5 }, 'given 1.5'],
  ] as const) {
    await expect(gather(plans, options)).rejects.toThrow(message)
  }
})
