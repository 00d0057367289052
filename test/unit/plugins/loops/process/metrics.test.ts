/** What a step came to, by the names of OpenAI's reinforcement jobs; and which limits pause a loop. */
import { describe, expect, it } from 'vitest'
import { readGrader } from '#plugins/graders/grading/spec.js'
import type { GradedAnswer } from '#plugins/loops/process/grading.js'
import { factsOf, graderTokensOf, metricsData } from '#plugins/loops/process/metrics.js'
import { assertGraded } from '#plugins/loops/process/step.js'
import { reachedLimit } from '#plugins/loops/storage/reports.js'

const right = { type: 'string_check', name: 'right', operation: 'eq', input: 'a', reference: 'a' }
const judge = { type: 'score_model', name: 'judge', model: 'm', input: [{ role: 'user', content: 'x' }] }
const multi = readGrader({ type: 'multi', name: 'all', graders: { r: right, j: judge }, calculate_output: 'r + j' })

function answer(r: number, j: number, flag?: 'model_grader_parse_error' | 'other_error'): GradedAnswer {
  const errors = flag === undefined ? [] : [{ flag, grader: 'judge', message: 'no' }]
  const usage = { m: { prompt_tokens: 10, completion_tokens: 2, cached_tokens: 4 } }
  return {
    graded: { reward: r + j, parts: { r, j }, passes: {}, errors, usage },
    ...{ seconds: 0.5, wasKnown: false, completionTokens: 8 },
  }
}

describe('metrics of a step', () => {
  const train = factsOf(multi, [answer(1, 0.5), answer(0, 0.25), answer(0, 0, 'other_error')])
  const valid = factsOf(multi, [answer(1, 1)])
  const at = { step: 3, totalSteps: 9, times: { sampling: 1, full_iteration: 4 }, own: { groups: 1 } }

  it('have means, scores by grader, tokens by model, errors by kind, times', () => {
    const data = metricsData(multi, at, train, valid)
    expect(data).toMatchObject({
      ...{ step: 3, total_steps: 9, groups: 1, full_valid_mean_reward: 2, full_valid_mean_parse_error: 0 },
      ...{ mean_unresponsive_rewards: 0, completion_tokens_mean: 8 },
      model_graders_token_usage: {
        m: {
          ...{ train_prompt_tokens: 30, train_completion_tokens: 6, train_cached_tokens: 12 },
          ...{ eval_prompt_tokens: 10, eval_completion_tokens: 2, eval_cached_tokens: 4 },
        },
      },
      scores: {
        valid_reward_mean: 2,
        graders: [
          { name: 'right', type: 'string_check', valid_reward_mean: 1 },
          { name: 'judge', type: 'score_model', train_reward_mean: 0.25, valid_reward_mean: 1 },
        ],
      },
      usage: { graders: [{ name: 'judge', type: 'score_model', model: 'm', train_prompt_tokens_mean: 10 }] },
      timing: {
        step: { sampling: 1, full_iteration: 4 },
        graders: [{ name: 'all', type: 'multi', train_execution_latency_mean: 0.5 }],
      },
    })
    const { errors } = data as { readonly errors: { readonly graders: readonly Record<string, unknown>[] } }
    expect(errors.graders[1]).toMatchObject({ name: 'judge', train_other_error_count: 1, valid_other_error_count: 0 })
    expect(data['train_mean_reward']).toBeCloseTo(1.75 / 3)
  })

  it('leave out what there is not', () => {
    const data = metricsData(multi, at, null, valid)
    for (const name of ['train_mean_reward', 'completion_tokens_mean', 'mean_unresponsive_rewards'])
      expect(data).not.toHaveProperty(name)
    expect(metricsData(multi, at, train, null)).not.toHaveProperty('full_valid_mean_reward')
  })

  it('count tokens of graders once', () => {
    expect(graderTokensOf([answer(1, 1), { ...answer(1, 1), wasKnown: true }])).toBe(12)
  })
})

describe('a step whose graders err', () => {
  it('fails where half of its answers could not be graded for reasons of the grader, not of the answer', () => {
    const own = answer(0, 0, 'model_grader_parse_error')
    expect(() => assertGraded([own, own, answer(1, 1), answer(1, 1)])).toThrow('2 of 4 answers could not be graded')
    expect(() => assertGraded([own, answer(1, 1), answer(1, 1)])).not.toThrow()
    expect(() => assertGraded([answer(0, 0, 'other_error')])).not.toThrow()
    expect(() => assertGraded([])).not.toThrow()
  })
})

describe('a limit', () => {
  const spent = { graderTokens: 100, seconds: 10, endpointCalls: 3, trainedTokens: 1e9 }
  const none = { graderTokens: null, seconds: null, endpointCalls: null }

  it('is reached at its number, and named', () => {
    expect(reachedLimit(none, spent)).toBeNull()
    expect(reachedLimit({ ...none, graderTokens: 101 }, spent)).toBeNull()
    expect(reachedLimit({ ...none, graderTokens: 100 }, spent)).toBe('limit_reached: 100 of 100 tokens of graders')
    expect(reachedLimit({ ...none, seconds: 5 }, spent)).toBe('limit_reached: 10 of 5 seconds')
    expect(reachedLimit({ ...none, endpointCalls: 2 }, spent)).toContain('calls of endpoints')
  })
})
