/**
 * Responses that are kept: rows, for those that go on from them, of their owner alone, within limits. A scripted engine, whose answer
 * repeats the last message.
 */
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from 'vitest'
import { responseTables } from '#plugins/responses/storage/tables.js'
import type { Response as ResponseObject } from '#plugins/responses/wire.js'
import { createTestService, type TestService } from '../../../support/service/create-test-service.js'
import { until } from '../../../support/until.js'

const PATH = '/v1/responses'
/** Rows are there before their answers, on a busy machine too. */
const PATIENT = { plugins: { responses: { patienceMs: 30_000 } } }

interface Asked {
  readonly by?: string
  readonly of?: TestService
  readonly requestId?: string
}

let service: TestService
beforeAll(async () => {
  service = await createTestService({ tuning: PATIENT })
})
afterAll(() => service.dispose())

const headersOf = ({ by, requestId }: Asked): Record<string, string> => ({
  ...(by === undefined ? {} : { authorization: `Bearer ${by}` }),
  ...(requestId === undefined ? {} : { 'x-request-id': requestId }),
})

async function respond(json: object, asked: Asked = {}): Promise<ResponseObject> {
  const { of = service } = asked
  const { status, body } = await of.json<ResponseObject>(PATH, { json, headers: headersOf(asked) })
  expect(status, JSON.stringify(body)).toBe(200)
  return body
}

/** What each of the ways to a response answers with. */
async function statusesOf(id: string, asked: Asked = {}): Promise<Record<string, number>> {
  const { of = service } = asked
  const headers = headersOf(asked)
  const [got, listed, next, deleted] = [
    await of.json(`${PATH}/${id}`, { headers }),
    await of.json(`${PATH}/${id}/input_items`, { headers }),
    await of.json(PATH, { json: { input: 'on', previous_response_id: id }, headers }),
    await of.json(`${PATH}/${id}`, { method: 'DELETE', headers }),
  ]
  return { got: got.status, listed: listed.status, next: next.status, deleted: deleted.status }
}
const NOT_FOUND = { got: 404, listed: 404, next: 404, deleted: 404 }
const FOUND = { got: 200, listed: 200, next: 200, deleted: 200 }

