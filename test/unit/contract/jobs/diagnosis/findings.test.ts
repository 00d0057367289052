/**
 * The table of findings: each says what it should by numbers of jobs that were run (the built-in model, 20 prompts with 8 answers a
 * job, tasks and rates as named), and all are silent in runs that learned.
 */
import { describe, expect, test } from 'vitest'
import { type AnsweredGroup, answerFacts, quoteEqual } from '#contract/jobs/diagnosis/answers.js'
import type { JobNumbers } from '#contract/jobs/diagnosis/course.js'
import {
  diagnoseCourse,
  diagnoseGroups,
  diagnoseJob,
  NO_NUMBERS,
  sayFinding,
} from '#contract/jobs/diagnosis/diagnose.js'

interface Recorded {
  readonly reward: number
  /** Groups of 20 whose rewards differ. */
  readonly differ: number
  readonly steps: number
  readonly moved: number
  readonly entropy: number
  readonly distinct: number
  readonly heldOut?: number
  readonly labels?: Record<string, number>
  readonly max?: number
}

/** Numbers of a job as its record and its checkpoint hold them; the standard error is that of 20 such groups. */
function job(step: number, recorded: Recorded): JobNumbers {
  const { reward, differ, steps, moved, entropy, distinct, heldOut, labels, max = 1 } = recorded
  return {
    ...NO_NUMBERS,
    step,
    gradientSteps: steps,
    facts: {
      groups: { total: 20, flat: 20 - differ },
      reward: {
        mean: reward,
        std_dev: 0.1,
        min: 0,
        max,
        standard_error: 0.055,
        share: reward,
        least_share: 0,
        most_share: max,
      },
      answers: { total: 160, distinct, cut: 2, cut_reward: 0, whole_reward: reward },
      trust_region: { updates: steps, shortened: 0, smallest_scale: 1, moved },
      ...(labels === undefined ? {} : { labels }),
    },
    metrics: {
      'train/reward': reward,
      'loss/entropy': entropy,
      ...(heldOut === undefined ? {} : { 'val/reward': heldOut }),
    },
  }
}
const row = (reward: number, differ: number, steps: number, moved: number, entropy: number, distinct: number) => ({
  reward,
  differ,
  steps,
  moved,
  entropy,
  distinct,
})

/** What is said after each job of a run. */
function saidIn(run: readonly Recorded[]): string[][] {
  const jobs = run.map((recorded, i) => job(i + 1, recorded))
  return jobs.map((each, i) => [
    ...diagnoseJob(each).map(({ name }) => name),
    ...diagnoseCourse({ job: each, earlier: jobs.slice(0, i) }).map(({ name }) => name),
  ])
}
const RUNS = {
  'order at 5e-6': [
    row(0.19, 6, 4, 2.25e-5, 1.931, 0.81),
    row(0.077, 6, 4, 1.33e-5, 1.157, 0.84),
    row(0.192, 7, 5, 1.27e-5, 1.546, 0.8),
    row(0.113, 5, 3, 5.73e-6, 1.453, 0.81),
  ],
  'order at 5e-5': [
    row(0.192, 8, 5, 0.00212, 1.506, 0.71),
    row(0.144, 4, 3, 0.002, 0.971, 0.8),
    row(0.279, 9, 6, 0.00176, 1.397, 0.71),
    row(0.181, 6, 4, 0.00159, 0.94, 0.76),
  ],
  'order at 2e-4': [
    row(0.211, 8, 5, 0.0673, 1.836, 0.76),
    row(0.169, 7, 5, 0.125, 0.825, 0.79),
    row(0.484, 8, 5, 0.0302, 1.09, 0.57),
    row(0.425, 5, 4, 0.0672, 0.754, 0.56),
  ],
  'order at 1e-3': [
    row(0.207, 8, 5, 0.606, 1.511, 0.77),
    row(0.346, 6, 4, 0.52, 1.121, 0.63),
    row(0.874, 6, 5, 0.383, 0.756, 0.22),
    row(0.99, 2, 2, 0.0227, 0.094, 0.14),
  ],
  'order at 8e-3': [
    row(0.195, 8, 5, 0.572, 1.699, 0.77),
    row(0.3, 7, 5, 0.453, 0.723, 0.68),
    row(0.918, 8, 6, 0.663, 0.221, 0.26),
    row(0.906, 7, 5, 0.684, 0.102, 0.21),
  ],
  'larger at 1e-3': [
    row(0.113, 2, 1, 0.153, 0.877, 0.53),
    row(0.037, 4, 2, 0.247, 0.478, 0.57),
    row(0.175, 3, 2, 0.177, 0.991, 0.4),
    row(0.194, 6, 3, 0.348, 0.453, 0.42),
    row(0.487, 7, 4, 0.238, 0.31, 0.26),
    row(0.637, 9, 5, 0.375, 0.237, 0.23),
  ],
} satisfies Record<string, readonly Recorded[]>

