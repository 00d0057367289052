/**
 * Result files of OpenAI's fine-tuning jobs: a line for each gradient step with the numbers of the events, a file like others,
 * made once.
 */
import { afterAll, beforeAll, expect, it } from 'vitest'
import type { JsonObject } from '#base/util/json.js'
import { createTestService, type TestService } from '../../../support/service/create-test-service.js'

const JOBS = '/v1/fine_tuning/jobs'

interface Job {
  readonly id: string
  readonly status: string
  readonly result_files: readonly string[]
}

let service: TestService
beforeAll(async () => {
  service = await createTestService({ scripted: false })
})
afterAll(() => service.dispose())

const read = async <T>(path: string): Promise<T> => {
  const { status, body } = await service.json<T>(path)
  expect(status, path).toBe(200)
  return body
}
const question = { role: 'user', content: 'Which word?' }
const answer = (content: string): JsonObject => ({ role: 'assistant', content })
const rows = (row: JsonObject): string => `${JSON.stringify(row)}\n`.repeat(4)

async function upload(text: string): Promise<string> {
  const form = new FormData()
  form.set('purpose', 'fine-tune')
  form.set('file', new Blob([text]), 'rows.jsonl')
  return (await service.json<{ id: string }>('/v1/files', { method: 'POST', body: form })).body.id
}

/** A job that has ended and was not read since. */
async function train(text: string, json: JsonObject): Promise<string> {
  const file = await upload(text)
  const request = { model: 'trainyard/tiny-random', training_file: file, validation_file: file, ...json }
  const { status, body } = await service.json<Job>(JOBS, { json: request })
  expect([status, body.result_files]).toEqual([200, []])
  expect(await service.waitForJob(body.id.replace('ftjob-', ''))).toMatchObject({ status: 'completed' })
  return body.id
}

async function linesOf(id: string): Promise<readonly string[]> {
  const [file] = (await read<Job>(`${JOBS}/${id}`)).result_files
  const response = await service.fetch(`/v1/files/${file}/content`)
  expect(response.status).toBe(200)
  return (await response.text()).trimEnd().split('\n')
}

/** What the events say of each step, oldest first. */
async function stepsOf(id: string): Promise<readonly JsonObject[]> {
  const events = await service.allEvents(id.replace('ftjob-', ''))
  return events.filter(({ type }) => type === 'gradient_step').map(({ data }) => data)
}
const HEAD = 'step,train_loss,train_accuracy,valid_loss,valid_mean_token_accuracy'

it('of a supervised job: losses of every step, and it is a file like others', async () => {
  const hyperparameters = { n_epochs: 2, batch_size: 2 }
  const id = await train(rows({ messages: [question, answer('Node')] }), { hyperparameters })
  // two at once make one file
  const [first, second] = await Promise.all([1, 2].map(() => read<Job>(`${JOBS}/${id}`)))
  expect(first?.result_files).toHaveLength(1)
  expect(second?.result_files).toEqual(first?.result_files)

  const steps = await stepsOf(id)
  expect(steps.length).toBeGreaterThan(1)
  const lines = await linesOf(id)
  expect(lines[0]).toBe(HEAD)
  expect(lines.slice(1)).toEqual(steps.map((data, i) => `${i + 1},${data['loss']},,${data['val/loss'] ?? ''},`))
  expect(lines.some((line) => /^\d+,[\d.]+,,[\d.]+,$/.test(line))).toBe(true)

  const files = await read<{ data: { id: string }[] }>('/v1/files?purpose=fine-tune-results')
  const [file] = files.data
  expect(files.data).toHaveLength(1)
  expect(file).toMatchObject({ id: first?.result_files[0], filename: 'step_metrics.csv', status: 'processed' })
  expect((await service.json(`/v1/files/${file?.id}`, { method: 'DELETE' })).status).toBe(200)
  expect((await read<Job>(`${JOBS}/${id}`)).result_files).toEqual(first?.result_files)
  expect((await service.fetch(`/v1/files/${file?.id}`)).status).toBe(404)
})

it('of preferences: how often the preferred answer is ahead', async () => {
  const pair = {
    input: { messages: [question] },
    preferred_output: [answer('Node')],
    non_preferred_output: [answer('Deno')],
  }
  const id = await train(rows(pair), { method: { type: 'dpo', dpo: { hyperparameters: { n_epochs: 1 } } } })
  const steps = await stepsOf(id)
  const [head, ...lines] = await linesOf(id)
  expect(head).toBe(HEAD)
  expect(lines).toEqual(
    steps.map((data, i) => `${i + 1},${data['loss']},${data['rewards/accuracies']},${data['val/loss'] ?? ''},`),
  )
  expect(lines[0]).toMatch(/^1,[\d.e-]+,[\d.]+,/)
})
