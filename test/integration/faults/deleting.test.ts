/**
 * Deleting what streams of a real engine are made of: the checkpoint, the latest one, the whole model. What has begun ends as it
 * would have, token by token; what comes afterwards gets the checkpoint before, or is told that there is none.
 */
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import type { ChatChunk, ChatResponse } from '#contract/wire/chat-completions.js'
import type { TrainingJob } from '#contract/wire/training-jobs.js'
import { createTestService, type TestService } from '../../support/service/create-test-service.js'
import { until } from '../../support/until.js'

const CHAT = '/v1/chat/completions'
const MAX_TOKENS = 1900
/** A machine may hold this process up until the stream has ended; then it is tried again. */
const MOST_TRIES = 20
const SAYING = {
  ...{ messages: [{ role: 'user', content: 'Count.' }], seed: 7, ignore_eos: true, return_token_ids: true },
}

let service: TestService
let count = 0
beforeAll(async () => {
  // the worker of a job whose model is gone is killed after it
  service = await createTestService({ scripted: false, threads: 1, tuning: { jobs: { cancelGraceMs: 3000 } } })
})
afterAll(() => service.dispose())

/** A model of so many steps, each of which changes its answers. @returns its id and name */
async function trainedModel(steps: number): Promise<{ readonly id: string; readonly name: string }> {
  const name = `m${count++}`
  const id = await service.createModel(name)
  for (let step = 1; step <= steps; step += 1) expect((await service.waitForJob(await train(id))).step).toBe(step)
  return { id, name }
}

/** Another row each time: the same job twice is one job. @returns the job's id */
async function train(modelId: string): Promise<string> {
  const row = { messages: [...SAYING.messages, { role: 'assistant', content: `One, two, ${count++}.` }] }
  const { body: file } = await service.json<{ id: string }>('/v1/files?filename=a.jsonl', {
    method: 'POST',
    body: JSON.stringify(row),
  })
  const json = { model_id: modelId, training_data_url: file.id, config: { learning_rate: 0.05, batch_size: 1 } }
  return (await service.json<TrainingJob>('/v1/preview/sft-training-jobs', { json })).body.id
}

async function answer(
  model: string,
  maxTokens = MAX_TOKENS,
): Promise<{ status: number; tokens: readonly number[]; fingerprint: string }> {
  const json = { ...SAYING, model, max_tokens: maxTokens }
  const { status, body } = await service.json<ChatResponse>(CHAT, { json })
  return { status, tokens: body.choices?.[0]?.token_ids ?? [], fingerprint: body.system_fingerprint ?? '' }
}

/** A stream that has begun; `end` is its tokens, once it is whole. */
async function startStream(model: string): Promise<{ isRunning(): boolean; readonly end: Promise<readonly number[]> }> {
  const response = await service.fetch(CHAT, { json: { ...SAYING, model, max_tokens: MAX_TOKENS, stream: true } })
  let text = ''
  let isRunning = true
  const end = (async () => {
    for await (const part of response.body ?? []) text += Buffer.from(part).toString()
    isRunning = false
    const lines = text.split('\n\n').filter((line) => line.startsWith('data: {'))
    const chunks = lines.map((line) => JSON.parse(line.slice(6)) as ChatChunk)
    expect(text.trimEnd().endsWith('data: [DONE]'), text.slice(-300)).toBe(true)
    expect(text).not.toContain('"error"')
    return chunks.flatMap((chunk) => chunk.choices.flatMap((choice) => choice.token_ids ?? []))
  })()
  end.catch(() => undefined)
  await until(() => text.includes('"token_ids":['), 'the first token')
  return { isRunning: () => isRunning, end }
}

async function remove(path: string, json?: object): Promise<void> {
  const { status, body } = await service.json(path, { method: 'DELETE', ...(json === undefined ? {} : { json }) })
  expect(status, JSON.stringify(body)).toBe(200)
}

describe('while a stream runs', { timeout: 300_000 }, () => {
  it.each<[string, (model: { id: string }, step: number) => Promise<void>, string | null]>([
    [
      'its checkpoint, the latest',
      ({ id }, step) => remove(`/v1/preview/models/${id}/checkpoints`, { steps: [step] }),
      ':step1:',
    ],
    ['its model', ({ id }) => remove(`/v1/preview/models/${id}`), null],
  ])('%s can be deleted: the stream ends as it would have', async (_, deleteIt, next) => {
    for (let tries = 1; ; tries += 1) {
      const model = await trainedModel(2)
      const address = `tests/${model.name}:step2`
      // its prompt is in the cache for both
      await answer(address, 1)
      const whole = await answer(address)
      expect(whole.tokens).toHaveLength(MAX_TOKENS)
      const stream = await startStream(address)
      await deleteIt(model, 2)
      const wasRunning = stream.isRunning()
      // what is asked now is told so
      expect((await answer(address, 4)).status).toBe(404)
      // alone all the time, as the answer it is compared with: a batch of another size adds in another order
      expect(await stream.end).toEqual(whole.tokens)
      const latest = await answer(`tests/${model.name}`, 60)
      if (next === null) expect(latest.status).toBe(404)
      else {
        expect(latest.fingerprint).toContain(next)
        expect(latest.tokens).not.toEqual(whole.tokens.slice(0, 60))
      }
      if (!wasRunning && tries < MOST_TRIES) continue
      expect(wasRunning, 'a stream that ran when it was deleted').toBe(true)
      return
    }
  })

  it('the model of a job that runs can be deleted: the job ends by name, and its worker changes nothing', async () => {
    const { id } = await trainedModel(1)
    const row = { messages: [...SAYING.messages, { role: 'assistant', content: 'One, two.' }] }
    const { body: file } = await service.json<{ id: string }>('/v1/files?filename=a.jsonl', {
      method: 'POST',
      body: Array.from({ length: 2000 }, () => JSON.stringify(row)).join('\n'),
    })
    const json = { model_id: id, training_data_url: file.id, config: { batch_size: 1 } }
    const { body: job } = await service.json<TrainingJob>('/v1/preview/sft-training-jobs', { json })
    const waiting = await train(id)
    await until(async () => (await service.allEvents(job.id)).length > 1, 'the first step of the job')
    await remove(`/v1/preview/models/${id}`)
    for (const each of [job.id, waiting]) {
      expect(await service.waitForJob(each)).toMatchObject({
        status: 'cancelled',
        error_code: 'model_deleted',
        step: null,
      })
      const types = (await service.allEvents(each)).map(({ type }) => type)
      expect(types.filter((type) => type === 'training_failed' || type === 'training_ended')).toEqual([
        'training_failed',
      ])
      expect(types.at(-1)).toBe('training_failed')
    }
    // its worker is gone or free: another job is trained
    const other = await trainedModel(1)
    expect((await answer(`tests/${other.name}`, 4)).fingerprint).toContain(':step1:')
    expect((await service.allEvents(job.id)).at(-1)?.type).toBe('training_failed')
  })
})
