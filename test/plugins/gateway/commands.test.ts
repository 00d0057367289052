/**
 * Routes by the command line: made, filled by a stock client, summed up with costs, exported, trained on, deleted; and a server of its own.
 */
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import OpenAI from 'openai'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import type { Route, RouteSummary } from '#plugins/gateway/wire.js'
import { createHome, startCli } from '../../support/service/cli-process.js'
import { createTestService, type TestService } from '../../support/service/create-test-service.js'
import { runCli } from '../../support/service/run-cli.js'
import { type FakeUpstream, startUpstream } from './upstream.js'

let upstream: FakeUpstream
let service: TestService
let folder: string
beforeAll(async () => {
  upstream = await startUpstream()
  folder = await mkdtemp(join(tmpdir(), 'trainyard-routes-'))
  service = await createTestService({ gatewayHosts: [upstream.host] })
})
afterAll(async () => {
  await service.dispose()
  await upstream.close()
  await rm(folder, { recursive: true, force: true })
})

const run = (...line: string[]) =>
  runCli([...line, '--server', service.url], { env: { TRAINYARD_API_KEY: service.apiKey }, fetch })

async function answered<T>(...line: string[]): Promise<T> {
  const { stdout, stderr, exitCode } = await run(...line, '--json')
  expect(exitCode, stderr).toBe(0)
  return JSON.parse(stdout) as T
}

describe('routes', () => {
  it('create, calls, get with prices, export, train sft, delete', async () => {
    const made = await answered<Route>(
      'routes',
      'create',
      'tickets',
      '--upstream',
      upstream.url,
      '--mask',
      'EMP-\\d{6}',
    )
    expect(made).toMatchObject({ path: '/gateway/tickets/v1', mask_patterns: ['EMP-\\d{6}'], content: true })
    const client = new OpenAI({
      baseURL: service.url + made.path,
      apiKey: 'sk-0123456789abcdefghijkl',
      defaultHeaders: { 'x-trainyard-key': service.apiKey },
    })
    for (let i = 0; i < 4; i++) {
      const messages = [{ role: 'user' as const, content: `ticket ${i} of EMP-123456` }]
      await client.chat.completions.create({ model: 'gpt', messages })
    }
    const prices = join(folder, 'prices.json')
    await writeFile(prices, JSON.stringify({ gpt: { input: 1, cached: 0.5, output: 10 } }))
    type Priced = RouteSummary & { readonly costs: { readonly total: number; readonly unpriced: string[] } }
    const summary = await answered<Priced>('routes', 'get', 'tickets', '--prices', prices)
    // by hand: 4 calls of 7 new and 4 cached input tokens and 7 output tokens
    expect(summary.costs.total).toBeCloseTo((4 * (7 * 1 + 4 * 0.5 + 7 * 10)) / 1e6, 12)
    expect(summary.recorded.alike).toMatchObject({ of: 4, shapes: 1, prompts: 4, answers: 1 })
    const text = await run('routes', 'get', 'tickets', '--prices', prices)
    expect(text.stdout).toContain('4, of them 4 recorded and 0 lost')
    expect(text.stdout).toContain('0.0003')
    const out = join(folder, 'rows.jsonl')
    expect(await answered('routes', 'export', 'tickets', '--out', out)).toMatchObject({ rows: 4 })
    const rows = (await readFile(out, 'utf8')).trimEnd().split('\n')
    expect(rows).toHaveLength(4)
    expect(rows.join('\n')).not.toContain('EMP-123456')
    await service.createModel('clerk')
    const job = await answered<{ id: string }>('train', 'sft', 'tests/clerk', '--file', out)
    expect((await service.waitForJob(job.id)).status).toBe('completed')
    const listed = await answered<{ data: Route[] }>('routes', 'list')
    expect(listed.data.map(({ name, calls }) => [name, calls])).toEqual([['tickets', 4]])
    expect((await run('routes', 'delete', 'tickets', '--yes')).exitCode).toBe(0)
    expect((await run('routes', 'get', 'tickets')).exitCode).toBe(3)
  })

  it('prices that are none are refused by name', async () => {
    const prices = join(folder, 'wrong.json')
    await writeFile(prices, JSON.stringify({ gpt: { input: '1' } }))
    const { stderr, exitCode } = await run('routes', 'get', 'tickets', '--prices', prices)
    expect(exitCode).toBe(2)
    expect(stderr).toContain('"gpt" must have the numbers input, output')
  })
})

describe('trainyard gateway', () => {
  it('starts a server with one route, which passes on without a key of ours, and ends it', async () => {
    const home = createHome()
    const flags = ['--upstream', upstream.url, '--data-dir', join(folder, 'own'), '--port', '0', '--json']
    const cli = startCli(['gateway', ...flags], { home: home.path, stdin: null })
    try {
      const line = await cli.waitForStdout(/"base_url":"[^"]+"/)
      const baseURL = String(/"base_url":"([^"]+)"/.exec(line)?.[1])
      const client = new OpenAI({ baseURL, apiKey: 'sk-0123456789abcdefghijkl' })
      const answer = await client.chat.completions.create({ model: 'gpt', messages: [{ role: 'user', content: 'Hi' }] })
      expect(answer.choices[0]?.message.content).toBe('Grüße, 世界 🌍!')
      cli.child.kill('SIGINT')
      await cli.finished
      await expect(fetch(`${baseURL}/models`)).rejects.toThrow()
    } finally {
      cli.child.kill('SIGKILL')
      home.remove()
    }
  })
})
