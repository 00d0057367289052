/**
 * What clients may do without harm: HEAD and a trailing slash, ids in upper case, the same cancel twice, deleting several
 * checkpoints of which one is in use; and fields of trajectories that are checked although they are not kept.
 */
import { readdir } from 'node:fs/promises'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import type { TrainingJob } from '#contract/wire/training-jobs.js'
import { createTestService, sampleGroup, type TestService } from '../../support/service/create-test-service.js'
import { until } from '../../support/until.js'

let service: TestService
let model: string
beforeAll(async () => {
  service = await createTestService()
  model = await service.createModel('m')
})
afterAll(() => service.dispose())

const JOBS = '/v1/preview/training-jobs'
let seed = 0

async function submit(standIn: object): Promise<TrainingJob> {
  seed += 1
  const json = {
    model_id: model,
    trajectory_groups: [sampleGroup()],
    experimental_config: { seed, stand_in: standIn },
  }
  const { status, body } = await service.json<TrainingJob>(JOBS, { json })
  expect(status, JSON.stringify(body)).toBe(200)
  return body
}
const cancel = (id: string) => service.json<TrainingJob>(`${JOBS}/${id}/cancel`, { method: 'POST' })

describe('open routes', () => {
  const paths = ['/v1/health', '/v1/preview/base-models', '/v1/health/', '/v1/preview/base-models/']
  it.each(paths)('%s answers GET and HEAD without a key', async (path) => {
    const get = await fetch(service.url + path)
    expect([get.status, (await get.text()).length > 0]).toEqual([200, true])
    const head = await fetch(service.url + path, { method: 'HEAD' })
    expect([head.status, await head.text()]).toEqual([200, ''])
  })
  it('every other path still wants one, with and without a slash', async () => {
    for (const path of ['/v1/models', '/v1/models/', '/v1/whoami/', '/v1/health/x', '/v1/nothing/']) {
      for (const method of ['GET', 'HEAD']) expect((await fetch(service.url + path, { method })).status, path).toBe(401)
    }
    expect((await service.fetch('/v1/models/')).status).toBe(200)
    expect((await fetch(`${service.url}/v1/health/`, { method: 'POST' })).status).toBe(401)
  })
})

describe('HEAD', () => {
  /** Files this process has open, the service's among them. */
  const openFiles = async (): Promise<number> => (await readdir('/proc/self/fd')).length

  it.skipIf(process.platform !== 'linux')('of a file leaves none open', async () => {
    const form = new FormData()
    form.set('purpose', 'user_data')
    form.set('file', new Blob(['x'.repeat(300_000)]), 'x.txt')
    const { id } = (await service.json<{ id: string }>('/v1/files', { method: 'POST', body: form })).body
    const head = () => service.fetch(`/v1/files/${id}/content`, { method: 'HEAD' })
    const first = await head()
    expect([first.status, first.headers.get('content-length'), await first.text()]).toEqual([200, '300000', ''])
    const before = await openFiles()
    for (let i = 0; i < 40; i++) await (await head()).text()
    await until(async () => (await openFiles()) < before + 20, 'the files closed')
  })

  it('of an event stream answers and waits for no event', async () => {
    const job = await submit({ steps: 1000, delay_ms: 1000 })
    const init = { method: 'HEAD', headers: { accept: 'text/event-stream' } }
    const head = await service.fetch(`${JOBS}/${job.id}/events`, init)
    expect([head.status, head.headers.get('content-type'), await head.text()]).toEqual([
      200,
      'text/event-stream; charset=utf-8',
      '',
    ])
    expect((await cancel(job.id)).status).toBe(200)
  })
})

it('ids in upper case name the same things, as paths, in bodies and as cursors', async () => {
  const job = await submit({ steps: 1 })
  await service.waitForJob(job.id)
  const upper = (id: string): string => id.toUpperCase()
  expect((await service.json(`/v1/preview/models/${upper(model)}`)).body).toMatchObject({ id: model })
  expect((await service.json(`${JOBS}/${upper(job.id)}`)).body).toMatchObject({ id: job.id })
  expect((await service.json(`${JOBS}/${upper(job.id)}/events`)).status).toBe(200)
  expect((await service.json(`${JOBS}?after=${upper(job.id)}`)).status).toBe(200)
  const chat = await service.json('/v1/chat/completions', {
    json: { model: upper(model), messages: [{ role: 'user', content: 'x' }] },
  })
  expect(chat.status).toBe(200)
  const { status } = await service.json(JOBS, { json: { model_id: upper(model), trajectory_groups: [sampleGroup()] } })
  expect(status).toBe(200)
})

