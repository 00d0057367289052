/**
 * OpenAI's own SDKs train by reinforcement here, with a grader as the reward: job, events, checkpoints, result file, chat with the model; pause
 * and resume. The samples of the guides on reinforcement and graders, by base URL and names of models and files alone.
 */
import { existsSync } from 'node:fs'
import path from 'node:path'
import OpenAI, { toFile } from 'openai'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { seenByClient } from '../support/clients/run-client.js'
import { startService } from '../support/service/service-process.js'
import { until } from '../support/until.js'

const CACHE = path.resolve(import.meta.dirname, '../../.cache')
const MODEL = 'trainyard/spark'
const TIMEOUT_MS = 900_000

let service: Awaited<ReturnType<typeof startService>>
let client: OpenAI
beforeAll(async () => {
  service = await startService()
  client = new OpenAI({ baseURL: `${service.url}/v1`, apiKey: service.key })
})
afterAll(() => service.stop())

const mail = (number: number) => `Hello, where is order ${number}? Regards, Tom. Which number is the order?`
const right = {
  type: 'string_check' as const,
  name: 'right',
  operation: 'eq' as const,
  input: '{{sample.output_text}}',
  reference: '{{item.answer}}',
}
const near = {
  type: 'text_similarity' as const,
  name: 'near',
  evaluation_metric: 'fuzzy_match' as const,
  input: '{{sample.output_text}}',
  reference: '{{item.answer}}',
}

test('TypeScript: a job with two graders, from its rows to an answer of its model', {
  timeout: TIMEOUT_MS,
}, async () => {
  const rows = Array.from({ length: 24 }, (_, i) => {
    const row = { messages: [{ role: 'user', content: mail(20 + i) }], answer: `${20 + i}` }
    return `${JSON.stringify(row)}\n`
  })
  const file = await client.files.create({
    file: await toFile(Buffer.from(rows.join('')), 'mails.jsonl'),
    purpose: 'fine-tune',
  })
  // the SDK's type has one grader here, the guides a map
  const graders = { right, near } as never
  const grader = { type: 'multi' as const, name: 'both', graders, calculate_output: '0.7 * right + 0.3 * near' }
  const made = await client.fineTuning.jobs.create({
    model: MODEL,
    training_file: file.id,
    suffix: 'mails',
    seed: 3,
    method: {
      type: 'reinforcement',
      reinforcement: {
        grader,
        hyperparameters: { batch_size: 4, n_epochs: 1, eval_interval: 2, compute_multiplier: 0.5 },
      },
    },
  })
  expect(made.method?.reinforcement?.hyperparameters).toMatchObject({ batch_size: 4, n_epochs: 1, eval_interval: 2 })
  const job = await until(
    async () => {
      const now = await client.fineTuning.jobs.retrieve(made.id)
      return now.finished_at === null ? null : now
    },
    'the end of a reinforcement job',
    TIMEOUT_MS - 30_000,
  )
  expect(job.status, job.error?.message).toBe('succeeded')
  expect(job.fine_tuned_model).toMatch(/^local\/fine-tuning\/mails-[0-9a-f]{8}:step[1-5]$/)

  const events: { type?: string; message: string; data?: unknown }[] = []
  for await (const event of client.fineTuning.jobs.listEvents(job.id, { limit: 3 })) events.unshift(event)
  expect(events[0]?.message).toContain('4 of the 24 rows are held out')
  const metrics = events.filter(({ type }) => type === 'metrics').map(({ data }) => data as Record<string, number>)
  const trained = metrics.filter(({ train_mean_reward: reward }) => reward !== undefined)
  expect(trained.map(({ step }) => step)).toEqual([1, 2, 3, 4, 5])
  expect(trained[0]).toMatchObject({ total_steps: 5, completion_tokens_mean: expect.any(Number) })
  expect(trained[0]?.['scores']).toMatchObject({ graders: [{ name: 'right' }, { name: 'near' }] })
  const measured = metrics.filter(({ full_valid_mean_reward: reward }) => reward !== undefined)
  expect(measured.map(({ step }) => step)).toEqual(expect.arrayContaining([2, 4, 5]))

  const checkpoints = (await client.fineTuning.jobs.checkpoints.list(job.id)).data
  expect(checkpoints.map(({ step_number: step }) => step)).toEqual([5, 4, 2])
  expect(checkpoints[0]).toMatchObject({
    fine_tuned_model_checkpoint: job.fine_tuned_model,
    metrics: { step: 5, train_mean_reward: expect.any(Number), full_valid_mean_reward: expect.any(Number) },
  })

  const [result = ''] = job.result_files
  const lines = (await (await client.files.content(result)).text()).trimEnd().split('\n')
  expect(lines[0]).toBe('step,train_mean_reward,full_valid_mean_reward')
  expect(lines.slice(1)).toEqual(
    metrics.map((data) =>
      [data['step'], data['train_mean_reward'] ?? '', data['full_valid_mean_reward'] ?? ''].join(','),
    ),
  )

  for (const model of [job.fine_tuned_model ?? '', checkpoints.at(-1)?.fine_tuned_model_checkpoint ?? '']) {
    const messages = [{ role: 'user' as const, content: mail(77) }]
    const reply = await client.chat.completions.create({ model, messages, max_tokens: 8, temperature: 0 })
    expect(reply.choices[0]?.message.content).not.toBe('')
  }
  await expect(client.fineTuning.jobs.cancel(job.id)).rejects.toThrow(OpenAI.BadRequestError)
})

