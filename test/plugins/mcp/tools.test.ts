/**
 * The service as tools: what a key is offered, what a tool answers and refuses, that none of them reads what is another's, and that none
 * answers more than an agent can read.
 */
import type { Client } from '@modelcontextprotocol/client'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { MOST_BYTES } from '#plugins/mcp/bounded.js'
import { createTestService, type TestService } from '../../support/service/create-test-service.js'
import { call, openClient } from './support.js'

let service: TestService
let admin: Client
const clients: Client[] = []
const open = async (key: string): Promise<Client> => {
  const client = await openClient(service.url, key)
  clients.push(client)
  return client
}

beforeAll(async () => {
  service = await createTestService()
  admin = await open(service.apiKey)
})
afterAll(async () => {
  for (const client of clients) await client.close()
  await service.dispose()
})

const ROW = {
  messages: [
    { role: 'user', content: 'hi' },
    { role: 'assistant', content: 'hello' },
  ],
}
const rows = (count: number) => Array.from({ length: count }, () => JSON.stringify(ROW)).join('\n')
const GRADER = {
  type: 'string_check',
  name: 'exact',
  operation: 'eq',
  input: '{{sample.output_text}}',
  reference: '{{item.answer}}',
}

async function trained(client: Client, name: string) {
  const model = await call<{ id: string }>(client, 'create_model', {
    project: 'p',
    name,
    base_model: 'trainyard/tiny-random',
  })
  const file = await call<{ id: string }>(client, 'upload_file', { content: rows(4), filename: 'mine.jsonl' })
  const job = await call<{ id: string; status: string; step: number }>(client, 'train_on_examples', {
    model_id: model.value.id,
    training_data_url: file.value.id,
    wait_seconds: 300,
  })
  return { model: model.value.id, file: file.value.id, job: job.value }
}

test('a key is offered what it may do, each with a sentence and a schema of its own', async () => {
  const tools = (await admin.listTools()).tools
  for (const { name, description, inputSchema } of tools) {
    expect(description?.length, name).toBeGreaterThan(10)
    expect(inputSchema, name).toMatchObject({ type: 'object', additionalProperties: false })
  }
  const reader = await open((await service.createKey({ scope: 'read' })).key)
  const offered = (await reader.listTools()).tools.map(({ name }) => name)
  expect(offered).toContain('list_models')
  expect(offered).not.toContain('create_model')
  expect(offered).not.toContain('upload_file')
  expect(offered).not.toContain('evaluate')
  await expect(call(reader, 'delete_model', { model_id: 'x' })).rejects.toThrow('there is no tool delete_model')
  const writer = await open((await service.createKey({ scope: 'write' })).key)
  expect((await writer.listTools()).tools.map(({ name }) => name)).not.toContain('add_base_model')
})

test('a model is made, trained while one waits, and read', async () => {
  const seen: (string | undefined)[] = []
  const model = await call<{ id: string }>(admin, 'create_model', {
    project: 'p',
    name: 'walk',
    base_model: 'trainyard/tiny-random',
  })
  const file = await call<{ id: string }>(admin, 'upload_file', { content: rows(4) })
  const given = { model_id: model.value.id, training_data_url: file.value.id }
  const plan = await call<{ object: string }>(admin, 'train_on_examples', { ...given, plan: true })
  expect(plan.value.object).toBe('training_plan')
  const job = await call<{ id: string; status: string }>(
    admin,
    'train_on_examples',
    { ...given, wait_seconds: 300 },
    ({ message }) => seen.push(message),
  )
  expect(job.value.status).toBe('completed')
  expect(seen[0]).toBe('queued')
  expect((await call<{ id: string }>(admin, 'get_job', { training_job_id: job.value.id })).value.id).toBe(job.value.id)
  const read = await call<{ text: string; next_offset: number | null }>(admin, 'read_file', { file_id: file.value.id })
  expect(read.value).toMatchObject({ text: rows(4), next_offset: null })
  const report = await admin.readResource({ uri: `trainyard://jobs/${job.value.id}/report` })
  expect(JSON.parse((report.contents[0] as { text: string }).text)).toMatchObject({ id: job.value.id })
  const history = await admin.readResource({ uri: `trainyard://models/${model.value.id}/history` })
  expect((history.contents[0] as { text: string }).text).toContain(model.value.id)
})

test('a refusal says what, and the next call', async () => {
  const unknown = await call(admin, 'get_model', { model_id: 'none' })
  expect(unknown).toMatchObject({ isError: true, value: { code: 'model_not_found', next_call: 'list_models' } })
  const misspelled = await call(admin, 'list_models', { limt: 3 })
  expect(misspelled).toMatchObject({ isError: true, value: { code: 'invalid_arguments' } })
  expect(misspelled.text).toContain('limt')
  const missing = await call(admin, 'create_model', { name: 'a' })
  expect(missing.text).toContain('project')
  const noRows = await call(admin, 'evaluate', { model: 'm', rows: [{ question: 'q' }], grader: GRADER })
  expect(noRows.text).toContain('rows[0] has no messages')
  await expect(admin.readResource({ uri: 'trainyard://guide/../../package' })).rejects.toThrow('no resource')
  await expect(admin.readResource({ uri: 'trainyard://guide/none' })).rejects.toThrow('no page')
})

