/**
 * A plugin of somebody else, outside of the package: an endpoint, a setting, a table and a command, on SQLite and on PostgreSQL, and what becomes
 * of its rows without it.
 */
import { cpSync, mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { hasPostgres, type LocalPostgres, NO_POSTGRES, startPostgres } from '../../support/local-postgres.js'
import { type CliProcess, cli, startCli } from '../../support/service/cli-process.js'

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
  cpSync(join(ROOT, 'test/examples/reward-service.js'), plugin)
  if (hasPostgres()) postgres = await startPostgres()
})
afterAll(async () => {
  await postgres?.stop()
  rmSync(folder, { recursive: true, force: true, maxRetries: 20 })
})

interface Server {
  readonly process: CliProcess
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

/** Serves with the plugin, without it, and with it again. */
async function livesThrough(dataDir: string, flags: readonly string[]): Promise<void> {
  const server = await serve(dataDir, [...flags, '--plugin', plugin, '--reward-most-words', '3'])
  const { body: document } = await server.call('GET', '/openapi.json')
  expect(Object.keys(document['paths'] as object)).toContain('/v1/preview/reward/scores')
  const kept = await server.call('POST', '/v1/preview/reward/scores', WORDS)
  expect(kept).toMatchObject({ status: 200, body: { text: WORDS.text, reward: 0.5 } })
  expect((await server.call('POST', '/v1/preview/reward/scores', { text: 1 })).status).toBe(422)
  await server.stop()

  const without = await serve(dataDir, flags)
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
    const refused = await cli(['backup', join(folder, 'b.tar'), '--data-dir', dataDir], { home: folder })
    expect([refused.exitCode === 0, refused.stderr]).toEqual([false, expect.stringContaining('plugin "reward"')])
    const env = { TRAINYARD_PLUGINS: plugin }
    const made = await cli(['backup', join(folder, 'b.tar'), '--data-dir', dataDir], { home: folder, env })
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
      expect((await cli(['--help'], { home: folder })).stdout).toContain('Say what a reward is given for')
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
