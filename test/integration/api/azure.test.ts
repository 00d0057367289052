/**
 * Azure's addresses: the stock clients call here what they call there, by `api-version` and the header `api-key`; whose key
 * it is, its scope and what it may see are those of the endpoint itself.
 */
import OpenAI, { AzureOpenAI, toFile } from 'openai'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { aliasOf } from '#plugins/azure/endpoints.js'
import { createTestService, type TestService } from '../../support/service/create-test-service.js'

const MODEL = 'trainyard/tiny-random'
const ROW = {
  messages: [
    { role: 'user', content: 'Which word?' },
    { role: 'assistant', content: 'Node' },
  ],
}

let service: TestService
beforeAll(async () => {
  service = await createTestService()
})
afterAll(() => service.dispose())

const azure = (apiKey = service.apiKey, more: object = {}) =>
  new AzureOpenAI({ endpoint: service.url, apiKey, apiVersion: '2025-04-01-preview', maxRetries: 0, ...more })

it('AzureOpenAI: files, jobs, graders, uploads, batches, models and chat', async () => {
  const client = azure()
  const bytes = Buffer.from(`${JSON.stringify(ROW)}\n`.repeat(4))
  const file = await client.files.create({ file: await toFile(bytes, 'rows.jsonl'), purpose: 'fine-tune' })
  expect(await (await client.files.content(file.id)).text()).toBe(bytes.toString())
  expect((await client.files.list()).data.map(({ id }) => id)).toContain(file.id)
  const job = await client.fineTuning.jobs.create({ model: MODEL, training_file: file.id, suffix: 'azure' })
  expect((await client.fineTuning.jobs.retrieve(job.id)).id).toBe(job.id)
  await service.waitForJob(job.id.replace(/^ftjob-/, ''))
  expect((await client.fineTuning.jobs.listEvents(job.id)).data.length).toBeGreaterThan(0)
  const grader = {
    ...{ type: 'string_check' as const, name: 'right', operation: 'eq' as const },
    ...{ input: '{{sample.output_text}}', reference: '{{item.answer}}' },
  }
  const graded = await client.fineTuning.alpha.graders.run({ grader, item: { answer: '4' }, model_sample: '4' })
  expect(graded.reward).toBe(1)
  const upload = await client.uploads.create({
    ...{ bytes: bytes.length, filename: 'rows.jsonl', mime_type: 'application/jsonl', purpose: 'fine-tune' as const },
  })
  const part = await client.uploads.parts.create(upload.id, { data: await toFile(bytes, 'part') })
  expect((await client.uploads.complete(upload.id, { part_ids: [part.id] })).status).toBe('completed')
  const messages = [{ role: 'user' as const, content: 'hello' }]
  expect((await client.chat.completions.create({ model: MODEL, messages })).object).toBe('chat.completion')
  const stream = await client.chat.completions.create({ model: MODEL, messages, stream: true })
  const chunks: string[] = []
  for await (const chunk of stream) chunks.push(chunk.object)
  expect(new Set(chunks)).toEqual(new Set(['chat.completion.chunk']))
  const named = azure(service.apiKey, { deployment: MODEL })
  expect((await named.chat.completions.create({ model: MODEL, messages })).object).toBe('chat.completion')
  const line = { custom_id: 'a', method: 'POST', url: '/v1/chat/completions', body: { model: MODEL, messages } }
  const lines = await toFile(Buffer.from(`${JSON.stringify(line)}\n`), 'lines.jsonl')
  const input = await client.files.create({ file: lines, purpose: 'batch' })
  const wanted = { input_file_id: input.id, endpoint: '/v1/chat/completions', completion_window: '24h' } as const
  const batch = await client.batches.create(wanted)
  expect((await client.batches.retrieve(batch.id)).id).toBe(batch.id)
  expect((await client.responses.create({ model: MODEL, input: 'hello' })).object).toBe('response')
})

it('OpenAI with the base URL of the newest form', async () => {
  const client = new OpenAI({ baseURL: `${service.url}/openai/v1/`, apiKey: service.apiKey, maxRetries: 0 })
  expect((await client.fineTuning.jobs.list()).data.length).toBeGreaterThan(0)
  expect((await client.models.list()).data.length).toBeGreaterThan(0)
})

it('asks for the same key, its scope and its owner', async () => {
  const path = '/openai/files?api-version=1'
  expect((await fetch(service.url + path)).status).toBe(401)
  expect((await fetch(service.url + path, { headers: { 'api-key': 'tk-nothing' } })).status).toBe(401)
  const { key } = await service.createKey({ entity: 'others', scope: 'read' })
  const headers = { 'api-key': key, 'content-type': 'application/json' }
  const listed = (await (await fetch(service.url + path, { headers })).json()) as { data: unknown[] }
  expect(listed.data).toEqual([])
  const refused = await fetch(`${service.url}/openai/fine_tuning/jobs`, { method: 'POST', headers, body: '{}' })
  expect(refused.status).toBe(403)
  expect((await refused.json()) as object).toMatchObject({ error: { code: 'insufficient_scope' } })
})

it.each([
  ['/openai/v1/files/x/content', '/v1/files/x/content'],
  ['/openai/fine_tuning/jobs', '/v1/fine_tuning/jobs'],
  ['/openai/deployments/a/b:step2/chat/completions', '/v1/chat/completions'],
  ['/openai/deployments/a/completions', '/v1/completions'],
  ['/openai/v1/preview/models', '/openai/v1/preview/models'],
  ['/openai/v1/worker/claims', '/openai/v1/worker/claims'],
  ['/openai/filesystem', '/openai/filesystem'],
  ['/openai/deployments/a/files', '/openai/deployments/a/files'],
  ['/v1/files', '/v1/files'],
])('%s is %s', (address, path) => {
  expect(aliasOf(address)).toBe(path)
})
