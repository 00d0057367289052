/**
 * Watched prompts: the base model, the newest step and every later one answer them, behind chats and only once each.
 */
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest'
import type { Probe, ProbeAnswer } from '#contract/wire/inference/probes.js'
import { PROBE_PRIORITY } from '#plugins/probes/probe-runner.js'
import { createTestService, sampleGroup, type TestService } from '../../../support/service/create-test-service.js'
import { until } from '../../../support/until.js'

let service: TestService
let modelId: string
beforeAll(async () => {
  service = await createTestService()
})
afterAll(() => service.dispose())
afterEach(async () => {
  if (modelId !== undefined) await service.fetch(`/v1/preview/models/${modelId}`, { method: 'DELETE' })
})

const path = (below = '') => `/v1/preview/models/${modelId}/probes${below}`
const watch = (content: string, more: object = {}) =>
  service.json<Probe>(path(), { json: { messages: [{ role: 'user', content }], ...more } })

let jobs = 0
async function train(): Promise<void> {
  // a request that is sent again is the same job
  jobs += 1
  const { body } = await service.json<{ id: string }>('/v1/preview/training-jobs', {
    json: { model_id: modelId, trajectory_groups: [sampleGroup([jobs, 0])] },
  })
  await service.waitForJob(body.id)
}

async function answersOf(id: string): Promise<readonly ProbeAnswer[]> {
  return (await service.json<{ data: ProbeAnswer[] }>(path(`/${id}/answers?limit=100`))).body.data
}

/** When none waits any more. */
function untilAnswered(id: string, count: number): Promise<readonly ProbeAnswer[]> {
  return until(async () => {
    const answers = await answersOf(id)
    return answers.length === count && answers.every(({ status }) => status !== 'queued') && answers
  }, `${count} answers to ${id}`)
}

