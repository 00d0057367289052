/**
 * OpenAI's batches by its own client: a file of requests becomes a file of answers, each line once, behind the requests of others, also when
 * the server stops in the middle.
 */
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import OpenAI, { toFile } from 'openai'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { BEHIND_ALL } from '#contract/processes/priority.js'
import {
  createTestService,
  type TestService,
  type TestServiceOptions,
} from '../../../support/service/create-test-service.js'
import { until } from '../../../support/until.js'

type Line = {
  custom_id: string
  response: { status_code: number; body: Record<string, unknown> } | null
  error: unknown
}

const OPTIONS: TestServiceOptions = { tuning: { plugins: { batches: { flushMs: 20, retryMs: 20 } } } }
const CHAT = '/v1/chat/completions'
const MODEL = 'trainyard/tiny-random'

let service: TestService
let client: OpenAI
beforeAll(async () => {
  service = await createTestService(OPTIONS)
  client = clientOf(service)
})
afterAll(() => service.dispose())

const clientOf = ({ url, apiKey }: TestService, key = apiKey) =>
  new OpenAI({ baseURL: `${url}/v1`, apiKey: key, maxRetries: 0 })

const say = (id: string | number, content: string, more: object = {}) => ({
  custom_id: `line ${id}`,
  method: 'POST',
  url: CHAT,
  body: { model: MODEL, messages: [{ role: 'user', content }], ...more },
})

async function submit(lines: readonly object[], endpoint = CHAT, by = client): Promise<OpenAI.Batch> {
  const text = lines.map((line) => `${JSON.stringify(line)}\n`).join('')
  const file = await by.files.create({ file: await toFile(Buffer.from(text), 'requests.jsonl'), purpose: 'batch' })
  return by.batches.create({
    input_file_id: file.id,
    endpoint: endpoint as typeof CHAT,
    completion_window: '24h',
    metadata: { run: 'night' },
  })
}

const untilEnded = (id: string, by = client): Promise<OpenAI.Batch> =>
  until(
    async () => {
      const batch = await by.batches.retrieve(id)
      return /^(completed|failed|expired|cancelled)$/.test(batch.status) && batch
    },
    `end of batch ${id}`,
    200_000,
  )

async function read(fileId: string | undefined | null, by = client): Promise<readonly Line[]> {
  const text = await (await by.files.content(fileId ?? '')).text()
  return text
    .trimEnd()
    .split('\n')
    .map((line) => JSON.parse(line) as Line)
}

/** What each line was answered, by its id; no id is there twice. */
function byId(lines: readonly Line[]): ReadonlyMap<string, Line> {
  const found = new Map(lines.map((line) => [line.custom_id, line]))
  expect(found.size).toBe(lines.length)
  return found
}
const contentOf = (line: Line | undefined): unknown =>
  (line?.response?.body as OpenAI.ChatCompletion | undefined)?.choices[0]?.message.content

