/**
 * Supervised jobs through the API with a real worker: validation rows, data in every form an address takes, and what the
 * record of the job tells afterwards.
 */
import { gzipSync } from 'node:zlib'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import type { JsonObject } from '#base/util/json.js'
import type { Checkpoint } from '#contract/wire/checkpoints.js'
import type { List } from '#contract/wire/list.js'
import type { TrainingJob } from '#contract/wire/training-jobs.js'
import { createClient, TrainableModel } from '../../../../src/rl.js'
import { createTestService, type TestService } from '../../../support/service/create-test-service.js'

let service: TestService
let modelId: string
beforeAll(async () => {
  service = await createTestService({ scripted: false })
  modelId = await service.createModel()
})
afterAll(() => service.dispose())

const row = (question: string, answer: string, extra: JsonObject = {}): string =>
  JSON.stringify({
    messages: [
      { role: 'user', content: question },
      { role: 'assistant', content: answer },
    ],
    ...extra,
  })
const training = ['a', 'b', 'c', 'd'].map((word) => row(`say ${word}`, word)).join('\n')
const heldOut = ['e', 'f'].map((word) => row(`say ${word}`, word)).join('\n')
const base64 = (data: string | Uint8Array): string =>
  `data:application/jsonl;base64,${Buffer.from(data).toString('base64')}`

const create = (json: JsonObject) =>
  service.json<TrainingJob & { error?: { code: string; message: string; param: string } }>(
    '/v1/preview/sft-training-jobs',
    { json: { model_id: modelId, ...json } },
  )

async function upload(content: string | Uint8Array): Promise<string> {
  const form = new FormData()
  form.set('purpose', 'fine-tune')
  form.set('file', new Blob([typeof content === 'string' ? content : new Uint8Array(content)]), 'train.jsonl.gz')
  return (await service.json<{ id: string }>('/v1/files', { method: 'POST', body: form })).body.id
}

describe('a job on rows in an order of its own', () => {
  const sorted = [...Array(12).fill('yes'), ...Array(12).fill('no')]
    .map((word, i) => row(`is ${i} so?`, word))
    .join('\n')
  const lossesOf = async (config: JsonObject) => {
    const { status, body } = await create({ training_data_url: base64(sorted), config: { batch_size: 4, ...config } })
    expect([status, body.error]).toEqual([200, undefined])
    const job = await service.waitForJob(body.id)
    const events = await service.allEvents(job.id)
    const steps = events
      .filter(({ type }) => type === 'gradient_step')
      .map(({ data }) => data as Record<string, number>)
    return { job, steps, losses: steps.map((data) => data['loss']) }
  }

  test('takes rows in random order by the seed, the same in every epoch; sorted rows are named where it does not', async () => {
    const frozen = { learning_rate: 0, epochs: 2 }
    const plain = await lossesOf(frozen)
    expect(plain.job.warnings.filter((warning) => warning.includes('the rows are sorted'))).toHaveLength(1)
    const [first, again, other] = [
      await lossesOf({ ...frozen, shuffle: true, seed: 1 }),
      await lossesOf({ ...frozen, shuffle: true, seed: 1 }),
      await lossesOf({ ...frozen, shuffle: true, seed: 2 }),
    ]
    expect(first.job.warnings.filter((warning) => warning.includes('sorted'))).toEqual([])
    expect(first.losses).toEqual(again.losses)
    expect(first.losses.slice(0, 6)).toEqual(first.losses.slice(6))
    expect(first.losses).not.toEqual(other.losses)
    expect(first.losses).not.toEqual(plain.losses)
  })

  test('measures a share of the rows and does not train it', async () => {
    const { job, steps } = await lossesOf({ validation_split: 0.25, shuffle: true, early_stopping_patience: 9 })
    expect(job).toMatchObject({ status: 'completed', num_gradient_steps: 5 })
    expect(steps.at(-1)).toHaveProperty(['val/loss'])
    const events = await service.allEvents(job.id)
    expect(events.find(({ type }) => type === 'training_started')?.data).toMatchObject({
      num_trajectories: 18,
      num_validation_trajectories: 6,
    })
  })

  test('refuses rows to measure on from two places', async () => {
    const { status, body } = await create({
      training_data_url: base64(training),
      validation_data_url: base64(heldOut),
      config: { validation_split: 0.5 },
    })
    expect([status, body.error?.param]).toEqual([422, 'config.validation_split'])
  })
})

