/**
 * OpenAI's own SDKs upload files and fine-tune here, in Python and in TypeScript, and chat with what they made.
 */
import { existsSync } from 'node:fs'
import path from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import OpenAI, { toFile } from 'openai'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { seenByClient } from '../support/clients/run-client.js'
import { startService } from '../support/service/service-process.js'

const PYTHON = path.resolve(import.meta.dirname, '../../.cache/venv/bin/python')
const MODEL = 'trainyard/spark'

let service: Awaited<ReturnType<typeof startService>>
let client: OpenAI
beforeAll(async () => {
  service = await startService()
  client = new OpenAI({ baseURL: `${service.url}/v1`, apiKey: service.key })
})
afterAll(() => service.stop())

const row = (answer: string) => ({
  messages: [
    { role: 'user' as const, content: 'Which word?' },
    { role: 'assistant' as const, content: answer },
  ],
})

test('TypeScript: upload, list, content, fine-tune, chat, train on, cancel, delete', { timeout: 900_000 }, async () => {
  const text = `${JSON.stringify(row('Node'))}\n`.repeat(16)
  const file = await client.files.create({ file: await toFile(Buffer.from(text), 'rows.jsonl'), purpose: 'fine-tune' })
  expect(file).toMatchObject({ object: 'file', filename: 'rows.jsonl', bytes: text.length, purpose: 'fine-tune' })
  expect(await (await client.files.content(file.id)).text()).toBe(text)
  const listed: string[] = []
  for await (const each of client.files.list({ limit: 1 })) listed.push(each.id)
  expect(listed).toContain(file.id)

  const train = async (model: string) => {
    let job = await client.fineTuning.jobs.create({
      model,
      training_file: file.id,
      suffix: 'node words',
      validation_file: file.id,
      hyperparameters: { n_epochs: 4, learning_rate_multiplier: 4 },
    })
    expect(job.hyperparameters).toEqual({ n_epochs: 4, learning_rate_multiplier: 4, batch_size: 'auto' })
    while (job.status === 'queued' || job.status === 'running') {
      await sleep(250)
      job = await client.fineTuning.jobs.retrieve(job.id)
    }
    expect(job.status, job.error?.message).toBe('succeeded')
    return job
  }
  const first = await train(MODEL)
  expect(first.fine_tuned_model).toMatch(/^local\/fine-tuning\/node-words-[0-9a-f]{8}:step1$/)
  const reply = await client.chat.completions.create({
    model: first.fine_tuned_model ?? '',
    messages: row('').messages.slice(0, 1),
    max_tokens: 8,
    temperature: 0,
  })
  expect(reply.choices[0]?.message.content).toBe('Node')

  const second = await train(first.fine_tuned_model?.replace(':step1', '') ?? '')
  expect(second.fine_tuned_model).toBe(first.fine_tuned_model?.replace(':step1', ':step2'))
  await expect(client.fineTuning.jobs.cancel(second.id)).rejects.toThrow(OpenAI.BadRequestError)
  const jobs: string[] = []
  for await (const each of client.fineTuning.jobs.list({ limit: 1 })) jobs.push(each.id)
  expect(jobs.slice(0, 2)).toEqual([second.id, first.id])
  const metrics: number[] = []
  for await (const event of client.fineTuning.jobs.listEvents(first.id, { limit: 5 })) {
    if (event.type === 'metrics') metrics.push((event.data as { train_loss: number }).train_loss)
  }
  expect(metrics.length).toBeGreaterThan(8)
  // newest first: the last loss is lower than the first
  expect(metrics[0]).toBeLessThan(metrics.at(-1) ?? 0)

  expect(await client.files.delete(file.id)).toMatchObject({ id: file.id, deleted: true })
  await expect(client.files.retrieve(file.id)).rejects.toThrow(OpenAI.NotFoundError)
  const refused = client.fineTuning.jobs.create({
    model: MODEL,
    training_file: file.id,
    integrations: [{ type: 'wandb', wandb: { project: 'p' } }],
  })
  await expect(refused).rejects.toThrow(OpenAI.BadRequestError)
})