describe('runs', () => {
  test.each([
    ['order at 2e-4', [[], [], [], []]],
    ['order at 1e-3', [[], [], [], ['nearly_solved']]],
    ['order at 8e-3', [[], [], [], []]],
    // two of twenty groups teach in the first job, three steps in two jobs: it is said, and it learned in the end
    ['larger at 1e-3', [['no_group_differs'], [], ['too_few_steps'], [], [], []]],
  ] as const)('that learn are told what is so and nothing else: %s', (name, said) => {
    expect(saidIn(RUNS[name])).toEqual(said)
  })

  test.each([
    ['order at 5e-6', [[], [], ['rate_too_small'], ['rate_too_small']]],
    ['order at 5e-5', [[], [], [], ['rate_too_small']]],
  ] as const)('at a rate too small are told so: %s', (name, said) => {
    expect(saidIn(RUNS[name])).toEqual(said)
  })

  test('how much to raise the rate follows from the movement', () => {
    const jobs = RUNS['order at 5e-6'].slice(0, 3).map((each, i) => job(i + 1, each))
    const [finding] = diagnoseCourse({ job: jobs[2]!, earlier: jobs.slice(0, 2) })
    // sqrt(0.1 / 3.58e-5) = 53: from 5e-6 to 2.6e-4, and at 2e-4 the reward rose
    expect(sayFinding(finding!)).toBe(
      'reward stuck: 0.19, 0.077, 0.19 in the last 3 jobs, while groups differ, and the jobs before moved the policy by 0.000036 nats per token, where 0.1 is seen in the reward; raise learning_rate about 50 times (the movement grows with its square)',
    )
  })

  test('whose answers earn something once in forty are told to be shown some first', () => {
    // SmolLM2-135M, sentiment in one word: one of 64 answers
    const [finding] = diagnoseJob(job(0, row(0.0156, 1, 0, 0, 2, 1)))
    expect(finding?.name).toBe('reward_rare')
    expect(diagnoseJob(job(0, row(0.026, 3, 0, 0, 2, 1))).map(({ name }) => name)).toEqual([])
  })

  test('that move and do not rise are told to look at the answers', () => {
    const run = Array.from({ length: 5 }, () => row(0.42, 6, 4, 0.2, 0.6, 0.4))
    expect(saidIn(run)).toEqual([[], [], ['too_few_steps'], ['too_few_steps'], ['reward_stuck']])
  })
})