describe('a stored response', () => {
  it('outlives its server: it is got, listed, gone on from, referred to, and deleted for good', async () => {
    const before = await createTestService({ tuning: PATIENT })
    const first = await respond({ input: 'one' }, { of: before })
    const second = await respond({ input: 'two', previous_response_id: first.id }, { of: before })
    const gone = await respond({ input: 'gone' }, { of: before })
    expect((await before.json(`${PATH}/${gone.id}`, { method: 'DELETE' })).status).toBe(200)
    const listed = await before.json(`${PATH}/${second.id}/input_items`)
    const of = await before.restart()
    onTestFinished(() => of.dispose())
    expect((await of.json(`${PATH}/${second.id}`)).body).toEqual(second)
    expect(await of.json(`${PATH}/${second.id}/input_items`)).toEqual(listed)
    const third = await respond({ input: 'three', previous_response_id: second.id }, { of })
    const said = 'user:one\nassistant:base:one\nuser:two\nassistant:base:two\nuser:three'
    expect(third.usage?.input_tokens).toBe(said.length)
    const reference = { type: 'item_reference', id: first.output[0]?.id }
    const referred = await respond({ input: [reference, { role: 'user', content: 'x' }] }, { of })
    expect(referred.usage?.input_tokens).toBe('assistant:base:one\nuser:x'.length)
    expect(await statusesOf(gone.id, { of })).toEqual(NOT_FOUND)
    // those that went on from it have it
    expect(await statusesOf(first.id, { of })).toEqual(FOUND)
    expect(await statusesOf(first.id, { of })).toEqual(NOT_FOUND)
    expect((await respond({ input: 'y', previous_response_id: third.id }, { of })).usage?.input_tokens).toBe(
      `${said}\nassistant:base:three\nuser:y`.length,
    )
    const lost = await of.json<{ error: { param: string } }>(PATH, { json: { input: [reference] } })
    expect([lost.status, lost.body.error.param]).toEqual([400, 'input[0].id'])
  })

  it('is there when its stream says that it is complete', async () => {
    for (let i = 0; i < 20; i += 1) {
      const response = await service.fetch(PATH, { json: { input: `hello ${i}`, stream: true } })
      const decoder = new TextDecoder()
      let text = ''
      for await (const part of response.body ?? []) {
        text += decoder.decode(part, { stream: true })
        const completed = /event: response.completed\ndata: (.*)\n\n/.exec(text)?.[1]
        if (completed === undefined) continue
        const { id } = (JSON.parse(completed) as { response: ResponseObject }).response
        // by the rows alone: what another server would see
        const { db, close } = await service.openRows()
        const rows = await responseTables(db)
          .selectFrom('stored_responses')
          .select('id')
          .where('response_id', '=', id)
          .execute()
        await close()
        expect(rows).toHaveLength(1)
      }
      expect(text).toContain('response.completed')
    }
  })

  it('is found by keys of its project and of all of its entity, and by no others', async () => {
    const [a, b, others] = await Promise.all(
      [{ project: 'a' }, { project: 'b' }, { entity: 'others' }].map(
        async (rights) => (await service.createKey(rights)).key,
      ),
    )
    const { id, output } = await respond({ input: 'secret' }, { by: a })
    const whole = await respond({ input: 'secret' })
    for (const by of [b, others]) {
      expect(await statusesOf(id, { by })).toEqual(NOT_FOUND)
      const json = { input: [{ type: 'item_reference', id: output[0]?.id }] }
      expect((await service.json(PATH, { json, headers: headersOf({ by }) })).status).toBe(400)
    }
    // what a key of all of the entity stored belongs to no project
    expect(await statusesOf(whole.id, { by: a })).toEqual(NOT_FOUND)
    expect((await service.json(`${PATH}/${id}`)).status).toBe(200)
    expect(await statusesOf(id, { by: a })).toEqual(FOUND)
  })

  it('whose id clients chose is another in each project, and the last one of its own', async () => {
    const [a, b] = await Promise.all(['c', 'd'].map(async (project) => (await service.createKey({ project })).key))
    const requestId = 'mine'
    await respond({ input: 'of a' }, { by: a, requestId })
    const ofB = await respond({ input: 'of b' }, { by: b, requestId })
    const again = await respond({ input: 'of a again' }, { by: a, requestId })
    const read = async (by?: string) =>
      (await service.json<ResponseObject>(`${PATH}/resp_mine`, { headers: by === undefined ? {} : headersOf({ by }) }))
        .body
    expect(await read(a)).toEqual(again)
    expect(await read(b)).toEqual(ofB)
    expect(await read()).toEqual(again)
    expect(await statusesOf('resp_mine', { by: a })).toEqual(FOUND)
    expect(await read(b)).toEqual(ofB)
  })

  it('goes when it is among the oldest of too many or too large ones of its entity, those of others stay', async () => {
    const of = await createTestService({
      tuning: { plugins: { responses: { limits: { count: 3, sizeBytes: 100_000 } } } },
    })
    onTestFinished(() => of.dispose())
    const { key: by } = await of.createKey({ entity: 'others' })
    const other = await respond({ input: 'other' }, { of, by })
    const ids: string[] = []
    for (const input of ['one', 'two', 'three', 'four', 'five']) ids.push((await respond({ input }, { of })).id)
    const found = async (asked: Asked = {}): Promise<string> => {
      const paths = [other.id, ...ids].map((id) => `${PATH}/${id}`)
      const answers = await Promise.all(paths.map((path) => of.json(path, { headers: headersOf(asked) })))
      return answers.map(({ status }) => (status === 200 ? 'kept' : 'gone')).join(' ')
    }
    // what is too much goes behind the answer
    const untilFound = (wanted: string) => until(async () => (await found()) === wanted, wanted)
    await untilFound('gone gone gone kept kept kept')
    ids.push((await respond({ input: 'six', user: 'a'.repeat(60_000) }, { of })).id)
    await untilFound('gone gone gone gone kept kept kept')
    ids.push((await respond({ input: 'seven', user: 'b'.repeat(60_000) }, { of })).id)
    await untilFound('gone gone gone gone gone gone gone kept')
    expect((await found({ by })).split(' ')[0]).toBe('kept')
  })

  it('is read without its conversation where that is not asked for', async () => {
    const { id, output } = await respond({ input: 'far' })
    const { db, close } = await service.openRows()
    await responseTables(db)
      .updateTable('stored_responses')
      .set({ items: 'unreadable' })
      .where('response_id', '=', id)
      .execute()
    await close()
    expect((await service.json<ResponseObject>(`${PATH}/${id}`)).body.id).toBe(id)
    await respond({ input: [{ type: 'item_reference', id: output[0]?.id }] })
    expect((await service.json(`${PATH}/${id}/input_items`)).status).toBe(500)
  })

  it('has no id with U+0000, which no other database would store: refused by name, in every format', async () => {
    const messages = [{ role: 'user', content: 'x' }]
    const bodies: Readonly<Record<string, object>> = {
      [PATH]: { input: 'x' },
      '/v1/chat/completions': { messages },
      '/v1/completions': { prompt: 'x' },
      '/v1/messages': { messages, max_tokens: 5, model: 'trainyard/spark' },
    }
    for (const [path, body] of Object.entries(bodies)) {
      const { status, body: answer } = await service.json(path, { json: { ...body, request_id: 'a\u0000b' } })
      expect(status, path).toBe(400)
      expect(JSON.stringify(answer), path).toContain('request_id must not hold the character U+0000')
    }
    const { db, close } = await service.openRows()
    const rows = await responseTables(db).selectFrom('stored_responses').select('response_id').execute()
    await close()
    expect(rows.filter(({ response_id }) => response_id.startsWith('resp_a'))).toEqual([])
  })

  it('goes after 30 days', async () => {
    const { id, output } = await respond({ input: 'old' })
    const { db, close } = await service.openRows()
    const day = 24 * 3_600_000
    const age = async (days: number) =>
      responseTables(db)
        .updateTable('stored_responses')
        .set({ created_at_ms: Date.now() - days * day })
        .where('response_id', '=', id)
        .execute()
    await age(29.9)
    expect((await service.json(`${PATH}/${id}`)).status).toBe(200)
    await age(30.1)
    await close()
    expect((await service.json(`${PATH}/${id}`)).status).toBe(404)
    const json = { input: [{ type: 'item_reference', id: output[0]?.id }] }
    expect((await service.json(PATH, { json })).status).toBe(400)
  })
})