describe('watched prompts', () => {
  it('are answered by the base model at once, by each new step after its job, and stay when the step goes', async () => {
    modelId = await service.createModel()
    const { status, body: probe } = await watch('hello')
    expect(status).toBe(200)
    expect(probe).toMatchObject({ object: 'probe', model_id: modelId, max_tokens: 64 })
    const [base] = await untilAnswered(probe.id, 1)
    expect(base).toMatchObject({ step: 0, status: 'answered', text: 'base:hello', finish_reason: 'stop', error: null })
    expect(base?.checkpoint).toContain(`${modelId}:step0:base`)
    await train()
    const both = await untilAnswered(probe.id, 2)
    expect(both[1]).toMatchObject({ step: 1, status: 'answered', text: expect.stringMatching(/^step-\w{6}:hello$/) })
    expect(both[1]?.checkpoint).toContain(`${modelId}:step1:`)
    await train()
    await service.fetch(`/v1/preview/models/${modelId}/checkpoints`, {
      method: 'DELETE',
      json: { steps: [1] },
    })
    expect((await untilAnswered(probe.id, 3)).map(({ step }) => step)).toEqual([0, 1, 2])
    const shown = async (query: string) => {
      const { body } = await service.json<{ data: Probe[] }>(path(query))
      return body.data.map(({ answers }) => answers.map(({ step }) => step))
    }
    expect(await shown('')).toEqual([[0, 2]])
    expect(await shown('?steps=1,9')).toEqual([[1]])
    // told a moment after it is stored
    const told = await until(async () => {
      const query = `topics=probe&model_id=${modelId}`
      const { body } = await service.json<{ data: { data: object }[] }>(`/v1/preview/events?${query}`)
      return body.data.length === 3 && body.data
    }, 'three events')
    expect(told.map(({ data }) => data)).toEqual([0, 1, 2].map((step) => ({ probe_id: probe.id, step })))
  })

  it('wait behind chats, and are cut off where they say', async () => {
    modelId = await service.createModel()
    const { body: probe } = await watch('PRIORITY', { max_tokens: 12 })
    const [answer] = await untilAnswered(probe.id, 1)
    expect(answer).toMatchObject({ text: `priority:${PROBE_PRIORITY}`.slice(0, 12), finish_reason: 'length' })
    expect(answer?.completion_tokens).toBe(12)
  })

  it('are asked of earlier steps when somebody wants it, in pages by step', async () => {
    modelId = await service.createModel()
    for (let job = 0; job < 3; job += 1) await train()
    const { body: probe } = await watch('late')
    expect((await untilAnswered(probe.id, 2)).map(({ step }) => step)).toEqual([0, 3])
    const asked = await service.json<{ data: ProbeAnswer[] }>(path(`/${probe.id}/answers`), {
      json: { steps: [1, 2, 3] },
    })
    expect(asked.body.data.map(({ step }) => step)).toEqual([1, 2, 3])
    await untilAnswered(probe.id, 4)
    const page = await service.json<{ data: ProbeAnswer[]; has_more: boolean; last_id: string }>(
      path(`/${probe.id}/answers?order=desc&limit=2`),
    )
    expect([page.body.data.map(({ step }) => step), page.body.has_more]).toEqual([[3, 2], true])
    const next = await service.json<{ data: ProbeAnswer[] }>(
      path(`/${probe.id}/answers?order=desc&limit=2&after=${page.body.last_id}`),
    )
    expect(next.body.data.map(({ step }) => step)).toEqual([1, 0])
    const missing = await service.json<{ error: object }>(path(`/${probe.id}/answers`), { json: { steps: [1, 9] } })
    expect([missing.status, missing.body.error]).toEqual([
      404,
      expect.objectContaining({ code: 'checkpoint_not_found', param: 'steps' }),
    ])
  })

  it('are the same when they are sent twice; twenty are the most', async () => {
    modelId = await service.createModel()
    const first = await watch('one')
    expect((await watch('one')).body.id).toBe(first.body.id)
    for (let n = 1; n < 20; n += 1) expect((await watch(`n${n}`)).status).toBe(200)
    const { status, body } = await service.json<{ error: object }>(path(), {
      json: { messages: [{ role: 'user', content: 'too many' }] },
    })
    expect([status, body.error]).toEqual([409, expect.objectContaining({ code: 'too_many_probes' })])
    expect((await watch('one')).status).toBe(200)
    expect((await service.json(path(`/${first.body.id}`), { method: 'DELETE' })).body).toEqual({
      id: first.body.id,
      object: 'probe',
      deleted: true,
    })
    expect((await service.fetch(path(`/${first.body.id}/answers`))).status).toBe(404)
    expect((await watch('too many')).status).toBe(200)
  })

  it('whose answer is refused say why, and are asked again', async () => {
    modelId = await service.createModel()
    // the engine of the tests has a context of 2,048 characters
    const { body: probe } = await watch('x'.repeat(4000))
    const [answer] = await untilAnswered(probe.id, 1)
    expect(answer).toMatchObject({ status: 'failed', text: null, error: expect.stringContaining('maximum context') })
    const again = await service.json<{ data: ProbeAnswer[] }>(path(`/${probe.id}/answers`), { json: { steps: [0] } })
    expect(again.body.data[0]).toMatchObject({ status: 'queued', error: null })
    await untilAnswered(probe.id, 1)
  })

  it('end with a user’s message', async () => {
    modelId = await service.createModel()
    const { status, body } = await service.json<{ error: object }>(path(), {
      json: { messages: [{ role: 'assistant', content: 'x' }] },
    })
    expect([status, body.error]).toEqual([422, expect.objectContaining({ param: 'messages' })])
  })

  it('that wait are answered by the next server', async () => {
    modelId = await service.createModel()
    const { body: probe } = await watch('FOREVER WAIT')
    await until(async () => (await answersOf(probe.id)).length === 1, 'the prompt to wait')
    service = await service.restart()
    expect((await answersOf(probe.id)).map(({ status }) => status)).toEqual(['queued'])
    const { body: other } = await watch('hello')
    // the first is still being asked: one at a time of a base model
    expect((await answersOf(other.id)).map(({ status }) => status)).toEqual(['queued'])
    // and makes room when it is deleted
    await service.fetch(path(`/${probe.id}`), { method: 'DELETE' })
    await untilAnswered(other.id, 1)
  })
})
