/**
 * A plugin of somebody else, outside of the package: an endpoint, a setting, a table, a command, an option of jobs and a page, on
 * SQLite and on PostgreSQL, and what becomes of its rows and its jobs without it.
 */
import { cpSync, mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { basename, join, resolve } from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { hasPostgres, type LocalPostgres, NO_POSTGRES, startPostgres } from '../../support/local-postgres.js'
import { type CliProcess, cli, startCli } from '../../support/service/cli-process.js'
import { until } from '../../support/until.js'

const ROOT = resolve(import.meta.dirname, '../../..')
const WORDS = { text: 'the answer is 42', expected: '42' }

let folder: string
let plugin: string
let postgres: LocalPostgres | null = null
beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), 'trainyard-plugin-'))
  mkdirSync(join(folder, 'node_modules'))
  symlinkSync(ROOT, join(folder, 'node_modules/trainyard'))
  writeFileSync(join(folder, 'package.json'), '{ "type": "module" }')
  plugin = join(folder, 'reward-service.js')
  for (const file of [plugin, join(folder, 'reward-page.js')]) cpSync(join(ROOT, 'test/examples', basename(file)), file)
  if (hasPostgres()) postgres = await startPostgres()
})
afterAll(async () => {
  await postgres?.stop()
  rmSync(folder, { recursive: true, force: true, maxRetries: 20 })
})

/** Equal rewards, one answer three words longer than the other. */
const GROUPS = [
  {
    trajectories: ['one', 'one two three four'].map((content) => ({
      reward: 1,
      messages_and_choices: [
        { role: 'user', content: 'Count' },
        { finish_reason: 'stop', message: { role: 'assistant', content } },
      ],
    })),
  },
]

interface Server {
  readonly process: CliProcess
  readonly url: string
  call(method: string, path: string, body?: object): Promise<{ status: number; body: Record<string, unknown> }>
  /** @returns what it logged */
  stop(): Promise<string>
}

async function serve(
  dataDir: string,
  flags: readonly string[],
  env: Readonly<Record<string, string>> = {},
): Promise<Server> {
  const base = ['--data-dir', dataDir, '--port', '0', '--base-model', 'trainyard/tiny-random', '--json']
  const process = startCli(['serve', ...base, ...flags], { home: folder, env })
  const { url } = JSON.parse((await process.waitForStdout(/\n/)).split('\n')[0] ?? '') as { url: string }
  const key = readFileSync(join(dataDir, 'api-key'), 'utf8').trim()
  return {
    process,
    url,
    call: async (method, path, body) => {
      const headers = { authorization: `Bearer ${key}`, 'content-type': 'application/json' }
      const answer = await fetch(`${url}${path}`, { method, headers, ...(body && { body: JSON.stringify(body) }) })
      return { status: answer.status, body: (await answer.json()) as Record<string, unknown> }
    },
    stop: async () => {
      process.child.kill('SIGTERM')
      return (await process.finished).stderr
    },
  }
}

interface Job {
  readonly id: string
  readonly status: string
  readonly error_code: string | null
  readonly error_message: string | null
  readonly resolved_config: Readonly<Record<string, unknown>>
}

/** Asks for a job on groups whose rewards are equal unless words cost something. */
async function askJob({ call }: Server, model: string, reward: object | null) {
  const experimental_config = { allow_training_without_logprobs: true, reward }
  return await call('POST', '/v1/preview/training-jobs', {
    model_id: model,
    trajectory_groups: GROUPS,
    experimental_config,
  })
}

async function trained(server: Server, model: string, reward: object | null): Promise<Job> {
  const { status, body } = await askJob(server, model, reward)
  expect([status, body]).toEqual([200, expect.anything()])
  return await untilEnded(server, String(body['id']))
}

async function jobOf({ call }: Server, id: string): Promise<Job> {
  return (await call('GET', `/v1/preview/training-jobs/${id}`)).body as never
}

async function untilEnded(server: Server, id: string): Promise<Job> {
  return await until(async () => {
    const job = await jobOf(server, id)
    return ['completed', 'failed'].includes(job.status) ? job : null
  }, `the end of job ${id}`)
}

async function startedEvent({ call }: Server, id: string): Promise<object> {
  const { body } = await call('GET', `/v1/preview/training-jobs/${id}/events`)
  const started = (body['data'] as { type: string; data: object }[]).find(({ type }) => type === 'training_started')
  return started?.data ?? {}
}