it('a cancel repeated is 200 with the record; a finished job is still 409', async () => {
  const job = await submit({ steps: 100_000, delay_ms: 50 })
  expect((await cancel(job.id)).status).toBe(200)
  const ended = await service.waitForJob(job.id)
  expect(ended.status).toBe('cancelled')
  const again = await cancel(job.id)
  expect([again.status, again.body.id, again.body.status]).toEqual([200, job.id, 'cancelled'])
  expect((await service.allEvents(job.id)).filter((event) => event.type === 'training_failed')).toHaveLength(1)
  const other = await submit({ steps: 1 })
  await service.waitForJob(other.id)
  expect((await cancel(other.id)).status).toBe(409)
})

it('of several checkpoints the one in use stays and is named; alone it is refused', async () => {
  for (let i = 0; i < 2; i += 1) await service.waitForJob((await submit({ steps: 1 })).id)
  const { body: list } = await service.json<{ data: { step: number }[] }>(
    `/v1/preview/models/${model}/checkpoints?order=desc`,
  )
  const [latest = 0, previous = 0] = list.data.map((checkpoint) => checkpoint.step)
  const job = await submit({ steps: 100_000, delay_ms: 50 })
  while ((await service.json<TrainingJob>(`${JOBS}/${job.id}`)).body.status !== 'running');
  const remove = (steps: readonly number[]) =>
    service.json<Record<string, unknown>>(`/v1/preview/models/${model}/checkpoints`, {
      method: 'DELETE',
      json: { steps },
    })
  expect(await remove([latest, previous, 99])).toMatchObject({
    status: 200,
    body: { deleted_count: 1, not_found_steps: [99], in_use_steps: [latest] },
  })
  const alone = await remove([latest])
  expect([alone.status, JSON.stringify(alone.body)]).toEqual([409, expect.stringContaining('checkpoint_in_use')])
  await cancel(job.id)
  await service.waitForJob(job.id)
  expect((await remove([latest])).body).toMatchObject({ deleted_count: 1, in_use_steps: [] })
})

describe('trajectories', () => {
  const send = (changes: object, more: object = {}) => {
    const group = sampleGroup() as { trajectories: object[] }
    const trajectories = [{ ...group.trajectories[0], ...changes }, group.trajectories[1]]
    return service.json(JOBS, { json: { model_id: model, trajectory_groups: [{ trajectories, ...more }] } })
  }
  it.each<[string, object, object?]>([
    ['trajectories[0].start_time', { start_time: 'yesterday' }],
    ['trajectories[0].start_time', { start_time: { a: 1 } }],
    ['trajectories[0].logs', { logs: 'one line' }],
    ['trajectories[0].logs[1]', { logs: ['one', 2] }],
    ['trajectories[0].additional_histories', { additional_histories: 5 }],
    ['trajectories[0].additional_histories[0].messages_and_choices', { additional_histories: [{}] }],
    ['logs[0]', {}, { logs: [null] }],
  ])('%s that is wrong is refused by its path', async (path, changes, more) => {
    const { status, body } = await send(changes, more)
    expect([status, JSON.stringify(body)]).toEqual([422, expect.stringContaining(`trajectory_groups[0].${path} `)])
  })
  it.each([
    '2026-11-22T05:45:41.123456',
    '2026-11-22T05:45:41+00:00',
    '2026-11-22 05:45:41',
    1795326468,
    '1795326468.5',
    null,
  ])('start_time %s is a time', async (start_time) => {
    expect((await send({ start_time, logs: ['a'], additional_histories: [] })).status).toBe(200)
  })
})