describe('a batch', () => {
  it('answers every line once, refusals in a file of their own, and counts', async () => {
    const lines = Array.from({ length: 300 }, (_, i) => say(i, `words ${i}`))
    lines.push(say('wrong', 'x', { temperature: 'hot' }), say('other', 'x', { model: 'nobody/nothing/here' }))
    const made = await submit(lines)
    expect(made).toMatchObject({ object: 'batch', status: 'validating', endpoint: CHAT, metadata: { run: 'night' } })
    const batch = await untilEnded(made.id)
    expect(batch).toMatchObject({
      status: 'completed',
      request_counts: { total: 302, completed: 300, failed: 2 },
      errors: null,
      completed_at: expect.any(Number),
      in_progress_at: expect.any(Number),
      failed_at: null,
    })
    const answers = byId(await read(batch.output_file_id))
    expect(answers.size).toBe(300)
    for (let i = 0; i < 300; i++) expect(contentOf(answers.get(`line ${i}`))).toBe(`base:words ${i}`)
    const errors = byId(await read(batch.error_file_id))
    const statuses = ['wrong', 'other'].map((id) => errors.get(`line ${id}`)?.response?.status_code)
    expect(statuses).toEqual([400, 404])
    expect(await client.files.retrieve(batch.output_file_id ?? '')).toMatchObject({ purpose: 'batch_output' })
    const totals = [...answers.values()].map((line) => line.response?.body as unknown as OpenAI.ChatCompletion)
    const tokens = totals.reduce((sum, { usage }) => sum + (usage?.total_tokens ?? 0), 0)
    expect(batch.usage?.total_tokens).toBe(tokens)
    const listed = await client.batches.list({ limit: 1 })
    expect(listed.data.map(({ id }) => id)).toEqual([batch.id])
    await expect(client.batches.cancel(batch.id)).rejects.toMatchObject({ status: 409 })
  })

  it('asks completions and responses, too', async () => {
    const prompt = { custom_id: 'a', method: 'POST', url: '/v1/completions', body: { prompt: 'hi', max_tokens: 4 } }
    const input = { custom_id: 'b', method: 'POST', url: '/v1/responses', body: { input: 'hi', store: false } }
    const [completions, responses] = await Promise.all([
      submit([prompt], '/v1/completions'),
      submit([input], '/v1/responses'),
    ])
    const [text] = await read((await untilEnded(completions.id)).output_file_id)
    expect(text?.response?.body).toMatchObject({ object: 'text_completion' })
    const ended = await untilEnded(responses.id)
    const [response] = await read(ended.output_file_id)
    expect(response?.response?.body).toMatchObject({ object: 'response', status: 'completed' })
    expect(ended.usage?.output_tokens).toBeGreaterThan(0)
  })

  it('stands behind the requests of people, an eighth of what is computed at once', async () => {
    const lines = [...Array.from({ length: 64 }, (_, i) => say(i, 'COUNT')), say('mine', 'PRIORITY')]
    const batch = await untilEnded((await submit(lines)).id)
    const answers = byId(await read(batch.output_file_id))
    expect(contentOf(answers.get('line mine'))).toBe(`priority:${BEHIND_ALL}`)
    const counts = Array.from({ length: 64 }, (_, i) =>
      Number(String(contentOf(answers.get(`line ${i}`))).replace('running:', '')),
    )
    // beside it the others of eight
    expect(Math.max(...counts)).toBeLessThanOrEqual(7)
  })

  it('fails with what is wrong, by line, before a line is asked', async () => {
    const wrong = [say(1, 'x'), say(1, 'x'), { ...say(2, 'x'), url: '/v1/embeddings' }]
    const batch = await untilEnded((await submit(wrong)).id)
    expect(batch).toMatchObject({ status: 'failed', failed_at: expect.any(Number), request_counts: { total: 0 } })
    expect(batch.errors?.data).toMatchObject([
      { line: 2, code: 'duplicate_custom_id', param: 'custom_id' },
      { line: 3, code: 'invalid_url', param: 'url' },
    ])
    expect(batch.output_file_id).toBeNull()
  })

  it('is refused without a file of requests that is its own', async () => {
    const rows = await client.files.create({ file: await toFile(Buffer.from('{}'), 'rows'), purpose: 'user_data' })
    const create = (input_file_id: string, by = client, more: object = {}) =>
      by.batches.create({ input_file_id, endpoint: CHAT, completion_window: '24h', ...more })
    await expect(create(rows.id)).rejects.toMatchObject({ status: 400, param: 'input_file_id' })
    await expect(create('file-none')).rejects.toMatchObject({ status: 400, param: 'input_file_id' })
    const own = await submit([say('own', 'x')])
    const { key } = await service.createKey({ entity: 'others' })
    const other = clientOf(service, key)
    await expect(create(own.input_file_id, other)).rejects.toMatchObject({ status: 400 })
    await expect(other.batches.retrieve(own.id)).rejects.toMatchObject({ status: 404 })
    await expect(other.batches.cancel(own.id)).rejects.toMatchObject({ status: 404 })
    expect((await other.batches.list()).data).toEqual([])
    const expiring = create(own.input_file_id, client, {
      output_expires_after: { anchor: 'created_at', seconds: 3600 },
    })
    await expect(expiring).rejects.toMatchObject({ param: 'output_expires_after' })
    await untilEnded(own.id)
  })

  it('of a key that is revoked computes nothing more: what is left is refused', async () => {
    const { body: key } = await service.json<{ id: string; key: string }>('/v1/preview/keys', {
      json: { scope: 'write' },
    })
    const lines = Array.from({ length: 400 }, (_, i) => say(i, `words ${i}`))
    const { id } = await submit(lines, CHAT, clientOf(service, key.key))
    expect((await service.fetch(`/v1/preview/keys/${key.id}`, { method: 'DELETE' })).ok).toBe(true)
    const batch = await untilEnded(id)
    const { total = 0, completed = 0, failed = 0 } = batch.request_counts ?? {}
    expect([total, completed + failed]).toEqual([400, 400])
    const refused = await read(batch.error_file_id)
    expect(refused).toHaveLength(failed)
    expect(new Set(refused.map(({ response }) => response?.status_code))).toEqual(new Set([401]))
  })

  it('that is cancelled keeps what is answered', async () => {
    const lines = [
      ...Array.from({ length: 5 }, (_, i) => say(i, `words ${i}`)),
      ...Array.from({ length: 9 }, (_, i) => say(`open ${i}`, 'WAIT')),
    ]
    const { id } = await submit(lines)
    await until(async () => (await client.batches.retrieve(id)).request_counts?.completed === 5, 'five answers')
    const cancelling = await client.batches.cancel(id)
    expect(cancelling).toMatchObject({ status: expect.stringMatching(/^cancell/), cancelling_at: expect.any(Number) })
    const batch = await untilEnded(id)
    expect(batch).toMatchObject({ status: 'cancelled', request_counts: { total: 14, completed: 5, failed: 0 } })
    expect([...byId(await read(batch.output_file_id)).keys()].sort()).toEqual([0, 1, 2, 3, 4].map((i) => `line ${i}`))
    expect(batch.error_file_id).toBeNull()
  })
})

