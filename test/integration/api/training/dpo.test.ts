/**
 * Preference jobs through the API with a real worker, on the built-in model: margins and accuracy rise, the reference is what
 * was asked for, and a job can be cancelled. Resume points: `test/integration/training/resume.test.ts`.
 */
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import type { JsonObject } from '#base/util/json.js'
import { traceLoss } from '#contract/jobs/losses.js'
import type { Checkpoint } from '#contract/wire/checkpoints.js'
import type { List } from '#contract/wire/list.js'
import type { TrainingJob } from '#contract/wire/training-jobs.js'
import { createTestService, type TestService } from '../../../support/service/create-test-service.js'

const DPO = '/v1/preview/dpo-training-jobs'

let service: TestService
let modelId: string
beforeAll(async () => {
  service = await createTestService({ scripted: false, baseModels: ['trainyard/spark'] })
  const { body } = await service.json<{ id: string }>('/v1/preview/models', {
    json: { project: 'tests', name: 'dpo', base_model: 'trainyard/spark' },
  })
  modelId = body.id
})
afterAll(() => service.dispose())

const things = ['rain', 'bread', 'music', 'a river', 'the moon', 'winter', 'a horse', 'the sea']
/** A hinge at twice the margin: 1 where policy and reference agree. */
const OWN: JsonObject = traceLoss('dpo', ({ chosen, rejected }, { sub, mul, max }) =>
  max(sub(1, mul(sub(chosen, rejected), 0.2)), 0),
)
/** Prefer answers that are polite. */
const pairs = things.map((thing) => ({
  prompt: `What do you say about ${thing}?`,
  chosen: `Thank you for asking about ${thing}.`,
  rejected: `Go away with ${thing}.`,
}))
const address = (rows: readonly unknown[]): string =>
  `data:application/jsonl;base64,${Buffer.from(rows.map((row) => JSON.stringify(row)).join('\n')).toString('base64')}`

const create = (json: JsonObject) =>
  service.json<TrainingJob & { error?: { code: string; message: string; param: string | null } }>(DPO, {
    json: { model_id: modelId, ...json },
  })

async function stepsOf(jobId: string): Promise<Record<string, number>[]> {
  const events = await service.allEvents(jobId)
  return events.filter(({ type }) => type === 'gradient_step').map(({ data }) => data as Record<string, number>)
}