describe('fields that nobody knows', () => {
  const HEADER = 'x-trainyard-ignored-fields'
  const chat = { model: 'm', messages: [{ role: 'user', content: 'a' }], max_tokens: 2 }
  const ask = (path: string, json: object) => service.fetch(path, { json })

  it('of a chat are accepted and named, plain, streamed and read in a thread', async () => {
    const plain = await ask('/v1/chat/completions', { ...chat, truncation_side: 'right', 'ö, \ud800\r\n': 1 })
    expect([plain.status, plain.headers.get(HEADER)]).toEqual([200, 'truncation_side, %C3%B6%2C%20%EF%BF%BD%0D%0A'])
    const streamed = await ask('/v1/chat/completions', { ...chat, stream: true, mood: 'good' })
    expect([streamed.status, streamed.headers.get(HEADER)]).toEqual([200, 'mood'])
    expect(await streamed.text()).toContain('[DONE]')
    const large = await ask('/v1/chat/completions', { ...chat, mood: 'x'.repeat(20_000) })
    expect([large.status, large.headers.get(HEADER)]).toEqual([200, 'mood'])
    const inside = [
      { role: 'user', content: [{ type: 'text', text: 'a', cache_control: {} }], function_call: {}, mood: {} },
    ]
    const nested = await ask('/v1/chat/completions', { ...chat, messages: inside })
    const names = 'messages[].mood, messages[].content[].cache_control'
    expect([nested.status, nested.headers.get(HEADER)]).toEqual([200, names])
    const known = await ask('/v1/chat/completions', { ...chat, user: 'me' })
    expect([known.status, known.headers.get(HEADER)]).toEqual([200, null])
  })

  it('options whose main option is off are named, defaults are not', async () => {
    const ignored = async (fields: object, path = '/v1/chat/completions') => {
      const answer = await ask(path, { ...(path.startsWith('/v1/chat') ? chat : { ...chat, prompt: 'a' }), ...fields })
      expect(answer.status).toBe(200)
      return answer.headers.get(HEADER)
    }
    expect(await ignored({ length_penalty: 1.4 })).toBe('length_penalty')
    expect(await ignored({ length_penalty: 1.4, use_beam_search: false, stream: true })).toBe('length_penalty')
    expect(await ignored({ length_penalty: 1.4, mood: 1, messages: null }, '/v1/completions')).toBe(
      'messages, mood, length_penalty',
    )
    for (const fields of [
      { length_penalty: 1 },
      { length_penalty: null },
      { length_penalty: 1.4, use_beam_search: true },
    ])
      expect(await ignored(fields)).toBeNull()
    expect(await ignored({ dry_base: 2, xtc_threshold: 0.2 })).toBe('dry_base, xtc_threshold')
  })

  it('of a query too, beside those of its body', async () => {
    const get = async (path: string) => (await service.fetch(path)).headers.get(HEADER)
    expect(await get(`${JOBS}?mood=rl&limit=1`)).toBe('mood')
    expect(await get(`${JOBS}?limit=1`)).toBeNull()
    const json = { model_id: model, trajectory_groups: [sampleGroup([3, 0])], mood: 1 }
    expect((await ask(`${JOBS}?dry_run=true`, json)).headers.get(HEADER)).toBe('dry_run, mood')
  })

  it('of jobs, logs and models too', async () => {
    const json = { model_id: model, trajectory_groups: [sampleGroup([7, 0])], experimental_confg: { seed: 1 } }
    const job = await ask(JOBS, json)
    expect([job.status, job.headers.get(HEADER)]).toEqual([200, 'experimental_confg'])
    const log = await ask(`/v1/preview/models/${model}/log`, {
      split: 'val',
      trajectory_groups: [sampleGroup()],
      steps: 1,
    })
    expect([log.status, log.headers.get(HEADER)]).toEqual([200, 'steps'])
    const created = await ask('/v1/preview/models', {
      project: 'p',
      name: 'n',
      base_model: 'trainyard/tiny-random',
      rank: 8,
    })
    expect([created.status, created.headers.get(HEADER)]).toEqual([200, 'rank'])
    // what the stock client sends is known
    const stock = await ask(`/v1/preview/models/${model}/log`, {
      model_id: model,
      split: 'val',
      trajectory_groups: [sampleGroup([3, 4])],
    })
    expect([stock.status, stock.headers.get(HEADER)]).toEqual([200, null])
  })
})