/** The module of its page, as the shell of the page names it. */
async function pageOf({ url }: Server): Promise<string> {
  const shell = await (await fetch(`${url}/ui/x/reward`)).text()
  const module = /x\/reward-0-[0-9A-F]{8}\.js/.exec(shell)?.[0] ?? 'none'
  return await (await fetch(`${url}/ui/assets/${module}`)).text()
}

/** What the command line says of a job with the option's flag, and of the list of options. */
async function planned({ url }: Server, dataDir: string): Promise<unknown> {
  const file = join(dataDir, 'groups.jsonl')
  writeFileSync(file, GROUPS.map((group) => `${JSON.stringify(group)}\n`).join(''))
  const key = readFileSync(join(dataDir, 'api-key'), 'utf8').trim()
  const env = { TRAINYARD_PLUGINS: plugin, TRAINYARD_URL: url, TRAINYARD_API_KEY: key }
  const listed = await cli(['train', 'options', 'rl', '--json'], { home: folder, env })
  expect(listed.stdout).toContain('word_cost')
  const words = ['train', 'rl', 'p/m', '--file', file, '--reward-word-cost', '0.1', '--plan', '--json']
  const { stdout, stderr } = await cli([...words, '--set', 'allow_training_without_logprobs=true'], {
    home: folder,
    env,
  })
  expect(stdout, stderr).not.toBe('')
  return JSON.parse(stdout)
}

/** Serves with the plugin, without it, and with it again. */
async function livesThrough(dataDir: string, flags: readonly string[]): Promise<void> {
  const server = await serve(dataDir, [...flags, '--plugin', plugin, '--reward-most-words', '3'])
  const { body: document } = await server.call('GET', '/openapi.json')
  expect(Object.keys(document['paths'] as object)).toContain('/v1/preview/reward/scores')
  const kept = await server.call('POST', '/v1/preview/reward/scores', WORDS)
  expect(kept).toMatchObject({ status: 200, body: { text: WORDS.text, reward: 0.5 } })
  expect((await server.call('POST', '/v1/preview/reward/scores', { text: 1 })).status).toBe(422)

  expect(await pageOf(server)).toBe(readFileSync(join(folder, 'reward-page.js'), 'utf8'))

  const named = { name: 'm', project: 'p', base_model: 'trainyard/tiny-random' }
  const model = String((await server.call('POST', '/v1/preview/models', named)).body['id'])
  const equal = await trained(server, model, null)
  expect(equal).toMatchObject({ status: 'completed', resolved_config: { reward: null } })
  expect(await startedEvent(server, equal.id)).toMatchObject({ num_sequences: 0 })
  const { status, body: refusal } = await askJob(server, model, { word_cost: 2 })
  expect([status, JSON.stringify(refusal)]).toEqual([422, expect.stringContaining('reward.word_cost')])
  const told = await trained(server, model, { word_cost: '0.1' })
  expect(told).toMatchObject({ status: 'completed', resolved_config: { reward: { word_cost: 0.1 } } })
  expect(await startedEvent(server, told.id)).toMatchObject({ num_sequences: 1, num_rewards_by_plugins: 2 })
  expect(await planned(server, dataDir)).toMatchObject({
    resolved_config: { reward: { word_cost: 0.1 } },
    groups: [{ advantages: [1.5, -1.5].map((size) => expect.closeTo(size / 1.5)), left_out: null }],
  })
  await server.stop()

  const queueing = await serve(dataDir, [...flags, '--plugin', plugin, '--train-workers', '0'])
  const left = String((await askJob(queueing, model, { word_cost: 0.1 })).body['id'])
  expect(await jobOf(queueing, left)).toMatchObject({ status: 'queued' })
  await queueing.stop()

  const without = await serve(dataDir, flags)
  expect(await untilEnded(without, left)).toMatchObject({
    status: 'failed',
    error_code: 'plugin_missing',
    error_message: expect.stringContaining('the plugin "reward", which is not loaded where it trains'),
  })
  expect((await without.call('GET', '/v1/preview/reward/scores')).status).toBe(404)
  const logged = await without.stop()
  expect(logged).toContain('plugin.removed')
  expect(logged).toContain('"plugins":["reward"]')

  const again = await serve(dataDir, flags, { TRAINYARD_PLUGINS: plugin })
  expect((await again.call('GET', '/v1/preview/reward/scores')).body).toEqual({ data: [kept.body] })
  await again.stop()
}

