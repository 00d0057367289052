/**
 * Rewards as options of plugins leave them: what a plugin is shown, and what its answers are refused for.
 */
import { describe, expect, test } from 'vitest'
import type { JsonObject } from '#base/util/json.js'
import type { RewardShaping, ShownTrajectory } from '#contract/jobs/plugin-options.js'
import { parseTrajectoryGroups } from '#formats/rows/parse.js'
import { countChanged, rewardsByPlugins } from '#training/kinds/rl/plugin-rewards.js'

type Shape = RewardShaping['shape']

const choice = (content: string, ids: readonly number[]) => ({
  finish_reason: 'stop',
  message: { role: 'assistant', content },
  token_ids: ids,
  logprobs: { content: ids.map((id) => ({ token: `token_id:${id}`, logprob: -1, top_logprobs: [] })) },
})
const trajectory = (reward: number, content: string, ids: readonly number[]) => ({
  messages_and_choices: [{ role: 'user', content: 'Hello' }, choice(content, ids)],
  reward,
  metrics: { right: reward > 0 },
})
const groups = parseTrajectoryGroups([
  { trajectories: [trajectory(1, 'a b c', [1, 2, 3]), trajectory(0, 'd', [4])] },
  { trajectories: [trajectory(2, 'e', [5])] },
])
const shaper = (shape: Shape, options: JsonObject = {}, plugin = 'brief') => ({ plugin, options, shaping: { shape } })
const rewardsOf = (given: typeof groups) => given.map(({ trajectories }) => trajectories.map(({ reward }) => reward))
const keep: Shape = (given) => given.map((group) => group.map(({ reward }) => reward))

describe('rewards of plugins', () => {
  test('take the place of those that were sent, one plugin after the other', () => {
    const halve: Shape = (given, { by }) => given.map((group) => group.map(({ reward }) => reward / Number(by)))
    const less: Shape = (given) => given.map((group) => group.map(({ reward }) => reward - 1))
    const shaped = rewardsByPlugins(groups, [shaper(halve, { by: 2 }), shaper(less, {}, 'stern')])
    expect(rewardsOf([...shaped])).toEqual([[-0.5, -1], [0]])
    expect(countChanged(groups, shaped)).toBe(3)
    expect(rewardsOf(groups)).toEqual([[1, 0], [2]])
    expect(countChanged(groups, rewardsByPlugins(groups, [shaper(keep)]))).toBe(0)
    expect(rewardsByPlugins(groups, [])).toBe(groups)
  })

  test('are made of messages, metrics and lengths, which nobody can change', () => {
    const seen: ShownTrajectory[] = []
    rewardsByPlugins(groups, [
      shaper((given, options) => {
        seen.push(...(given[0] ?? []))
        for (const change of [
          () => Reflect.set(given, 0, []),
          () => Reflect.set(given[0] ?? [], 0, null),
          () => Reflect.set(seen[0] ?? {}, 'reward', 9),
          () => Reflect.set(seen[0]?.messages[0] ?? {}, 'text', ''),
          () => Reflect.set(options, 'by', 9),
        ])
          expect(change()).toBe(false)
        return keep(given, options)
      }),
    ])
    expect(seen[0]).toEqual({
      reward: 1,
      metrics: { right: 1 },
      messages: [
        { role: 'user', text: 'Hello', tokens: 0 },
        { role: 'assistant', text: 'a b c', tokens: 3 },
      ],
    })
  })

  let calls = 0
  const fail = () => {
    throw new TypeError('no such thing')
  }
  test.each<[string, Shape, string]>([
    ['too few groups', () => [[1, 2]], 'it was given 2 groups and answered rewards of 1'],
    ['no list', () => 'all' as never, 'answered rewards of a string'],
    [
      'a group that is too long',
      () => [[1, 2, 3], [1]],
      'expected 2 finite numbers for trajectory_groups[0], got [1,2,3]',
    ],
    [
      'what is no number',
      () => [[1, 2], [Number.NaN]],
      'expected 1 finite numbers for trajectory_groups[1], got [null]',
    ],
    ['an error', fail, 'its rewards cannot be computed: no such thing'],
    [
      'others each time',
      () => {
        calls += 1
        return [[calls, 2], [1]]
      },
      'the same groups got other rewards the second time',
    ],
  ])('that are %s are refused under the plugin’s name', (_, shape, message) => {
    expect(() => rewardsByPlugins(groups, [shaper(shape)])).toThrow(
      expect.objectContaining({ code: 'plugin_failed', message: expect.stringContaining(`plugin "brief": `) }),
    )
    expect(() => rewardsByPlugins(groups, [shaper(shape)])).toThrow(message)
  })
})