describe('over jobs', () => {
  const course = (...run: readonly Recorded[]) => {
    const jobs = run.map((recorded, i) => job(i + 1, recorded))
    return diagnoseCourse({ job: jobs.at(-1)!, earlier: jobs.slice(0, -1) })
  }
  const names = (...run: readonly Recorded[]) => course(...run).map(({ name }) => name)

  describe('a reward that fell', () => {
    test.each([
      ['by half in one job', [0.8, 0.3], true],
      ['by less than chance can', [0.19, 0.08], false],
      // by three standard errors of a difference, 0.23
      ['by a third since the best of several jobs', [0.6, 0.9, 0.8, 0.6], true],
      ['a little, as jobs on other prompts do', [0.6, 0.9, 0.83], false],
      ['and came back', [0.6, 0.9, 0.4, 0.85], false],
    ] as const)('%s', (_, rewards, isTold) => {
      const said = names(...rewards.map((reward) => row(reward, 10, 5, 0.3, 1, 0.5)))
      expect(said.includes('moved_too_far')).toBe(isTold)
    })

    test('while the policy stood still is that of harder prompts', () => {
      expect(names(row(0.8, 10, 5, 0.001, 1, 0.5), row(0.3, 10, 5, 0.001, 1, 0.5))).toEqual([])
    })

    test('is told with the step that was best, and a rate and a balance to go on with from there', () => {
      // spark after 30 examples, JSON with keys of one's own, seed 2 at the rate 1e-3 with advantage_balance 0
      const jobs = [0.977, 0.698, 0.094].map((reward, i) => ({
        ...job(i + 2, row(reward, 10, 15, 0.9, 1, 0.5)),
        learningRate: 1e-3,
        advantageBalance: 0,
      }))
      const say = (at: number, options = {}) =>
        diagnoseCourse({ job: { ...jobs[at]!, ...options }, earlier: jobs.slice(0, at) })
          .filter(({ name }) => name === 'moved_too_far')
          .map(sayFinding)
      expect(say(1)).toEqual([
        'moved too far: the reward fell from 0.98 (answers of step 1) to 0.7 (of step 2), while jobs moved the policy by 0.9 nats per token; train from step 1 at learning_rate 3e-4 with advantage_balance 1: models create --from-checkpoint <model>:step1 begins there',
      ])
      expect(say(2, { advantageBalance: 1, learningRate: null })).toEqual([
        'moved too far: the reward fell from 0.98 (answers of step 1) to 0.094 (of step 3), while jobs moved the policy by 1.8 nats per token; train from step 1 at a third of the learning_rate: models create --from-checkpoint <model>:step1 begins there',
      ])
    })
  })

  test('held-out prompts that do not follow are told', () => {
    // words backwards in src/docs/internals/learning.md: trained on 0.38, 0.55, 0.67, 0.92; held out 0.41, 0.45, 0.46, 0.36
    const words = [
      [0.38, 0.41],
      [0.55, 0.45],
      [0.67, 0.46],
      [0.92, 0.36],
    ].map(([reward = 0, heldOut = 0]) => ({ ...row(reward, 10, 5, 0.3, 1, 0.5), heldOut }))
    expect(names(...words)).toEqual(['held_out_behind'])
    expect(sayFinding(course(...words)[0]!)).toContain(
      'rose from 0.38 to 0.92, that of held-out prompts went from 0.41 to 0.36',
    )
    expect(names(...words.map((each) => ({ ...each, heldOut: each.reward })))).toEqual([])
    expect(names(...words.slice(-2))).toEqual([])
  })

  test('answers that are all alike and entropy that is gone are told below the best reward, not at it', () => {
    const before = [row(0.4, 8, 5, 0.3, 1.2, 0.6), row(0.45, 8, 5, 0.3, 0.8, 0.4), row(0.45, 8, 5, 0.3, 0.5, 0.3)]
    expect(names(...before, row(0.6, 4, 5, 0.3, 0.1, 0.15))).toEqual(['answers_alike', 'entropy_fell'])
    expect(names(...before, row(0.95, 4, 5, 0.3, 0.1, 0.15))).toEqual([])
  })

  test('a label that is no longer said is told by its name', () => {
    const run = [
      { ...row(0.6, 10, 5, 0.3, 1, 0.3), labels: { positive: 0.35, negative: 0.25 } },
      { ...row(0.6, 10, 5, 0.3, 0.6, 0.25), labels: { positive: 0.5, negative: 0.1 } },
      { ...row(0.7, 6, 5, 0.3, 0.4, 0.25), labels: { positive: 0.7 } },
    ]
    expect(sayFinding(course(...run)[0]!)).toMatch(
      /^the answer "negative" is forgotten: right in 10% of the answers of the job that made step 2, now in 0%; put prompts of every label/,
    )
    expect(names(...run.slice(0, 2))).toEqual([])
  })
})

