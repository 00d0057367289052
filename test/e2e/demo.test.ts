/**
 * `trainyard demo` as a newcomer runs it: without a server, with one, as a script, and stopped half-way.
 */
import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { DEFAULT_SERVER_URL } from '../../src/contract/settings/service.js'
import { type CliProcess, cli, createHome, startCli } from '../support/service/cli-process.js'
import { isAlive } from '../support/service/is-alive.js'
import { runCli } from '../support/service/run-cli.js'
import { until } from '../support/until.js'

const BASE = ['--base-model', 'trainyard/tiny-random', '--seed', '1']
/** Where a machine is busy, the least is still done: one round and its measurements. */
const SHORT = [...BASE, '--sft', '--task', 'brief', '--steps', '1']

function lines(text: string): readonly Record<string, unknown>[] {
  return text
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line) as Record<string, unknown>)
}

/** The process that has the home's data directory open as a server, from the records of running servers. */
function recordedServers(home: string): string {
  return join(home, '.local', 'state', 'trainyard', 'servers')
}

describe('without a server', () => {
  const home = createHome()
  // Some other server may hold the default port of this machine; this one is of nobody.
  const env = { TRAINYARD_LOG: 'error', TRAINYARD_BASE_MODELS: 'trainyard/tiny-random' }
  afterAll(() => home.remove())

  test('it brings its own, trains, says how to go on, and stops it; the model is there the next time', async () => {
    const dataDir = join(home.path, 'data')
    const byNpx = { ...env, npm_command: 'exec', npm_lifecycle_script: 'trainyard' }
    const run = await cli(['demo', ...SHORT, '--data-dir', dataDir, '--json'], { home: home.path, env: byNpx })
    expect(run.exitCode, run.stderr).toBe(0)
    const events = lines(run.stdout)
    expect(events[0]).toMatchObject({
      object: 'demo.started',
      kind: 'sft',
      task: 'brief',
      model: 'demo-brief-1',
      seed: 1,
    })
    expect(events[1]).toMatchObject({ object: 'demo.measured', step: 0 })
    expect(events.filter((event) => event['object'] === 'demo.gradient_step').length).toBeGreaterThan(0)
    const end = events.at(-1)
    expect(end).toMatchObject({
      object: 'demo.finished',
      step: 1,
      start_command: `npx trainyard serve --data-dir ${dataDir}`,
    })
    expect(end?.['next']).toEqual([
      expect.stringMatching(/^npx trainyard chat demo-brief-1 /),
      expect.stringMatching(/^npx trainyard ui demo-brief-1 /),
      'npx trainyard checkpoints list demo-brief-1',
      expect.stringMatching(/^npx trainyard help files /),
    ])
    expect(existsSync(join(dataDir, 'api-key'))).toBe(true)
    const again = await cli(['demo', ...SHORT, '--data-dir', dataDir, '--quiet'], { home: home.path, env })
    expect(again.exitCode, again.stderr).toBe(0)
    expect(again.stdout).toMatch(/^[0-9a-f-]{36}\n$/)
  })

  test('Ctrl-C stops it and its server, with 130 and a word about the model', async () => {
    const dataDir = join(home.path, 'stopped')
    const demo = startCli(
      ['demo', ...BASE, '--sft', '--task', 'brief', '--steps', '99', '--max-seconds', '9999', '--data-dir', dataDir],
      {
        home: home.path,
        env,
      },
    )
    await demo.waitForStdout(/\n {2}1 /)
    const records = recordedServers(home.path)
    const pids = existsSync(records)
      ? readRecords(records).flatMap((record) => (typeof record['pid'] === 'number' ? [record['pid']] : []))
      : []
    expect(pids).toHaveLength(1)
    demo.child.kill('SIGINT')
    const { exitCode, stderr } = await demo.finished
    expect(exitCode).toBe(130)
    expect(stderr).toContain('Stopped. Model demo-brief-1 keeps the checkpoints it has.')
    await until(() => !pids.some(isAlive), 'the end of its server')
  })
})

