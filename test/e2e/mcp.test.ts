/** An agent that starts a program: `trainyard mcp` over standard input, and the skill that it brings. */
import { readFile, writeFile } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { Client } from '@modelcontextprotocol/client'
import { StdioClientTransport } from '@modelcontextprotocol/client/stdio'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { packageRoot } from '#base/util/package-root.js'
import { call } from '../plugins/mcp/support.js'
import { cli, createHome } from '../support/service/cli-process.js'
import { createTestService, type TestService } from '../support/service/create-test-service.js'

const home = createHome()
let service: TestService
beforeAll(async () => {
  service = await createTestService({ scripted: false, baseModels: ['trainyard/spark'] })
})
afterAll(async () => {
  await service.dispose()
  home.remove()
})

const GRADER = {
  type: 'string_check',
  name: 'exact',
  operation: 'eq',
  input: '{{sample.output_text}}',
  reference: '{{item.answer}}',
}

test('has the tools of the server, reads files of its machine, and takes a task from base to learned', async () => {
  const client = new Client({ name: 'test', version: '1.0.0' })
  const transport = new StdioClientTransport({
    command: process.execPath,
    args: [join(packageRoot(), 'bin', 'trainyard.js'), 'mcp', '--server', service.url],
    env: { HOME: home.path, PATH: process.env['PATH'] ?? '', TRAINYARD_API_KEY: service.apiKey },
  })
  await client.connect(transport)
  const { tools } = await client.listTools()
  expect(tools.length).toBeGreaterThan(40)
  const model = await call<{ id: string }>(client, 'create_model', {
    project: 'default',
    name: 'colours',
    base_model: 'trainyard/spark',
  })
  // a rule that no base model knows: a colour is answered by a letter
  const letters = { red: 'r7', blue: 'b4', green: 'g9', white: 'w2' }
  const row = (colour: string, i: number) => ({ role: 'user', content: `code ${colour} item ${i}` })
  const all = Object.entries(letters).flatMap(([colour, answer]) =>
    Array.from({ length: 30 }, (_, i) => ({ messages: [row(colour, i)], answer })),
  )
  const heldOut = all.filter((_, i) => i % 5 === 0)
  const training = all.filter((_, i) => i % 5 !== 0)
  const path = join(home.path, 'examples.jsonl')
  const lines = training.map(({ messages, answer }) =>
    JSON.stringify({ messages: [...messages, { role: 'assistant', content: answer }] }),
  )
  await writeFile(path, lines.join('\n'))
  const before = await call<{ mean_score: number }>(client, 'evaluate', {
    model: 'trainyard/spark',
    rows: heldOut,
    grader: GRADER,
  })
  const file = await call<{ id: string; filename: string }>(client, 'upload_file', { path })
  expect(file.value.filename).toBe('examples.jsonl')
  const states: (string | undefined)[] = []
  const job = await call<{ status: string }>(
    client,
    'train_on_examples',
    { model_id: model.value.id, training_data_url: file.value.id, wait_seconds: 300 },
    ({ message }) => states.push(message),
  )
  expect(job.value.status).toBe('completed')
  expect(states[0]).toBe('queued')
  const after = await call<{ mean_score: number; interval_95: [number, number] }>(client, 'evaluate', {
    model: 'colours',
    rows: heldOut,
    grader: GRADER,
  })
  expect(before.value.mean_score).toBeLessThan(0.2)
  expect(after.value.mean_score).toBeGreaterThan(0.7)
  expect(after.value.interval_95[0]).toBeGreaterThan(0.4)
  await expect(call(client, 'upload_file', { path: join(home.path, 'none') })).rejects.toThrow('cannot be read: ENOENT')
  await client.close()
})

test('a skill is written where agents look, and nothing that was changed is lost', async () => {
  const folder = join(home.path, 'skills')
  const written = await cli(['skills', 'add', folder, '--json'], { home: home.path })
  expect(written.exitCode).toBe(0)
  const { path } = JSON.parse(written.stdout) as { path: string }
  expect(dirname(path)).toBe(join(folder, 'trainyard'))
  const text = await readFile(path, 'utf8')
  expect(text).toMatch(/^---\nname: trainyard\ndescription: /)
  expect((await cli(['skills', 'add', folder], { home: home.path })).exitCode).toBe(0)
  await writeFile(path, 'mine')
  const refused = await cli(['skills', 'add', folder], { home: home.path })
  expect([refused.exitCode === 0, refused.stderr]).toEqual([false, expect.stringContaining('--force')])
  expect(await readFile(path, 'utf8')).toBe('mine')
  expect((await cli(['skills', 'add', folder, '--force'], { home: home.path })).exitCode).toBe(0)
  expect(await readFile(path, 'utf8')).toBe(text)
})