describe('a batch that outlives', () => {
  it('its server goes on where it was, and nothing is twice or missing', async () => {
    const dataDir = await mkdtemp(join(tmpdir(), 'trainyard-batch-'))
    let own = await createTestService({ ...OPTIONS, dataDir })
    const lines = Array.from({ length: 400 }, (_, i) => say(i, i % 8 === 0 ? `SLOW ${i}` : `words ${i}`))
    const { id } = await submit(lines, CHAT, clientOf(own))
    // its requests are its own: the file may go
    const { input_file_id: input } = await clientOf(own).batches.retrieve(id)
    await clientOf(own).files.delete(input)
    for (const least of [20, 150]) {
      await until(async () => {
        const { request_counts: counts } = await clientOf(own).batches.retrieve(id)
        return counts !== undefined && counts.completed >= least
      }, `${least} answers`)
      const { apiKey } = own
      await own.close(0)
      own = await createTestService({ ...OPTIONS, dataDir, apiKey, database: own.database })
    }
    const batch = await untilEnded(id, clientOf(own))
    expect(batch).toMatchObject({ status: 'completed', request_counts: { total: 400, completed: 400, failed: 0 } })
    const answers = byId(await read(batch.output_file_id, clientOf(own)))
    for (const line of lines)
      expect(contentOf(answers.get(line.custom_id))).toBe(`base:${line.body.messages[0]?.content}`)
    expect(answers.size).toBe(400)
    await own.dispose()
    await rm(dataDir, { recursive: true, force: true })
  })
})