test("TypeScript: preferences in OpenAI's rows move the model to the preferred answer; unknown methods are refused", {
  timeout: 900_000,
}, async () => {
  const answer = (content: string) => [{ role: 'assistant', content }]
  const pair = {
    input: { messages: row('').messages.slice(0, 1) },
    preferred_output: answer('Node'),
    non_preferred_output: answer('Deno'),
  }
  const rows = Buffer.from(`${JSON.stringify(pair)}\n`.repeat(16))
  const file = await client.files.create({ file: await toFile(rows, 'pairs.jsonl'), purpose: 'fine-tune' })
  const hyperparameters = { beta: 0.2, n_epochs: 3, learning_rate_multiplier: 4 } as const
  const refused = async (method: object, words: object) => {
    const failure = client.fineTuning.jobs.create({ model: MODEL, training_file: file.id, ...method })
    await expect(failure).rejects.toThrow(OpenAI.BadRequestError)
    await expect(failure).rejects.toMatchObject(words)
  }
  await refused({ method: { type: 'distillation' } }, { param: 'method.type', code: 'unsupported_method' })
  await refused({ method: { type: 'dpo', supervised: {} } }, { param: 'method.supervised' })
  await refused({ method: { type: 'dpo' }, hyperparameters: { n_epochs: 1 } }, { param: 'hyperparameters' })
  await refused({ method: { type: 'supervised' } }, { message: expect.stringContaining('Line 1') })

  let job = await client.fineTuning.jobs.create({
    model: MODEL,
    training_file: file.id,
    validation_file: file.id,
    method: { type: 'dpo', dpo: { hyperparameters } },
  })
  expect(job.method).toEqual({ type: 'dpo', dpo: { hyperparameters: { ...hyperparameters, batch_size: 'auto' } } })
  while (job.status === 'queued' || job.status === 'running') {
    await sleep(250)
    job = await client.fineTuning.jobs.retrieve(job.id)
  }
  expect(job.status, job.error?.message).toBe('succeeded')
  expect(job.fine_tuned_model).toMatch(/:step1$/)
  const margins: number[] = []
  for await (const event of client.fineTuning.jobs.listEvents(job.id)) {
    if (event.type === 'metrics') margins.push((event.data as { 'rewards/margins': number })['rewards/margins'])
  }
  // newest first: the preferred answer has gained on the other one
  expect(margins.length).toBeGreaterThan(1)
  expect(margins[0]).toBeGreaterThan(margins.at(-1) ?? 0)
  const seen = await service.api.call('GET', `/v1/preview/training-jobs/${job.id.replace('ftjob-', '')}`)
  expect(seen).toMatchObject({ kind: 'dpo' })
})

test.skipIf(!existsSync(PYTHON))(
  'Python: the same (skipped without .cache/venv, see .ci/run)',
  { timeout: 900_000 },
  async () => {
    const script = path.join(import.meta.dirname, 'clients/openai_files.py')
    const seen = await seenByClient(PYTHON, [script, service.url, service.key, MODEL], { timeoutMs: 850_000 })
    expect(seen).toEqual({
      file: ['rows.jsonl', true, 'fine-tune', 'processed'],
      content: true,
      listed: true,
      errors: [
        'NotFoundError',
        'BadRequestError',
        'NotFoundError',
        'BadRequestError',
        'BadRequestError',
        'NotFoundError',
        'AuthenticationError',
      ],
      raw: [200, true, true],
      created: ['fine_tuning.job', true, 4, 7],
      ended: ['succeeded', true, true],
      events: [true, 'metrics', 'Fine-tuning job started'],
      checkpoint: true,
      jobs: true,
      others: 0,
      answer: 'Python',
      deleted: true,
    })
  },
)