test('pages of the handbook and three ways to begin are there', async () => {
  const { resources } = await admin.listResources()
  expect(resources.map(({ name }) => name)).toEqual(expect.arrayContaining(['first-steps', 'rewards', 'api']))
  for (const { uri } of resources) {
    const [page] = (await admin.readResource({ uri })).contents as { text: string }[]
    expect(Buffer.byteLength(page?.text ?? '')).toBeLessThanOrEqual(MOST_BYTES + 200)
  }
  const { prompts } = await admin.listPrompts()
  expect(prompts).toHaveLength(3)
  const names = new Set((await admin.listTools()).tools.map(({ name }) => name))
  for (const { name } of prompts) {
    const { messages } = await admin.getPrompt({ name, arguments: { task: 'sort words' } })
    const text = (messages[0]?.content as { text?: string } | undefined)?.text ?? ''
    expect(text).toContain('sort words')
    // tools that a text names are there
    for (const [word] of text.matchAll(/\b[a-z]+_[a-z_]+\b/g)) {
      if (!['wait_seconds', 'from_checkpoint'].includes(word)) expect(names, word).toContain(word)
    }
  }
})

describe('nothing is answered of another’s', () => {
  test('with every tool, asked for all ids of another entity', async () => {
    const mine = await trained(admin, 'secret-model')
    const probe = await call<{ id: string }>(admin, 'watch_prompt', {
      model_id: mine.model,
      messages: [{ role: 'user', content: 'secret-prompt' }],
    })
    expect(probe.isError, probe.text).toBe(false)
    const loop = await call<{ id: string }>(admin, 'train_with_grader', {
      model_id: mine.model,
      prompts_file: mine.file,
      grader: GRADER,
      steps: 1,
    })
    const stranger = await open((await service.createKey({ entity: 'stranger', scope: 'write' })).key)
    const ids: Readonly<Record<string, string>> = {
      model_id: mine.model,
      training_job_id: mine.job.id,
      file_id: mine.file,
      training_data_url: mine.file,
      prompts_file: mine.file,
      probe_id: probe.value.id,
      loop_id: loop.value.id ?? '00000000-0000-4000-8000-000000000000',
      model: 'secret-model',
    }
    const filler: Readonly<Record<string, unknown>> = {
      grader: GRADER,
      messages: [{ role: 'user', content: 'x' }],
      rows: [{ messages: [{ role: 'user', content: 'x' }], answer: 'y' }],
      trajectory_groups: [],
      description: 'x',
      tags: [],
      content: 'x',
      name: 'x',
      project: 'x',
      label: 'good',
    }
    const secrets = Object.values(ids).filter((id) => id.length > 20)
    let asked = 0
    for (const { name, inputSchema } of (await stranger.listTools()).tools) {
      const properties = Object.keys(inputSchema.properties ?? {})
      const required = inputSchema.required ?? []
      const given = Object.fromEntries(
        properties.flatMap((each) => {
          if (ids[each] !== undefined) return [[each, ids[each]]]
          return required.includes(each) ? [[each, filler[each] ?? 'x']] : []
        }),
      )
      const { isError, value, text } = await call(stranger, name, given)
      asked += 1
      if (isError) continue
      // what was answered holds none of it: lists are empty of it, new things are the caller's own
      const said = secrets.filter((id) => text.includes(id))
      expect(said, `${name} answered ${JSON.stringify(value).slice(0, 300)}`).toEqual([])
      expect(text, name).not.toContain('secret-prompt')
      if (given['model'] === undefined) expect(text, name).not.toContain('secret-model')
    }
    expect(asked).toBeGreaterThan(30)
    expect((await call(admin, 'get_model', { model_id: mine.model })).isError).toBe(false)
  })
})

test('a long list is cut to what an agent can read, and said', async () => {
  for (let i = 0; i < 60; i += 1) {
    const made = await call<{ id: string }>(admin, 'create_model', {
      project: 'many',
      name: `model-${i}`,
      base_model: 'trainyard/tiny-random',
    })
    await call(admin, 'note_model', { model_id: made.value.id, description: 'x'.repeat(1500), tags: [] })
  }
  const listed = await call<{ left_out?: string[]; next?: string }>(admin, 'list_models', { limit: 100 })
  expect(Buffer.byteLength(listed.text)).toBeLessThanOrEqual(MOST_BYTES)
  const { tools } = await admin.listTools()
  for (const { name, inputSchema } of tools) {
    if ((inputSchema.required ?? []).length > 0) continue
    expect(Buffer.byteLength((await call(admin, name)).text), name).toBeLessThanOrEqual(MOST_BYTES)
  }
})

test('no key, no tools; the older way to ask for news is answered as the protocol wants', async () => {
  const { status } = await fetch(`${service.url}/mcp`, { method: 'POST', body: '{}' })
  expect(status).toBe(401)
  const get = await service.fetch('/mcp', { headers: { accept: 'text/event-stream' } })
  expect(get.status).toBe(405)
})