describe('a plugin outside of the package', () => {
  test('is served on SQLite; without it its rows stay', async () => {
    const dataDir = join(folder, 'sqlite')
    await livesThrough(dataDir, [])
    // what its rows name is not known without it
    const refused = await cli(['backup', '--out', join(folder, 'b.tar'), '--data-dir', dataDir], { home: folder })
    expect([refused.exitCode === 0, refused.stderr]).toEqual([false, expect.stringContaining('plugin "reward"')])
    const env = { TRAINYARD_PLUGINS: plugin }
    const made = await cli(['backup', '--out', join(folder, 'b.tar'), '--data-dir', dataDir], { home: folder, env })
    expect([made.exitCode, made.stderr]).toEqual([0, expect.anything()])
  })

  test.skipIf(!hasPostgres())(`is served on PostgreSQL${hasPostgres() ? '' : `: ${NO_POSTGRES}`}`, async () => {
    const database = await postgres?.createDatabase()
    await livesThrough(join(folder, 'postgres'), ['--database', database ?? '', '--single-server'])
  })

  test('adds its setting and its command where the configuration file names it', async () => {
    const config = join(folder, '.config/trainyard/config.json')
    mkdirSync(join(folder, '.config/trainyard'), { recursive: true })
    writeFileSync(config, JSON.stringify({ plugins: [plugin], 'reward-most-words': 7 }))
    try {
      const help = await cli(['serve', '--help'], { home: folder })
      expect(help.stdout).toContain('--reward-most-words <n>')
      expect((await cli(['help', 'all'], { home: folder })).stdout).toContain('Say what a reward is given for')
      const train = await cli(['train', 'rl', '--help'], { home: folder })
      expect(train.stdout).toContain('--reward-word-cost <x>')
      const set = JSON.parse((await cli(['config', 'list', '--json'], { home: folder })).stdout) as { key: string }[]
      expect(set).toContainEqual(expect.objectContaining({ key: 'reward-most-words', value: '7', source: 'file' }))
      const said = await cli(['reward', 'say', '42', '--json'], { home: folder })
      expect(JSON.parse(said.stdout)).toEqual({ expected: '42' })
    } finally {
      rmSync(config)
    }
  })

  test.each<[string, string, string]>([
    ['no module', 'not JavaScript', 'cannot be loaded'],
    ['nothing', 'export const other = 1', 'expected an export "plugin"'],
    ['a name of nobody', "export const plugin = { name: 'A B' }", 'its name must be'],
    ['what there is not', "export const plugin = { name: 'a', tabels: 1 }", 'unknown member "tabels"'],
    [
      'a setting of others',
      "export const plugin = { name: 'a', settings: { x: { key: 'port' } } }",
      'must begin with "a-"',
    ],
    ['what is not there', "export const plugin = { name: 'a', needs: ['b'] }", 'needs the plugin "b"'],
    [
      'a page that is nowhere',
      "export const plugin = { name: 'a', pages: [{ pattern: '', section: 'A', module: new URL('file:///no/such.js') }] }",
      'the module of its page "A" cannot be read',
    ],
    [
      'a page without a module',
      "export const plugin = { name: 'a', pages: [{ pattern: '', section: 'A' }] }",
      'the page "A" needs a module',
    ],
    [
      'options of no effect',
      "export const plugin = { name: 'a', jobOptions: { rl: { rows: { x: { type: 'boolean', default: false, summary: 'x' } } } } }",
      'needs a function "rewards"',
    ],
    [
      'an endpoint of the core',
      `export const plugin = { name: 'a', handlers: async () => ({}), endpoints: async () => ({ runs: [
        { after: 'GET /v1/whoami', rows: { 'GET /v1/models': { scope: 'read' } } }] }) }`,
      'endpoint "GET /v1/models" is served already',
    ],
    [
      'a table of others',
      "export const plugin = { name: 'a', tables: async () => ({ tables: { models: {} } }) }",
      'begin with "a_"',
    ],
  ])('that has %s is refused by a check', async (_, source, message) => {
    const file = join(folder, 'broken.mjs')
    writeFileSync(file, source)
    const { exitCode, stderr } = await cli(['serve', '--check', '--plugin', file], { home: folder })
    expect([exitCode, stderr]).toEqual([2, expect.stringContaining(message)])
  })

  test('that is whole passes a check, which leaves nothing', async () => {
    const checked = await cli(['serve', '--check', '--plugin', plugin, '--json'], { home: folder })
    expect([checked.exitCode, checked.stderr]).toEqual([0, ''])
    expect(JSON.parse(checked.stdout)).toMatchObject({
      ok: true,
      plugins: expect.arrayContaining(['reward', 'webhooks']),
    })
  })
})