describe('a job with validation rows', () => {
  test('measures them before, at each epoch and at the end, and its checkpoint has the loss', async () => {
    const long = row('say', 'x'.repeat(40_000))
    const silent = row('say', 'x', { loss_mask: 'none' })
    const { status, body } = await create({
      training_data_url: base64([training, long, silent].join('\n')),
      validation_data_url: base64([silent, heldOut, long].join('\n')),
      config: { epochs: 2, learning_rate: 1e-3 },
    })
    expect(status).toBe(200)
    const job = await service.waitForJob(body.id)
    expect(job).toMatchObject({ status: 'completed', num_gradient_steps: 4, predicted_end: null })
    const { report } = job
    expect(report?.validation.map((point) => point.gradient_step)).toEqual([0, 2, 4])
    expect(report?.left_out).toEqual([
      { reason: 'overlength', count: 1, examples: ['line 5'] },
      { reason: 'untrainable', count: 1, examples: ['line 6'] },
      { reason: 'validation_overlength', count: 1, examples: ['line 4 of the validation rows'] },
      { reason: 'validation_untrainable', count: 1, examples: ['line 1 of the validation rows'] },
    ])
    expect(report?.trained_tokens).toBeGreaterThan(0)
    expect(report?.remaining_seconds).toBe(0)
    expect(report?.seconds['gradient']).toBeGreaterThan(0)
    expect(report?.seconds['validation']).toBeGreaterThan(0)
    const measured = (await service.allEvents(job.id)).map((event) => event.data['val/loss'])
    expect(measured.filter((loss) => loss !== undefined)).toEqual(report?.validation.slice(1).map(({ loss }) => loss))
    const { body: page } = await service.json<List<Checkpoint>>(
      `/v1/preview/models/${modelId}/checkpoints?order=desc&limit=1`,
    )
    expect(page.data[0]?.metrics['val/loss']).toBe(report?.validation.at(-1)?.loss)
  })

  test('stops early, and says so', async () => {
    const { body } = await create({
      training_data_url: base64(row('say', 'one and only')),
      validation_data_url: base64(row('else', 'quite another thing')),
      config: { epochs: 60, learning_rate: 3e-2, early_stopping_patience: 1, validation_interval: 1 },
    })
    const job = await service.waitForJob(body.id)
    expect(job).toMatchObject({ status: 'completed', num_sequences: 60 })
    expect(job.report?.stopped_early).toBe(true)
    expect(job.num_gradient_steps).toBeLessThan(60)
    const losses = job.report?.validation.map(({ loss }) => loss) ?? []
    const best = losses.indexOf(Math.min(...losses))
    expect(job.report?.kept_gradient_step).toBe(best)
  })

  test.each([
    ['validation_interval', { validation_interval: 2 }],
    ['early_stopping_patience', { early_stopping_patience: 2 }],
    ['keep_best', { keep_best: true }],
  ])('%s without validation rows is refused by name', async (name, config) => {
    const { status, body } = await create({ training_data_url: base64(training), config })
    expect([status, body.error?.code, body.error?.param]).toEqual([422, 'invalid_value', `config.${name}`])
  })

  test('that are all left out fail with the reason', async () => {
    const rows = [row('say', 'x'.repeat(40_000)), row('say', 'x', { loss_mask: 'none' })]
    const request = { training_data_url: base64(training), validation_data_url: base64(rows.join('\n')) }
    const reason = '(1 longer than the context of the model, 1 without an assistant turn that trains)'
    const { body } = await create(request)
    expect(await service.waitForJob(body.id)).toMatchObject({
      status: 'failed',
      error_code: 'no_trainable_tokens',
      error_message: expect.stringContaining(reason),
    })
    const plan = await service.json<{ error: { code: string; message: string } }>(
      '/v1/preview/sft-training-jobs?plan=true',
      { json: { model_id: modelId, ...request } },
    )
    expect(plan.body.error).toMatchObject({ code: 'no_trainable_tokens', message: expect.stringContaining(reason) })
  })

  test('a wrong validation row is refused with its line and the field', async () => {
    const { status, body } = await create({
      training_data_url: base64(training),
      validation_data_url: base64(`${heldOut}\n{"messages": []}`),
    })
    expect(status).toBe(400)
    expect(body.error).toMatchObject({ code: 'invalid_example' })
    expect(body.error?.message).toMatch(/^validation_data_url: Line 3 /)
  })
})

