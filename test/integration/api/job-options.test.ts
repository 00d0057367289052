/**
 * Options that would do nothing, through the API: on the job's record, refused with `strict`, refused by name.
 */
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import type { TrainingJob } from '#contract/wire/training-jobs.js'
import { createTestService, sampleGroup, type TestService } from '../../support/service/create-test-service.js'

let service: TestService
let model: string
beforeAll(async () => {
  service = await createTestService()
  model = await service.createModel('m')
})
afterAll(() => service.dispose())

interface Answer extends TrainingJob {
  readonly detail: { readonly loc: readonly string[]; readonly msg: string; readonly type: string }[]
}

const submit = (experimental_config: object, more: object = {}) =>
  service.json<Answer>('/v1/preview/training-jobs', {
    json: { model_id: model, trajectory_groups: [sampleGroup()], experimental_config, ...more },
  })

describe('options of a job', () => {
  it('that nobody knows are reported on its record, and the job runs', async () => {
    // at a rate that suits the size, or that would be another warning
    const { status, body } = await submit({ learing_rate: 0.1, learning_rate: 1e-3 })
    expect(status).toBe(200)
    const warning =
      'experimental_config.learing_rate is not a known option and has no effect; did you mean "learning_rate"?'
    expect(body.warnings).toEqual([warning])
    expect(await service.waitForJob(body.id)).toMatchObject({ status: 'completed', warnings: [warning] })
  })

  it('that nobody knows are refused with strict, all of them at once', async () => {
    const { status, body } = await submit({ learing_rate: 0.1, epsilonn: 1, seed: 3 }, { strict: true })
    expect(status).toBe(422)
    expect(body.detail.map(({ loc, type }) => [loc.join('.'), type])).toEqual([
      ['body.experimental_config.learing_rate', 'extra_forbidden'],
      ['body.experimental_config.epsilonn', 'extra_forbidden'],
    ])
    expect((await submit({ seed: 3 }, { strict: 'true' })).status).toBe(200)
  })

  it('that are wrong are all named, and numbers may be text', async () => {
    const { status, body } = await submit({ learning_rate: 'fast', epsilon: -1, ppo: 'perhaps' })
    expect(status).toBe(422)
    expect(body.detail.map(({ loc }) => loc.at(-1)).sort()).toEqual(['epsilon', 'learning_rate', 'ppo'])
    expect((await submit({ learning_rate: '1e-5', ppo: 'yes' })).status).toBe(200)
  })

  it('that the arithmetic of training cannot hold are refused by name, before there is a job', async () => {
    const jobs = async () =>
      (await service.json<{ data: object[] }>('/v1/preview/training-jobs?limit=100')).body.data.length
    const before = await jobs()
    const { status, body } = await submit({
      ...{ epsilon: 1e39, epsilon_high: 1e300, kl_penalty_coef: '1e39', alt_k2_tau: 3.5e38, lora: { alpha: 1e39 } },
    })
    expect(status).toBe(422)
    expect(body.detail.map(({ loc, type }) => [loc.slice(2).join('.'), type])).toEqual(
      ['epsilon', 'epsilon_high', 'alt_k2_tau', 'kl_penalty_coef', 'lora.alpha'].map((name) => [
        name,
        'less_than_equal',
      ]),
    )
    expect(await jobs()).toBe(before)
  })

  it('that cannot be honoured are refused by name', async () => {
    const { status, body } = await submit({ lora: { dropout: 0.1 }, scale_learning_rate_by_reward_std_dev: true })
    expect(status).toBeGreaterThanOrEqual(400)
    expect(JSON.stringify(body)).toMatch(/scale_learning_rate_by_reward_std_dev is not.*lora\.dropout is not/)
  })

  it('cannot give an adapter another shape than it has', async () => {
    const first = await submit({ seed: 9 })
    await service.waitForJob(first.body.id)
    const { status, body } = await submit({ lora: { rank: 4 } })
    expect([status, JSON.stringify(body)]).toEqual([422, expect.stringContaining('rank 8 and alpha 16')])
    expect((await submit({ lora: { rank: 8, alpha: 16 } })).status).toBe(200)
  })
})
