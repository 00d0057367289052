/**
 * `GET /v1/preview/events`: what happens to jobs, checkpoints, logs and models reaches a reader once, in order, and nobody else's; it
 * goes on after a broken connection and ends with the server.
 */
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import type { CreatedKey } from '#contract/wire/access/keys.js'
import type { Activity } from '#contract/wire/activity.js'
import { readEvents } from '#sdk/client/sse.js'
import { createTestService, sampleGroup, type TestService } from '../../../support/service/create-test-service.js'

let service: TestService
beforeAll(async () => {
  service = await createTestService()
})
afterAll(() => service.dispose())

const EVENTS = '/v1/preview/events'

/** A reader of the stream that keeps what comes. */
async function follow(query = '', headers: Record<string, string> = {}, on = service) {
  const gone = new AbortController()
  const response = await on.fetch(`${EVENTS}${query}`, {
    headers: { accept: 'text/event-stream', ...headers },
    signal: gone.signal,
  })
  expect([response.status, response.headers.get('content-type')]).toEqual([200, 'text/event-stream; charset=utf-8'])
  const events = readEvents(response)[Symbol.asyncIterator]()
  return {
    leave: () => gone.abort(),
    /** All up to the first that fits. */
    async until(isLast: (event: Activity) => boolean): Promise<Activity[]> {
      const seen: Activity[] = []
      for (;;) {
        const next = await events.next()
        if (next.done === true) return seen
        const event = JSON.parse(next.value.data) as Activity
        expect(next.value.event).toBe(event.type)
        seen.push(event)
        if (isLast(event)) return seen
      }
    },
  }
}
const isType = (type: Activity['type']) => (event: Activity) => event.type === type
let reward = 0.5

async function train(model: string): Promise<string> {
  reward += 0.125
  const json = { model_id: model, trajectory_groups: [sampleGroup([0.25, reward])] }
  const { body } = await service.json<{ id: string }>('/v1/preview/training-jobs', { json })
  await service.waitForJob(body.id)
  return body.id
}

describe('the stream of events', () => {
  it('tells a job from its queue to its checkpoint, and what is logged and deleted', async () => {
    const reader = await follow()
    expect((await reader.until(isType('ready'))).map(({ type }) => type)).toEqual(['ready'])
    const model = await service.createModel('told')
    const job = await train(model)
    const trained = await reader.until(isType('job.ended'))
    expect(trained[0]).toMatchObject({
      type: 'model.created',
      model_id: model,
      project: 'tests',
      data: { name: 'told' },
    })
    // looks are a quarter of a second apart: a short job may be told from its start or its end only
    const told = trained.map(({ type }) => type).filter((type) => type.startsWith('job.') || type.startsWith('check'))
    // a slow job is looked at between its steps
    const types = told.filter((type, i) => type !== told[i - 1])
    const order = ['job.queued', 'job.started', 'job.gradient_step', 'checkpoint.created', 'job.ended']
    expect(types).toEqual(order.filter((type) => types.some((each) => each === type)))
    expect(types).toEqual(expect.arrayContaining(['job.started', 'checkpoint.created', 'job.ended']))
    expect(trained.at(-1)).toMatchObject({ model_id: model, data: { job_id: job, status: 'completed', step: 1 } })
    await service.json(`/v1/preview/models/${model}/log`, {
      json: { split: 'val', trajectory_groups: [sampleGroup()] },
    })
    await service.json(`/v1/preview/models/${model}/checkpoints`, { method: 'DELETE', json: { steps: [1, 9] } })
    await service.json(`/v1/preview/models/${model}`, { method: 'DELETE' })
    const rest = await reader.until(isType('model.deleted'))
    expect(rest.map(({ type, data }) => [type, data['split'] ?? data['steps']])).toEqual([
      ['log.created', 'val'],
      ['checkpoint.deleted', [1]],
      ['model.deleted', undefined],
    ])
    reader.leave()
  })

  it('goes on where a connection broke, without an event twice, and resets where that is not known', async () => {
    const first = await follow('?topics=model')
    await service.createModel('one')
    const seen = await first.until(isType('model.created'))
    first.leave()
    await service.createModel('two')
    const last = seen.at(-1)?.id ?? ''
    const again = await follow('?topics=model', { 'last-event-id': last })
    await service.createModel('three')
    const missed = await again.until(({ data }) => data['name'] === 'three')
    expect(missed.map(({ data }) => data['name'])).toEqual(['two', 'three'])
    again.leave()
    const lost = await follow('?after=of.another.server')
    expect((await lost.until(isType('reset'))).map(({ type }) => type)).toEqual(['reset'])
    lost.leave()
  })

  it('is a page where no stream is asked for, by topic and model; unknown topics are refused by name', async () => {
    const model = await service.createModel('paged')
    await train(model)
    const page = async (query: string) => (await service.json<{ data: Activity[] }>(`${EVENTS}?${query}`)).body.data
    const ended = (await page(`model_id=${model}&topics=job&limit=100`)).map(({ type }) => type)
    expect(ended).not.toContain('model.created')
    expect((await page(`model_id=${model}&topics=model`)).map(({ type }) => type)).toEqual(['model.created'])
    const refused = await service.json(`${EVENTS}?topics=job,weather`)
    expect([refused.status, JSON.stringify(refused.body)]).toEqual([422, expect.stringContaining('weather')])
    expect((await service.fetch(`${EVENTS}?after=nowhere`)).status).toBe(422)
  })

  it("has nothing of another project's, for a key that is bound to one", async () => {
    const { body } = await service.json<CreatedKey>('/v1/preview/keys', { json: { scope: 'read', project: 'mine' } })
    const reader = await follow('', { authorization: `Bearer ${body.key}` })
    await reader.until(isType('ready'))
    await service.createModel('theirs')
    const own = { project: 'mine', name: 'own', base_model: 'trainyard/tiny-random' }
    await service.json('/v1/preview/models', { json: own })
    const seen = await reader.until(isType('model.created'))
    expect(seen.map(({ data }) => data['name'])).toEqual(['own'])
    reader.leave()
  })

  it('ends with the server, with a word', async () => {
    const other = await createTestService()
    const reader = await follow('', {}, other)
    await reader.until(isType('ready'))
    const end = reader.until(() => false)
    await other.dispose()
    expect((await end).map(({ type, data }) => [type, data['notice']])).toEqual([['server.notice', 'stopping']])
  })
})
