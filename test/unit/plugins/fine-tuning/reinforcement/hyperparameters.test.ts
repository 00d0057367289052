/**
 * OpenAI's hyperparameters of reinforcement jobs as numbers of a loop, given and left open.
 */
import { describe, expect, it } from 'vitest'
import { measuredRate, publishedRate } from '#contract/jobs/size-defaults.js'
import { chooseLoop, heldOutOf } from '#plugins/fine-tuning/reinforcement/hyperparameters.js'

const chosen = (wanted: Parameters<typeof chooseLoop>[0], rows: number, parameters: number | null = null) =>
  chooseLoop(wanted, { rows, parameters })

describe('what is left open', () => {
  it.each([
    // rows, prompts a step, steps, passes, steps between evaluations
    [1, 1, 20, 20, 2],
    [8, 8, 20, 20, 2],
    [16, 16, 20, 20, 2],
    [100, 16, 25, 4, 2],
    [1000, 16, 63, 1, 6],
    [50_000, 16, 200, 'auto', 20],
  ])('%i rows', (rows, batch, steps, epochs, interval) => {
    const { shown, loop } = chosen({}, rows)
    expect(loop).toMatchObject({ promptsPerStep: batch, answersPerPrompt: 8, steps, evaluateEvery: interval })
    expect(shown).toEqual({
      batch_size: batch,
      compute_multiplier: 1,
      n_epochs: epochs,
      learning_rate_multiplier: 1,
      eval_interval: interval,
      eval_samples: 1,
      reasoning_effort: 'default',
    })
    expect(chosen({ batch_size: 'auto', n_epochs: 'auto', eval_interval: 'auto' }, rows)).toEqual(chosen({}, rows))
  })
})

describe('what is given', () => {
  it('is taken, and shown', () => {
    const wanted = {
      ...{ batch_size: 4, n_epochs: 3, compute_multiplier: 0.5, learning_rate_multiplier: 2 },
      ...{ eval_interval: 5, eval_samples: 2, reasoning_effort: 'low' as const },
    }
    const { shown, loop } = chosen(wanted, 10, 4_500_000)
    expect(shown).toEqual(wanted)
    const rate = measuredRate('rl', 4_500_000) ?? 0
    expect(rate).toBeGreaterThan(publishedRate('rl'))
    expect(loop).toEqual({
      ...{ promptsPerStep: 4, answersPerPrompt: 4, steps: 8, evaluateEvery: 5, answersPerHeldOut: 2 },
      training: { learning_rate: 2 * rate },
    })
  })

  it.each([
    [1e-5, 2],
    [0.25, 2],
    [0.3, 2],
    [0.4, 3],
    [1, 8],
    [7.9, 63],
    [10, 64],
  ])('compute %f is %i answers a prompt', (compute_multiplier, answers) => {
    expect(chosen({ compute_multiplier }, 8).loop.answersPerPrompt).toBe(answers)
  })

  it('asks for no more prompts a step than there are rows', () => {
    expect(chosen({ batch_size: 64, n_epochs: 2 }, 10)).toMatchObject({
      shown: { batch_size: 10 },
      loop: { promptsPerStep: 10, steps: 2 },
    })
  })
})

it.each([
  [2, 1],
  [5, 2],
  [8, 4],
  [40, 4],
  [75, 8],
  [2000, 200],
  [50_000, 200],
])('of %i rows %i are held out', (rows, heldOut) => {
  expect(heldOutOf(rows)).toBe(heldOut)
})