describe('with a server', () => {
  const home = createHome()
  let server: CliProcess
  let url = ''
  beforeAll(async () => {
    const dataDir = join(home.path, 'data')
    const argv = ['serve', '--json', '--port', '0', '--data-dir', dataDir, '--base-model', 'trainyard/tiny-random']
    server = startCli([...argv, '--log-level', 'warn'], { home: home.path })
    url = (JSON.parse((await server.waitForStdout(/\n/)).trim()) as { url: string }).url
  })
  afterAll(async () => {
    server.child.kill('SIGTERM')
    await server.finished
    home.remove()
  })

  test('it uses that one and leaves it running; plain lines, a chart, samples, the gain, three commands', async () => {
    const run = await cli(['demo', ...SHORT, '--server', url], { home: home.path })
    expect(run.exitCode, run.stderr).toBe(0)
    expect(run.stderr).toBe('')
    expect(run.stdout).not.toContain('\u001b')
    expect(run.stdout).toContain(
      'Task brief: teach demo-brief-1 (from trainyard/tiny-random) to reply in at most 4 words, by fine-tuning',
    )
    expect(run.stdout).toMatch(/\n {2}step +reward +held out +loss/)
    expect(run.stdout).toMatch(/\n {2}0 +- +0\.\d{3}/)
    expect(run.stdout).toMatch(/\n {2}1 +- +0\.\d{3} +\d/)
    expect(run.stdout).toContain('Held-out reward by step\n  1.00 ')
    expect(run.stdout).toMatch(/\nHeld-out reward 0\.\d\d to [01]\.\d\d \([+-][01]\.\d\d\) after 1 step and /)
    expect(run.stdout).toContain(`Go on with\n  trainyard chat demo-brief-1 'I am sad today.' --server ${url}\n`)
    expect(run.stdout, 'what it shows next runs without a file that nobody has').not.toContain('--file')
    expect(run.stdout).not.toContain('trainyard serve')
    expect((await cli(['models', 'get', 'demo-brief-1', '--server', url], { home: home.path })).exitCode).toBe(0)
  })
  test('reinforcement learning with nothing to learn from says so and trains nothing', async () => {
    const run = await cli(['demo', ...BASE, '--steps', '9', '--json', '--server', url], { home: home.path })
    expect(run.exitCode, run.stderr).toBe(0)
    expect(lines(run.stdout).at(-1)).toMatchObject({ object: 'demo.finished', reason: 'nothing_to_learn', step: 0 })
  })
  test('a base model that is not there is exit 3, an unknown task exit 2; no model is left behind', async () => {
    const missing = await cli(['demo', '--base-model', 'no/such', '--task', 'brief', '--server', url], {
      home: home.path,
    })
    expect(missing.exitCode).toBe(3)
    expect(missing.stderr).toContain('error: base model "no/such" is not served by')
    expect((await cli(['demo', '--task', 'no-such'], { home: home.path })).exitCode).toBe(2)
    const models = await cli(['models', 'list', '--json', '--server', url], { home: home.path })
    expect(models.stdout).not.toContain('demo-brief-2')
  })
  test('that takes no key of ours it is left alone, and the demo brings its own', async () => {
    const listed = () => cli(['models', 'list', '--json', '--server', url], { home: home.path })
    const before = await listed()
    const own = createHome()
    try {
      const run = await runCli(['demo', ...SHORT], {
        env: { PATH: process.env['PATH'] ?? '', HOME: own.path, TRAINYARD_BASE_MODELS: 'trainyard/tiny-random' },
        // it is at the default address, which somebody else of this machine may hold
        fetch: (to, init) => fetch(to.replace(DEFAULT_SERVER_URL, url), init),
      })
      expect(run.exitCode, run.stderr).toBe(0)
      expect(run.stderr).toContain(`${DEFAULT_SERVER_URL} is a server that takes no key of yours: it is left alone`)
      expect(run.stdout).toMatch(/\nHeld-out reward .* after 1 step and /)
      expect(run.stdout).toContain('trainyard serve')
      expect(await listed()).toEqual(before)
    } finally {
      own.remove()
    }
  })
})

function readRecords(folder: string): readonly Record<string, unknown>[] {
  return readdirSync(folder).map(
    (name) => JSON.parse(readFileSync(join(folder, name), 'utf8')) as Record<string, unknown>,
  )
}
