/** The rates of the Python library's schedules, recorded by test/goldens/make_schedule_goldens.py, to 1e-12. */
import { describe, expect, it } from 'vitest'
import { rateNotes, rateOf } from '#training/trainer/epochs/schedule.js'
import goldens from '../../../../goldens/learning-rate-schedules.json' with { type: 'json' }
import { resolveSftConfig } from '../../../../support/model/job-options.js'

describe('rateOf', () => {
  goldens.forEach(({ total, peak, method, warmup, min, rates }, n) => {
    it(`equals the library's, schedule ${n}: ${method} over ${total}`, () => {
      const options = resolveSftConfig({
        learning_rate: peak,
        learning_rate_schedule: method,
        warmup_steps: warmup,
        min_learning_rate: min,
      })
      rates.forEach((rate, index) => {
        expect(Math.abs(rateOf(options, index, total) - rate)).toBeLessThan(1e-12)
      })
    })
  })

  it('takes a list as it is', () => {
    expect(rateOf(resolveSftConfig({ learning_rate: [0.1, 0.2] }), 1, 2)).toBe(0.2)
  })
})

describe('a warm-up', () => {
  const options = resolveSftConfig({ learning_rate: 1e-3, warmup_steps: 100 })
  it('that ends behind the last batch is told, with the rate that is reached', () => {
    expect(rateNotes(options, 3)).toEqual([
      'warmup_steps is 100, but the job has 3 batches: the learning rate rises to 0.00003 and never reaches 0.001',
    ])
    expect(rateNotes(options, 99)).toHaveLength(1)
  })

  it('that reaches its peak is not, and a list or a job without a batch is not either', () => {
    for (const batchCount of [0, 100, 500]) expect(rateNotes(options, batchCount)).toEqual([])
    expect(rateNotes(resolveSftConfig({ learning_rate: [0.1, 0.2] }), 2)).toEqual([])
  })
})

describe('a schedule', () => {
  it('is refused beside a list, and a floor above its peak too', () => {
    for (const [config, param] of [
      [{ learning_rate: [0.1], learning_rate_schedule: 'linear' }, 'config.learning_rate_schedule'],
      [{ learning_rate: [0.1], warmup_steps: 1 }, 'config.warmup_steps'],
      [{ learning_rate: 0.1, min_learning_rate: 0.2 }, 'config.min_learning_rate'],
    ] as const) {
      expect(() => resolveSftConfig({ ...config } as Parameters<typeof resolveSftConfig>[0])).toThrow(
        expect.objectContaining({ code: 'invalid_value', param }),
      )
    }
  })

  it('may be named in experimental_config, as the other extensions', () => {
    const { epochs, weightDecay } = resolveSftConfig({ experimental_config: { epochs: 3, weight_decay: 0.01 } })
    expect([epochs, weightDecay]).toEqual([3, 0.01])
  })
})