describe('a preference job', () => {
  test('raises margins and accuracy, also on pairs it was not trained on', async () => {
    const { status, body } = await create({
      training_data_url: address(pairs.slice(0, 6)),
      validation_data_url: address(pairs.slice(6)),
      config: { batch_size: 3, epochs: 4, learning_rate: 1e-3, beta: 0.1 },
    })
    expect([status, body.error]).toEqual([200, undefined])
    const job = await service.waitForJob(body.id)
    expect(job).toMatchObject({ kind: 'dpo', status: 'completed', num_gradient_steps: 8, step: 1, warnings: [] })
    const steps = await stepsOf(job.id)
    // the policy is its own reference before the first update: no margin, and the loss of a coin
    expect(steps[0]).toMatchObject({ 'rewards/margins': 0, 'rewards/accuracies': 0, num_pairs: 3 })
    expect(steps[0]!['loss']).toBeCloseTo(Math.LN2, 5)
    const last = steps.at(-1)!
    expect(last['rewards/accuracies']).toBe(1)
    expect(last['rewards/margins']).toBeGreaterThan(0.5)
    expect(last['loss']).toBeLessThan(0.5)
    const validation = job.report!.validation.map(({ loss }) => loss)
    expect(validation[0]).toBeCloseTo(Math.LN2, 5)
    expect(validation.at(-1)).toBeLessThan(validation[0]!)
    // measured after each epoch, under the names TRL gives `eval_`
    const measured = steps.filter((data) => data['val/loss'] !== undefined)
    expect(measured.map((data) => data['val/loss'])).toEqual(validation.slice(1))
    const [first, end] = [measured[0]!, measured.at(-1)!]
    expect(end['val/rewards/margins']).toBeGreaterThan(Math.max(0.3, first['val/rewards/margins']!))
    expect(end['val/rewards/accuracies']).toBe(1)
    expect(end['val/rewards/margins']).toBeCloseTo(end['val/rewards/chosen']! - end['val/rewards/rejected']!, 5)
    expect(job.report!.validation[0]).toMatchObject({ gradient_step: 0, 'rewards/margins': 0, 'rewards/accuracies': 0 })
    const { body: page } = await service.json<List<Checkpoint>>(
      `/v1/preview/models/${modelId}/checkpoints?order=desc&limit=1`,
    )
    expect(page.data[0]?.metrics).toMatchObject({
      'val/loss': validation.at(-1),
      'val/rewards/margins': end['val/rewards/margins'],
      'data/step_num_pairs': 6,
    })
    expect(page.data[0]?.metrics['rewards/margins']).toBeGreaterThan(0)
  })

  test('learns from single answers that are good or bad, measured against those of other prompts', async () => {
    const labelled = pairs.flatMap(({ prompt, chosen, rejected }, i) =>
      [{ completion: chosen, label: true }, ...(i % 2 === 0 ? [{ completion: rejected, label: false }] : [])].map(
        (answer) => ({ prompt, ...answer }),
      ),
    )
    const { body: model } = await service.json<{ id: string }>('/v1/preview/models', {
      json: { project: 'tests', name: 'kto', base_model: 'trainyard/spark' },
    })
    const config = { loss_type: 'kto', batch_size: 4, epochs: 4, learning_rate: 1e-3, shuffle: true, seed: 1 }
    const { status, body } = await create({
      model_id: model.id,
      training_data_url: address(labelled.slice(0, 9)),
      validation_data_url: address(labelled.slice(9)),
      config,
    })
    expect([status, body.error]).toEqual([200, undefined])
    const job = await service.waitForJob(body.id)
    expect(job).toMatchObject({ kind: 'dpo', status: 'completed', num_gradient_steps: 12 })
    expect(job.warnings).toEqual([expect.stringContaining('6 answers are good and 3 bad')])
    const steps = await stepsOf(job.id)
    // where policy and reference agree every answer is worth a half
    expect(steps[0]!['loss']).toBeCloseTo(0.5, 5)
    expect(steps[0]!['kl']).toBe(0)
    expect(steps.some(({ kl }) => kl! > 0)).toBe(true)
    const [before, after] = [job.report!.validation[0]!, job.report!.validation.at(-1)!]
    expect(before.loss).toBeCloseTo(0.5, 5)
    expect(after.loss).toBeLessThan(0.45)
    expect(after['rewards/margins']).toBeGreaterThan(0.3)
    const { status: refused, body: answer } = await create({ training_data_url: address(pairs), config })
    expect([refused, answer.error?.code]).toEqual([400, 'invalid_example'])
  })

  test.each([
    // the loss of a job's first step, where policy and reference agree
    ['hinge', {}, 1],
    ['ipo', { beta: 0.5 }, 1],
    ['sigmoid with an SFT term', { rpo_alpha: 0.2 }, null],
    ['orpo', {}, null],
    ['simpo', {}, null],
    ['apo_zero', {}, 1],
    ['custom', { loss_formula: OWN }, 1],
  ])('learns with %s', async (name, config, first) => {
    const model = await service.json<{ id: string }>('/v1/preview/models', {
      json: { project: 'tests', name: `dpo-${name.slice(0, 5)}`, base_model: 'trainyard/spark' },
    })
    const loss_type = name.split(' ')[0] as string
    const { status, body } = await create({
      model_id: model.body.id,
      training_data_url: address(pairs.slice(0, 6)),
      validation_data_url: address(pairs.slice(6)),
      config: { loss_type, batch_size: 3, epochs: 4, learning_rate: 1e-3, ...config },
    })
    expect([status, body.error]).toEqual([200, undefined])
    const job = await service.waitForJob(body.id)
    expect(job).toMatchObject({ status: 'completed', num_gradient_steps: 8 })
    expect(job.config).toMatchObject({ loss_type, ...config })
    const [start, ...rest] = await stepsOf(job.id)
    const end = rest.at(-1)!
    if (first !== null) expect(start!['loss']).toBeCloseTo(first, 4)
    expect(end['loss']).toBeLessThan(start!['loss']!)
    expect(end['rewards/margins']).toBeGreaterThan(start!['rewards/margins']!)
    expect('nll_loss' in end).toBe(name === 'orpo' || 'rpo_alpha' in config)
    // the train graph and the measurement say the same of the same state: that on other rows it fell, too
    const validation = job.report!.validation.map((point) => point.loss)
    expect(validation.at(-1)).toBeLessThan(validation[0]!)
  })

  test('is measured to the step it starts from, to another step, or to nothing', async () => {
    const marginOf = async (config: JsonObject): Promise<number> => {
      const { status, body } = await create({
        training_data_url: address(pairs.slice(0, 2)),
        config: { learning_rate: 0, ...config },
      })
      expect([status, body.error]).toEqual([200, undefined])
      await service.waitForJob(body.id)
      return (await stepsOf(body.id))[0]!['rewards/margins']!
    }
    expect(await marginOf({})).toBe(0)
    expect(await marginOf({ reference_step: 0 })).toBeGreaterThan(0.1)
    expect(await marginOf({ reference_step: 1 })).toBeCloseTo(0, 5)
    expect(await marginOf({ reference_free: true })).not.toBeCloseTo(0, 3)
  })

  test('fails at once, and says why, when its reference is deleted before it begins', async () => {
    const model = await service.json<{ id: string }>('/v1/preview/models', {
      json: { project: 'tests', name: 'dpo-reference', base_model: 'trainyard/spark' },
    })
    const send = async (config: JsonObject) => {
      const json = {
        model_id: model.body.id,
        training_data_url: address(pairs),
        config: { learning_rate: 0, ...config },
      }
      return (await service.json<TrainingJob>(DPO, { json })).body.id
    }
    for (const seed of [1, 2]) await service.waitForJob(await send({ seed }))
    const before = await send({ batch_size: 1, epochs: 500 })
    const job = await send({ reference_step: 1 })
    const checkpoints = `/v1/preview/models/${model.body.id}/checkpoints`
    const deleted = await service.json(checkpoints, { method: 'DELETE', json: { steps: [1] } })
    expect(deleted.body).toMatchObject({ deleted_count: 1 })
    await service.json(`/v1/preview/training-jobs/${before}/cancel`, { json: {} })
    expect(await service.waitForJob(job)).toMatchObject({
      status: 'failed',
      attempt: 1,
      error_code: 'checkpoint_not_found',
      error_message: 'the reference of the job was deleted before it began: the model has no checkpoint at step 1',
    })
  })

  test('is cancelled between steps and leaves no checkpoint', async () => {
    const { body } = await create({
      training_data_url: address(pairs),
      config: { batch_size: 1, epochs: 500, learning_rate: 1e-4 },
    })
    for (;;) {
      const { body: job } = await service.json<TrainingJob>(`/v1/preview/training-jobs/${body.id}`)
      if (job.num_gradient_steps > 1) break
      expect(['queued', 'running']).toContain(job.status)
      await new Promise((resolve) => setTimeout(resolve, 50))
    }
    await service.json(`/v1/preview/training-jobs/${body.id}/cancel`, { json: {} })
    expect(await service.waitForJob(body.id)).toMatchObject({ status: 'cancelled', step: null })
  })

  test.each([
    ['an unknown loss', { loss_type: 'bcq' }, 'invalid_value'],
    ['kto without a reference', { loss_type: 'kto', reference_free: true }, 'invalid_value'],
    ['kto on batches of one answer', { loss_type: 'kto', batch_size: 1 }, 'invalid_value'],
    ['a weight that its loss does not read', { desirable_weight: 2 }, 'invalid_value'],
    ['a reference of a loss without one', { loss_type: 'orpo', reference_step: 0 }, 'invalid_value'],
    ['label smoothing that its loss does not read', { loss_type: 'hinge', label_smoothing: 0.1 }, 'invalid_value'],
    ['a margin that its loss does not read', { simpo_gamma: 1 }, 'invalid_value'],
    ['label smoothing of a half', { label_smoothing: 0.5 }, 'invalid_value'],
    ['two references', { reference_free: true, reference_step: 0 }, 'invalid_value'],
    ['a step that does not exist', { reference_step: 99 }, 'invalid_value'],
    ['early stopping without validation rows', { early_stopping_patience: 1 }, 'invalid_value'],
  ])('refuses %s', async (_, config, code) => {
    const { status, body } = await create({ training_data_url: address(pairs), config })
    expect([status, body.error?.code]).toEqual([422, code])
  })

  test('names pairs to measure on that are left out, and fails where none is left', async () => {
    const long = { ...pairs[0], chosen: 'x '.repeat(20_000) }
    const measuredOn = async (rows: readonly unknown[]) => {
      const { body } = await create({ training_data_url: address(pairs), validation_data_url: address(rows) })
      return service.waitForJob(body.id)
    }
    expect((await measuredOn([pairs[0], long])).report?.left_out).toEqual([
      { reason: 'validation_overlength', count: 1, examples: ['line 2 of the validation rows'] },
    ])
    expect(await measuredOn([long])).toMatchObject({
      error_code: 'no_trainable_tokens',
      error_message: expect.stringContaining('no pair that could be compared (1 longer than the context of the model)'),
    })
  })

  test('refuses rows that are no pairs, with the line', async () => {
    const { status, body } = await create({ training_data_url: address([pairs[0], { prompt: 'x', chosen: 'y' }]) })
    expect(status).toBe(400)
    expect(body.error?.message).toContain('Line 2')
  })

  test('reports options without effect, and refuses them when asked to', async () => {
    const config = { betta: 0.3, epochs: 1 }
    const { body } = await create({ training_data_url: address(pairs.slice(0, 1)), config })
    expect(body.warnings).toContain('config.betta is not a known option and has no effect; did you mean "beta"?')
    await service.waitForJob(body.id)
    const { status } = await create({ training_data_url: address(pairs), config, strict: true })
    expect(status).toBe(422)
  })
})