describe('addresses of data', () => {
  test.each([
    ['a data: address in base64', async () => base64(training)],
    ['a data: address, percent-encoded', async () => `data:,${encodeURIComponent(training)}`],
    ['a data: address of gzip', async () => base64(gzipSync(training))],
    ['an uploaded gzip file', () => upload(gzipSync(training))],
  ])('%s', async (_, address) => {
    const { status, body } = await create({ training_data_url: await address(), config: { seed: 1 } })
    expect([status, body.error]).toEqual([200, undefined])
    expect(await service.waitForJob(body.id)).toMatchObject({ status: 'completed', num_gradient_steps: 2 })
  })

  test.each([
    ['data:application/jsonl;base64', 'training_data_refused'],
    ['data:;base64,*', 'training_data_refused'],
    ['data:,%ff', 'training_data_refused'],
    [base64(gzipSync(training).subarray(0, 60)), 'invalid_gzip'],
    [base64(''), 'empty_training_data'],
    ['ftp://127.0.0.1/data', 'training_data_refused'],
    ['wandb-artifact:///local/rows:v0', 'training_data_refused'],
  ])('%s is refused', async (url, code) => {
    const { status, body } = await create({ training_data_url: url })
    expect([status, body.error?.code]).toEqual([400, code])
  })

  test.each(['./rows.jsonl', 'wandb-artifact://rows'])('%s is refused by field and value', async (url) => {
    for (const field of ['training_data_url', 'validation_data_url']) {
      const { body } = await create({ training_data_url: base64(training), [field]: url })
      expect(body.error?.message).toMatch(new RegExp(`^${field} must be .*, got "${url}"$`))
    }
  })
})

describe('rows that other trainers read', () => {
  const array = JSON.stringify(
    [JSON.parse(training.split('\n')[0] ?? ''), JSON.parse(heldOut.split('\n')[0] ?? '')],
    null,
    2,
  )
  test.each([
    [
      '{"conversations":[{"from":"human","value":"What is tea?"},{"from":"gpt","value":"A drink."}]}',
      'invalid_example',
      'Line 1 is a ShareGPT row (conversations of from and value), expected messages, or prompt and completion.',
      'convert it: trainyard data convert rows.jsonl --to sft --out converted.jsonl',
    ],
    [
      '{"instruction":"Add.","input":"1+1","output":"2"}',
      'invalid_example',
      'Line 1 is an Alpaca row (instruction, input and output), expected messages, or prompt and completion.',
      'convert it: trainyard data convert rows.jsonl --to sft --out converted.jsonl',
    ],
    [
      array,
      'not_json_lines',
      'The file is one JSON array, expected JSON Lines: one object a line.',
      'convert it: trainyard data convert rows.json --out converted.jsonl',
    ],
  ])(
    '%s is refused with what it is and how to convert it, uploaded or not, planned or not',
    async (data, code, message, hint) => {
      const addresses = [base64(data), await upload(data), await upload(gzipSync(data))]
      for (const address of addresses) {
        for (const query of ['', '?plan=true']) {
          const refused = await service.json<{ error: JsonObject }>(`/v1/preview/sft-training-jobs${query}`, {
            json: { model_id: modelId, training_data_url: address },
          })
          expect(refused.status).toBe(400)
          expect(refused.body.error).toMatchObject({ code, message, hint: expect.stringMatching(hint) })
        }
      }
      const held = await create({ training_data_url: base64(training), validation_data_url: base64(data) })
      expect(held.body.error).toMatchObject({ code, message: `validation_data_url: ${message}` })
    },
  )
})

test('the library trains until held-out rows get no better; explicit epochs are exactly that many', async () => {
  const client = createClient({ baseUrl: service.url, apiKey: service.apiKey })
  const { base_model: baseModel } = (await service.json<{ base_model: string }>(`/v1/preview/models/${modelId}`)).body
  const model = await new TrainableModel(client, { name: 'until', baseModel }).register()
  const rows = Array.from({ length: 24 }, (_, i) => ({
    messages: [
      { role: 'user' as const, content: `Box ${i}?` },
      { role: 'assistant' as const, content: 'Yes.' },
    ],
  }))
  const quiet = { onWarning: () => {} }
  const open = await model.trainSft(rows, { ...quiet, config: { learning_rate: 0 } })
  const { body: job } = await service.json<TrainingJob>(`/v1/preview/training-jobs/${open.jobId}`)
  expect(job.config).toMatchObject({ epochs: 40, validation_split: 0.2, early_stopping_patience: 3, seed: 0 })
  // nothing moves: one measurement before, three that are no better
  expect(job.report).toMatchObject({ stopped_early: true, validation: { length: 4 } })
  expect(job.report?.facts['fit']).toMatchObject({ held_out: job.report?.validation[0]?.loss })
  const exact = await model.trainSft(rows, { ...quiet, config: { epochs: 2 } })
  const { body: second } = await service.json<TrainingJob>(`/v1/preview/training-jobs/${exact.jobId}`)
  expect(second.config).not.toHaveProperty('validation_split')
  expect(second.report).toMatchObject({ stopped_early: false, validation: [] })
  expect(exact.gradientSteps).toBe(24)
})