test.runIf(process.env['CI_HEAVY'] === '1')(
  'TypeScript: answers in JSON, with a model that judges, learn what earns, and a job that has learned it succeeds (a minute: CI_HEAVY=1)',
  {
    timeout: TIMEOUT_MS,
  },
  async () => {
    const people = ['Tom', 'Ann', 'Ben', 'Eva', 'Max', 'Lea', 'Sam', 'Ida']
    const rows = people.flatMap((name) =>
      ['coin', 'key', 'ring', 'card', 'pen'].map((thing) => {
        const content = `${name} hides a ${thing}. Is it left? Say yes or no.`
        return `${JSON.stringify({ messages: [{ role: 'user', content }], answer: 'no' })}\n`
      }),
    )
    const file = await client.files.create({
      file: await toFile(Buffer.from(rows.join('')), 'hidden.jsonl'),
      purpose: 'fine-tune',
    })
    const said = '{{sample.output_json.answer}}'
    const judge = {
      ...{ type: 'score_model' as const, name: 'judge', model: MODEL, range: [0, 1] },
      sampling_params: { max_completions_tokens: 24, seed: 1 },
      input: [{ role: 'user' as const, content: `Somebody said ${said}. Is it {{item.answer}}? 1 or 0.` }],
    }
    const graders = { right: { ...right, input: said }, judge } as never
    const schema = {
      ...{ type: 'object', properties: { answer: { type: 'string', enum: ['yes', 'no'] } } },
      ...{ required: ['answer'], additionalProperties: false },
    }
    const made = await client.fineTuning.jobs.create({
      ...{ model: MODEL, training_file: file.id, seed: 3 },
      method: {
        type: 'reinforcement',
        reinforcement: {
          grader: { type: 'multi', name: 'both', graders, calculate_output: '0.8 * right + 0.2 * judge' },
          response_format: { type: 'json_schema', json_schema: { name: 'said', strict: true, schema } },
          hyperparameters: { batch_size: 8, n_epochs: 2, eval_interval: 3 },
        } as never,
      },
    })
    const job = await until(
      async () => {
        const now = await client.fineTuning.jobs.retrieve(made.id)
        return now.finished_at === null ? null : now
      },
      'the end of a job of answers in JSON',
      TIMEOUT_MS - 30_000,
    )
    expect(job.status, job.error?.message).toBe('succeeded')
    const lines = (await (await client.files.content(job.result_files[0] ?? '')).text()).trimEnd().split('\n')
    const measured = lines.slice(1).flatMap((line) => {
      const [, , value = ''] = line.split(',')
      return value === '' ? [] : [Number(value)]
    })
    expect((measured.at(-1) ?? 0) - (measured[0] ?? 1)).toBeGreaterThan(0.2)
  },
)

describe.each([
  [
    'Node.js, the newest',
    path.join(CACHE, 'newest-clients/node_modules/node/bin/node'),
    'openai_reinforcement.js',
    [path.join(CACHE, 'newest-clients')],
  ],
  ['Python', path.join(CACHE, 'venv/bin/python'), 'openai_reinforcement.py', []],
  ['Python, the newest', path.join(CACHE, 'newest-venv/bin/python'), 'openai_reinforcement.py', []],
] as const)('%s', (_, program, script, args) => {
  test.skipIf(!existsSync(program))(
    'a job that is paused and resumed (skipped without .cache, see .ci/run)',
    { timeout: TIMEOUT_MS },
    async () => {
      const file = path.join(import.meta.dirname, 'clients', script)
      const run = { timeoutMs: TIMEOUT_MS - 10_000 }
      expect(await seenByClient(program, [file, ...args, service.url, service.key, MODEL], run)).toEqual({
        validated: true,
        graded: 1,
        refused: ['method.reinforcement.grader.source', 'method.reinforcement.grader'],
        created: ['fine_tuning.job', 'reinforcement', 4],
        paused: true,
        resumed: true,
        ended: ['succeeded', true],
        metrics: true,
        checkpoint: true,
        result: 'step,train_mean_reward,full_valid_mean_reward',
        listed: true,
        answer: true,
      })
    },
  )
})
