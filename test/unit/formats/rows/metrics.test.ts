/** Metrics of a log call as `src/docs/reference/how-training-works.md` defines them. */
import { describe, expect, it } from 'vitest'
import {
  countBatch,
  logMetrics,
  metricName,
  offPolicyMetrics,
  rewardMetrics,
  scenarioIds,
} from '#formats/rows/metrics.js'
import { parseTrajectoryGroups } from '#formats/rows/parse.js'

const exception = { type: 'E', message: 'm', traceback: '' }
const groups = parseTrajectoryGroups([
  {
    trajectories: [
      { reward: 1, metrics: { solved: true, 'loss/extra': 2 }, metadata: { scenario_id: 'a' } },
      { reward: 0, metrics: { solved: false, turns: 4 } },
    ],
    exceptions: [exception],
    metrics: { best: 3 },
  },
  { trajectories: [{ reward: 4 }], metrics: { best: 5 }, metadata: { scenario_id: 7 } },
  { trajectories: [], exceptions: [exception], metrics: { best: 100 } },
])

/** An episode whose answers have these numbers of tokens. */
function episode(lengths: readonly number[], metrics: object = {}) {
  const answers = lengths.map((length) => ({
    message: { role: 'assistant', content: 'a' },
    finish_reason: 'stop',
    index: 0,
    logprobs: {
      content: Array.from({ length }, () => ({ token: 'token_id:1', logprob: -1, bytes: [97], top_logprobs: [] })),
    },
  }))
  return { reward: 0, metrics, messages_and_choices: [{ role: 'user', content: 'q' }, ...answers] }
}

describe('the length of answers', () => {
  it('is a mean over trajectories of all that was sampled, of those whose tokens are known', () => {
    const [said, unknown] = [[episode([3, 4]), episode([1])], { reward: 1 }]
    const parsed = parseTrajectoryGroups([{ trajectories: [...said, unknown] }])
    expect(logMetrics(parsed, 'train')['train/completion_tokens']).toBe(4)
    expect(logMetrics(groups, 'train')).not.toHaveProperty('train/completion_tokens')
  })

  it('is what came with a trajectory, where that says it', () => {
    const parsed = parseTrajectoryGroups([{ trajectories: [episode([3], { completion_tokens: 50 })] }])
    expect(logMetrics(parsed, 'val')['val/completion_tokens']).toBe(50)
  })
})

describe('logMetrics', () => {
  it('averages over trajectories, groups and failures under the names of the split', () => {
    expect(logMetrics(groups, 'val')).toEqual({
      'val/reward': 5 / 3,
      'val/reward_std_dev': 0.5,
      'val/exception_rate': 2 / 5,
      'val/solved': 0.5,
      'val/turns': 4,
      'loss/extra': 2,
      'val/group_best': 4,
      'data/step_num_scenarios': 3,
      'data/step_num_trajectories': 5,
      'data/step_num_groups_submitted': 3,
      'data/step_num_groups_trainable': 1,
    })
  })

  it('prefixes everything in other splits', () => {
    const names = Object.keys(logMetrics(groups, 'discarded'))
    expect(names.every((name) => name.startsWith('discarded/'))).toBe(true)
    expect(names).toContain('discarded/loss/extra')
  })

  it('leaves out means of nothing instead of sending NaN', () => {
    const metrics = logMetrics([], 'val')
    expect(metrics).toEqual({
      'val/reward_std_dev': 0,
      'data/step_num_scenarios': 0,
      'data/step_num_trajectories': 0,
      'data/step_num_groups_submitted': 0,
      'data/step_num_groups_trainable': 0,
    })
  })

  it('lets the computed reward win over a trajectory metric of that name', () => {
    expect(
      logMetrics(parseTrajectoryGroups([{ trajectories: [{ reward: 2, metrics: { reward: 9 } }] }]), 'val')[
        'val/reward'
      ],
    ).toBe(2)
  })
})

describe('metricName', () => {
  it('keeps names that carry a section or split, only in the three known splits', () => {
    expect(metricName('reward', 'val')).toBe('val/reward')
    expect(metricName('reward/mean', 'val')).toBe('reward/mean')
    expect(metricName('train/reward', 'val')).toBe('train/reward')
    expect(metricName('custom/x', 'train')).toBe('train/custom/x')
    expect(metricName('loss/train', 'discarded')).toBe('discarded/loss/train')
  })
})

describe('offPolicyMetrics', () => {
  it('averages the lag of the oldest rollout of each group, without groups that name no version', () => {
    const versioned = parseTrajectoryGroups([
      { trajectories: [{ initial_policy_version: 3 }, { initial_policy_version: 5 }, {}] },
      { trajectories: [{ initial_policy_version: 6, final_policy_version: 7 }] },
      { trajectories: [{}] },
    ])
    expect(offPolicyMetrics(versioned, 7)).toEqual({ 'train/steps_off_policy': 2.5 })
    expect(offPolicyMetrics(groups, 7)).toEqual({})
  })
})

describe('counts', () => {
  it('counts groups whose rewards differ by more than the tolerance as trainable', () => {
    expect(countBatch(groups)).toEqual({ groupsSubmitted: 3, groupsTrainable: 1, trajectories: 3, exceptions: 2 })
  })

  it('reports no reward without trajectories, and rate 1 when all failed', () => {
    expect(rewardMetrics(parseTrajectoryGroups([{ trajectories: [], exceptions: [exception] }]))).toEqual({
      reward_std_dev: 0,
      exception_rate: 1,
    })
  })

  it('finds distinct scenario ids on groups and trajectories', () => {
    expect(scenarioIds(groups)).toEqual(['a', '7'])
  })
})
