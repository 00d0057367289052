/**
 * Samples over the Tinker API with a real engine: another key's answer beside hundreds, bounds, who may read a result, and the end of
 * what nobody waits for.
 */
import { afterAll, beforeAll, expect, it } from 'vitest'
import { createTestService, type TestService } from '../../../support/service/create-test-service.js'
import { openTinker, type TinkerTestClient } from '../../../support/tinker/tinker-client.js'

const MOST = 250
/** In the order they came, this one would end before another key's behind them all began. */
const HALF = 150
const BASE = { base_model: 'trainyard/tiny-random' }
let service: TestService
beforeAll(async () => {
  service = await createTestService({ scripted: false, maxWaitingSamples: MOST })
})
afterAll(() => service.dispose())

const clientOf = (apiKey: string): Promise<TinkerTestClient> => openTinker({ url: service.url, apiKey })

/** Asks for six answers to a prompt, whatever tokens come. */
function ask(client: TinkerTestClient, maxTokens: number, of: Readonly<Record<string, unknown>> = BASE) {
  return client.json<{ request_id: string; detail: string }>('asample', {
    ...of,
    num_samples: 6,
    prompt: { chunks: [{ type: 'encoded_text', tokens: [1, 20, 30] }] },
    // no token ends the answer
    sampling_params: { max_tokens: maxTokens, stop: [] },
  })
}

it('another entity’s sample is answered while hundreds of one key wait; more of that key are refused; all end with their client', async () => {
  const many = await clientOf((await service.createKey({ name: 'many', scope: 'write' })).key)
  const other = await clientOf((await service.createKey({ name: 'other', scope: 'write', entity: 'elsewhere' })).key)
  const { body: session } = await many.json<{ sampling_session_id: string }>('create_sampling_session', {
    session_id: many.sessionId,
    sampling_session_seq_id: 1,
    ...BASE,
  })
  const sent: string[] = []
  const send = async (): Promise<void> => {
    for (;;) {
      const { status, body } = await ask(many, 120, session)
      if (status === 429) return
      sent.push(body.request_id)
    }
  }
  await Promise.all(Array.from({ length: 8 }, send))
  expect(sent.length).toBeGreaterThanOrEqual(MOST)
  let isHalfDone = false
  const half = many.result(sent[HALF] as string).then(
    () => {
      isHalfDone = true
    },
    (error: unknown) => error,
  )
  const { body } = await ask(other, 4)
  expect(await other.result(body.request_id)).toHaveProperty('bytes')
  expect(isHalfDone).toBe(false)
  const finished = await many.json(`sessions/${many.sessionId}/finish`, {})
  expect(finished.status).toBe(200)
  expect(await half).toMatchObject({ message: expect.stringContaining('410') })
  await service.untilEngineHas({ running: 0, waiting: 0 })
  expect((await ask(many, 1)).status).toBe(200)
})

it('a result is read by keys of its project and of the whole entity, and is unknown to others, as one that never was', async () => {
  const [own, foreign] = await Promise.all(
    ['own', 'foreign'].map(async (project) => {
      const { body } = await service.json<{ key: string }>('/v1/preview/keys', {
        json: { name: project, scope: 'read', project },
      })
      return body.key
    }),
  )
  const read = async (key: string | undefined, id: string): Promise<{ status: number; body: string }> => {
    const response = await service.fetch('/api/v1/retrieve_future', {
      json: { request_id: id },
      headers: { authorization: `Bearer ${key}` },
    })
    const { status } = response
    return { status, body: status === 200 ? '' : await response.text() }
  }
  const { body } = await service.json<{ request_id: string }>('/api/v1/asample', {
    json: {
      ...BASE,
      prompt: { chunks: [{ type: 'encoded_text', tokens: [1, 2] }] },
      sampling_params: { max_tokens: 2 },
    },
    headers: { authorization: `Bearer ${own}` },
  })
  expect(await read(own, body.request_id)).toMatchObject({ status: 200 })
  expect(await read(service.apiKey, body.request_id)).toMatchObject({ status: 200 })
  const unknown = await read(own, 'nobody:answer:1')
  expect(unknown.status).toBe(410)
  expect(await read(foreign, body.request_id)).toEqual(unknown)
})