describe('answers', () => {
  const group = (...answers: readonly (readonly [string, number])[]): AnsweredGroup =>
    answers.map(([text, reward]) => ({ text, reward, isCut: text.endsWith('…') }))
  const say = (groups: readonly AnsweredGroup[]) => diagnoseGroups(groups).map(sayFinding)

  test('nothing but rewards of 0 leads to examples, and two answers are shown', () => {
    expect(say([group(['The order is 44.', 0], ['I do not know.', 0])])).toEqual([
      expect.stringMatching(
        /^reward 0 everywhere: none of 2 answers got any, and what is never said cannot be rewarded; for example "The order is 44\." and "I do not know\." to one prompt, both worth 0; show it good answers first \(train sft/,
      ),
    ])
  })

  test('equal rewards are told with two answers, not where groups differ', () => {
    expect(say([group(['a', 0.5], ['b\nc', 0.5])])).toEqual([
      expect.stringMatching(
        /^reward variance zero in 100% of groups \(1 of 1, mean reward 0\.5\): they teach nothing; for example "a" and "b c" to one prompt, both worth 0\.5; say what an answer can earn at most .*; if it is not, an answer is compared/,
      ),
    ])
    expect(say([group(['a', 0], ['b', 1]), group(['a', 1], ['b', 1])])).toEqual([])
  })

  test('cut-off answers are told where they earn less than whole ones', () => {
    const cut = [group(['long…', 0], ['short', 1]), group(['long…', 0], ['short', 1])]
    expect(say(cut)).toEqual([
      '2 of 4 answers were cut off at the length limit (mean reward 0, 1 of whole ones); raise the limit (--max-tokens, max_tokens), or let the reward prefer short answers',
    ])
    expect(say([group(['long…', 1], ['short', 0])])).toEqual([])
  })

  test('figures: means by trajectory, the standard error by group, labels where a few short answers are nearly all', () => {
    const groups = Array.from({ length: 10 }, (_, i) =>
      group(['yes', i % 2], ['no', 1 - (i % 2)], ['yes', i % 2], ['no', 1 - (i % 2)]),
    )
    const facts = answerFacts(groups)
    expect(facts['groups']).toEqual({ total: 10, flat: 0 })
    expect(facts['reward']).toEqual({ mean: 0.5, std_dev: 0.5, min: 0, max: 1, standard_error: 0 })
    expect(facts['answers']).toMatchObject({ total: 40, distinct: 0.5, cut: 0, whole_reward: 0.5 })
    expect(facts['labels']).toEqual({ yes: 0.25, no: 0.25 })
    const different = groups.map((each, i) => each.map((answer, k) => ({ ...answer, text: `${i} ${k}` })))
    expect(answerFacts(different)['labels']).toBeUndefined()
    // means 0, 0.5, 1: deviation 0.408, by the square root of 2
    const uneven = [group(['a', 0], ['b', 0]), group(['a', 0], ['b', 1]), group(['a', 1], ['b', 1])]
    expect(answerFacts(uneven)['reward']?.['standard_error']).toBeCloseTo(Math.sqrt(1 / 6) / Math.SQRT2, 12)
  })

  test('a long answer is quoted shortened and on one line', () => {
    expect(quoteEqual([group(['x'.repeat(100), 0], ['y', 0])])).toContain(`"${'x'.repeat(60)}…"`)
    expect(quoteEqual([group(['x', 0], ['y', 1])])).toBe('')
  })
})

test('prompts whose every answer earns all there is have nothing left to teach; at another reward it is steps that are missing', () => {
  const groupsAt = (reward: number): AnsweredGroup[] =>
    Array.from({ length: 8 }, (_, i) =>
      Array.from({ length: 4 }, () => ({ text: `${i}`, reward, share: reward, isCut: false })),
    )
  const namesAt = (reward: number) => diagnoseGroups(groupsAt(reward)).map(({ name }) => name)
  expect(namesAt(1)).toEqual(['all_solved'])
  expect(diagnoseGroups(groupsAt(1)).map(sayFinding)).toEqual([
    'every one of 32 answers earns 1: these prompts have nothing left to teach; stop here, take harder prompts, or, where held-out ones do worse, more different ones, or give a reward that tells good answers from better ones',
  ])
  expect(namesAt(0.5)).toEqual(['one_reward'])
  // one prompt always earns two thirds, all others everything: no group differs, and the advice is still not to ask more often
  const solved = [...Array.from({ length: 3 }, () => groupsAt(1)).flat(), ...groupsAt(0.67).slice(0, 1)]
  expect(diagnoseGroups(solved).map(sayFinding)).toEqual([
    '25 of 25 groups earn the same for every answer, nearly always all of it (mean reward 0.99, 99% of what can be earned): little is left to learn; stop here, or take harder prompts, or, where held-out ones do worse, more different ones',
  ])
  // too few answers to say so
  expect(diagnoseGroups(groupsAt(1).slice(0, 2)).map(({ name }) => name)).toEqual(['no_group_differs'])
})
