/**
 * A person's first hour with the command line, against the real service on the built-in model: every step through the binary.
 */
import { spawnSync } from 'node:child_process'
import { closeSync, existsSync, openSync, readFileSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import type { ZodType } from 'zod'
import { usableCores } from '../../src/base/machine/cores.js'
import { chatResponseSchema } from '../../src/contract/wire/chat-completions.js'
import { checkpointListSchema } from '../../src/contract/wire/checkpoints.js'
import { modelListSchema, modelSchema } from '../../src/contract/wire/models.js'
import {
  trainingEventListSchema,
  trainingJobListSchema,
  trainingJobSchema,
} from '../../src/contract/wire/training-jobs.js'
import { type CliProcess, cli, createHome, type Finished, startCli } from '../support/service/cli-process.js'
import { unassignedPort } from '../support/service/unassigned-port.js'

/** Four times what it is: a library that is loaded for nothing shows, a slow machine does not. */
const MOST_HELP_MS = 400

const home = createHome()
const dataDir = join(home.path, 'data')
let server: CliProcess
let url = ''
/** What the server wrote on stderr. */
let said = ''
let ready: {
  readonly url: string
  readonly api_key_file: string
  readonly api_key: string | null
  readonly pid: number
}

async function startServer(port = '0'): Promise<void> {
  server = startCli(['serve', '--json', '--port', port, '--data-dir', dataDir, '--log-level', 'warn'], {
    home: home.path,
  })
  server.child.stderr.on('data', (text: unknown) => {
    said += String(text)
  })
  const line = (await server.waitForStdout(/\n/)).trim()
  ready = JSON.parse(line) as typeof ready
  url = ready.url
}
function run(argv: readonly string[], stdin?: string): Promise<Finished> {
  return cli(argv, { home: home.path, env: { TRAINYARD_URL: url }, ...(stdin === undefined ? {} : { stdin }) })
}
async function json<T>(argv: readonly string[], stdin?: string): Promise<T> {
  const result = await run([...argv, '--json'], stdin)
  if (result.exitCode !== 0) throw new Error(`${argv.join(' ')} ended with ${result.exitCode}: ${result.stderr}`)
  return JSON.parse(result.stdout) as T
}

// a port that the system gives to nobody by itself: it is still free when the server is started again
beforeAll(async () => startServer(String(await unassignedPort())))
afterAll(async () => {
  server.child.kill('SIGTERM')
  await server.finished
  home.remove()
})

describe('serve', () => {
  test('prints one JSON line when ready, with the key once; stderr has no part of it', async () => {
    expect(ready).toMatchObject({ url: expect.stringMatching(/^http:\/\/127\.0\.0\.1:\d+$/), pid: server.child.pid })
    expect(ready.api_key_file).toBe(join(dataDir, 'api-key'))
    expect(statSync(ready.api_key_file).mode & 0o777).toBe(0o600)
    const stored = readFileSync(ready.api_key_file, 'utf8').trim()
    expect(stored.length).toBeGreaterThanOrEqual(40)
    expect(ready.api_key).toBe(stored)
    expect(said).not.toContain(stored)
  })
  test('the command line finds the key of a local server by itself; another home does not', async () => {
    expect(await json(['whoami'])).toMatchObject({ authenticated: true, api_key: { source: 'local' } })
    const stranger = createHome()
    const { exitCode } = await cli(['models', 'list'], { home: stranger.path, env: { TRAINYARD_URL: url } })
    stranger.remove()
    expect(exitCode).toBe(4)
  })
  test('a second server on the same data directory is exit 5, a taken port exit 1 or 5, with a hint', async () => {
    const second = await run(['serve', '--port', '0', '--data-dir', dataDir])
    expect(second.exitCode).toBe(5)
    const other = await run(['serve', '--port', new URL(url).port, '--data-dir', join(home.path, 'other')])
    expect([1, 5]).toContain(other.exitCode)
    expect(other.stderr).toContain('--port')
  })
})

describe('serve without what it needs, and beside what there is', () => {
  const broken = { NODE_OPTIONS: `--require ${join(import.meta.dirname, '../support/stand-ins/no-sqlite-binary.cjs')}` }

  test('a database binary that does not load is named with what makes it, and nothing is written', async () => {
    const folder = join(home.path, 'never')
    const { stderr, exitCode } = await cli(['serve', '--port', '0', '--data-dir', folder], {
      home: home.path,
      env: broken,
    })
    expect(stderr).toMatch(
      /SQLite \(.*\) has no binary that Node\.js [\d.]+ can load\n.*(?:Node\.js 22 or later.*npm rebuild|optional packages)/,
    )
    expect(exitCode).toBe(1)
    expect(existsSync(folder)).toBe(false)
  })
  test('a database package that npm left out is said to be missing, with what shows why', async () => {
    const standIn = join(import.meta.dirname, '../support/stand-ins/no-sqlite-package.cjs')
    const { stderr, exitCode } = await cli(['serve', '--port', '0', '--data-dir', join(home.path, 'never')], {
      home: home.path,
      env: { NODE_OPTIONS: `--require ${standIn}` },
    })
    expect(stderr).toMatch(/SQLite \(.*\) is not installed; npm leaves it out/)
    expect(stderr).toMatch(/--foreground-scripts|not --omit=optional/)
    expect(stderr, 'a name that nobody owns on the registry').not.toContain('better-sqlite3-12')
    expect(stderr, 'there is nothing that could be rebuilt').not.toContain('npm rebuild')
    expect(exitCode).toBe(1)
  })
  test('system-check finds the same before a server is started', async () => {
    const options = { home: home.path, env: broken }
    const { stdout, exitCode } = await cli(['system-check', '--local-only', '--json'], options)
    const { checks } = JSON.parse(stdout) as { checks: { name: string; status: string; hint: string | null }[] }
    expect(checks.filter(({ status }) => status === 'fail')).toMatchObject([
      { name: 'sqlite', hint: expect.stringMatching(/npm rebuild --foreground-scripts|optional packages/) },
    ])
    expect(checks.map(({ name }) => name)).toContain('gradients')
    expect(exitCode).toBe(1)
  })
  test('the banner says how many models there are, and what computes', async () => {
    const argv = ['serve', '--port', '0', '--data-dir', join(home.path, 'banner'), '--threads', '1']
    const { child, finished } = startCli(argv, { home: home.path })
    child.stderr.on('data', (text: string) => {
      if (text.includes('Press Ctrl-C')) child.kill('SIGTERM')
    })
    const { stderr } = await finished
    expect(stderr).toMatch(
      /Data +\S+\n +0 models, 1 base model\n +Device +CPU, 1 thread, precision auto\n +Jobs +[^\n]+\n/,
    )
    expect(stderr).toContain(`  Jobs    ${Math.min(2, usableCores())} at once, as memory allows (--train-workers)\n`)
    expect(stderr).not.toContain('warning:')
  })
  test('more threads than cores are taken, and a warning names the cores', async () => {
    const threads = usableCores() + 1
    const argv = ['serve', '--port', '0', '--data-dir', join(home.path, 'crowd'), '--threads', `${threads}`, '--json']
    const { child, finished } = startCli(argv, { home: home.path })
    child.stdout.on('data', (text: string) => {
      if (text.includes('listening')) child.kill('SIGTERM')
    })
    const { stderr } = await finished
    const warning = stderr.slice(stderr.indexOf('warning:')).replaceAll(/\s+/g, ' ')
    expect(warning).toMatch(new RegExp(`^warning: ${threads} threads are more than the ${threads - 1} cores? `))
  })
})

describe('the daily loop', () => {
  const rows = Array.from({ length: 8 }, (_, i) =>
    JSON.stringify({
      messages: [
        { role: 'user', content: `say ${i % 2}` },
        { role: 'assistant', content: i % 2 === 0 ? 'zero' : 'one' },
      ],
    }),
  ).join('\n')
  let jobId = ''

  test('models create, list, get', async () => {
    const [base] = (await json<{ data: { id: string }[] }>(['base-models', 'list'])).data
    expect(base?.id).toBe('trainyard/spark')
    const model = await json<{ id: string; name: string; step: number }>([
      'models',
      'create',
      'first',
      '--base-model',
      'trainyard/spark',
    ])
    expect(model).toMatchObject({ name: 'first', step: 0 })
    expect((await run(['models', 'create', 'first', '--base-model', 'trainyard/spark'])).exitCode).toBe(5)
    expect(
      (await run(['models', 'create', 'first', '--base-model', 'trainyard/spark', '--if-not-exists', '-q'])).stdout,
    ).toBe(`${model.id}\n`)
    expect((await run(['models', 'list', '-q'])).stdout).toContain(model.id)
    expect(await json(['models', 'get', 'local/default/first'])).toMatchObject({ id: model.id })
    expect((await run(['models', 'create', 'x', '--base-model', 'no/such-model'])).exitCode).toBe(2)
  })
  test('chat before training, streamed, from arguments and from a pipe', async () => {
    const argv = ['chat', 'first', 'hello', '--max-tokens', '8', '--temperature', '0', '--seed', '1']
    const streamed = await run(argv)
    expect(streamed.exitCode).toBe(0)
    const whole = await json<{ choices: { message: { content: string } }[] }>(argv)
    expect(streamed.stdout).toBe(whole.choices[0]?.message.content)
    const base = await run(['chat', 'trainyard/spark', '--max-tokens', '4'], 'from a pipe')
    expect(base.exitCode).toBe(0)
  })
  test('a program that starts chat with a prompt and leaves standard input open gets its answer', async () => {
    const argv = ['chat', 'trainyard/spark', 'Hello', '--max-tokens', '4']
    const open = await cli(argv, { home: home.path, env: { TRAINYARD_URL: url }, stdin: null })
    expect(open).toMatchObject({ exitCode: 0, stderr: expect.stringContaining('asking without it') })
    expect(open.stdout).not.toBe('')
    const written = await run([...argv, '--temperature', '0', '--json'], 'a word')
    expect(written).toMatchObject({ exitCode: 0, stderr: '' })
  })
  test('train sft --watch ends with its checkpoint', async () => {
    const path = join(home.path, 'rows.jsonl')
    writeFileSync(path, rows)
    const { stdout, stderr, exitCode } = await run([
      'train',
      'sft',
      'first',
      '--file',
      path,
      ...['--batch-size', '4', '--learning-rate', '0.001', '--epochs', '1'],
      '--watch',
      '--json',
    ])
    expect(exitCode, stderr).toBe(0)
    const lines = stdout
      .trimEnd()
      .split('\n')
      .map((line) => JSON.parse(line) as Record<string, unknown>)
    jobId = String(lines[0]?.['id'])
    expect(lines.map((line) => line['type'] ?? line['status'])).toEqual([
      'queued',
      'training_started',
      'gradient_step',
      'gradient_step',
      'training_ended',
      'completed',
    ])
    expect(lines.at(-1)).toMatchObject({ id: jobId, step: 1 })
  })
  test('the new checkpoint is listed, answers, and downloads as a PEFT folder', async () => {
    const page = await json<{ data: { step: number }[] }>(['checkpoints', 'list', 'first', '--order', 'desc'])
    expect(page.data[0]?.step).toBe(1)
    const answer = await json<{ system_fingerprint: string }>(['chat', 'first:step1', 'say 1', '--max-tokens', '4'])
    expect(answer.system_fingerprint).toContain('step1')
    expect((await run(['chat', 'first:step9', 'hi'])).exitCode).toBe(3)
    const saved = await json<{ path: string; files: { name: string }[] }>([
      'checkpoints',
      'download',
      'first',
      '--out',
      home.path,
    ])
    expect(existsSync(join(saved.path, 'adapter_model.safetensors'))).toBe(true)
    expect(JSON.parse(readFileSync(join(saved.path, 'adapter_config.json'), 'utf8'))).toHaveProperty(
      'peft_type',
      'LORA',
    )
    expect((await run(['checkpoints', 'download', 'first', '--out', home.path])).exitCode).toBe(5)
  })
  test('log attaches averages to the checkpoint', async () => {
    const group = {
      trajectories: [
        {
          messages_and_choices: [
            { role: 'user', content: 'q' },
            { role: 'assistant', content: 'a' },
          ],
          reward: 0.5,
        },
      ],
    }
    expect(await json(['log', 'first', '--file', '-'], JSON.stringify(group))).toMatchObject({
      step: 1,
      metrics: { 'val/reward': 0.5 },
    })
    expect((await run(['checkpoints', 'list', 'first', '--metrics', 'val/reward'])).stdout).toMatch(/1\t0\.5\t/)
  })
  test('train rl from sampled answers, submitted without waiting, then waited for', async () => {
    const sampled = await json<{ choices: { index: number }[] }>([
      'chat',
      'first',
      'say 1',
      '-n',
      '4',
      '--max-tokens',
      '6',
      '--seed',
      '7',
    ])
    const trajectories = sampled.choices.map((choice) => ({
      messages_and_choices: [{ role: 'user', content: 'say 1' }, choice],
      reward: choice.index % 2,
    }))
    const path = join(home.path, 'groups.jsonl')
    writeFileSync(path, `${JSON.stringify({ trajectories })}\n`)
    const submitted = await run(['train', 'rl', 'first', '--file', path, '--learning-rate', '1e-4', '-q'])
    expect(submitted.exitCode, submitted.stderr).toBe(0)
    const waited = await run(['jobs', 'wait', submitted.stdout.trim(), '--wait-timeout', '2m'])
    expect(waited.stdout).toBe(`${submitted.stdout.trim()}\tcompleted\tcheckpoint step 2\n`)
    const equal = trajectories.map((trajectory) => ({ ...trajectory, reward: 1 }))
    const refused = await run(['train', 'rl', 'first', '--file', '-'], JSON.stringify({ trajectories: equal }))
    expect(refused.exitCode, refused.stderr).toBe(2)
    expect(
      (await run(['train', 'rl', 'first', '--file', '-', '--allow-empty'], JSON.stringify({ trajectories: equal })))
        .exitCode,
    ).toBe(0)
  })
  test('jobs list, get, events; a finished job cannot be cancelled', async () => {
    expect((await run(['jobs', 'list', '--model', 'first'])).stdout.trimEnd().split('\n')).toHaveLength(2)
    expect(await json(['jobs', 'get', jobId])).toMatchObject({ id: jobId, status: 'completed', step: 1 })
    const events = await json<{ data: { type: string }[] }>(['jobs', 'events', jobId])
    expect(events.data.map((event) => event.type)).toEqual([
      'training_started',
      'gradient_step',
      'gradient_step',
      'training_ended',
    ])
    const followed = await run(['jobs', 'events', jobId, '--follow'])
    expect(followed.exitCode).toBe(0)
    expect(followed.stdout).toContain('checkpoint step 1 saved')
    expect((await run(['jobs', 'cancel', jobId, '--yes'])).exitCode).toBe(5)
  })
  test('checkpoints delete keeps what a rule names; models delete needs --yes and removes everything', async () => {
    expect((await run(['checkpoints', 'delete', 'first', '--keep', 'latest'])).exitCode).toBe(2)
    const deleted = await run(['checkpoints', 'delete', 'first', '--keep', 'latest', '--yes', '--json'])
    expect(JSON.parse(deleted.stdout)).toEqual({ deleted_count: 1, not_found_steps: [], in_use_steps: [] })
    expect((await run(['models', 'delete', 'first'])).exitCode).toBe(2)
    expect((await run(['models', 'delete', 'first', '--yes'])).stdout).toBe('Deleted model first\n')
    expect((await run(['models', 'get', 'first'])).exitCode).toBe(3)
  })
})

describe('machine output', () => {
  test('is what the wire schemas promise, field for field', async () => {
    await run(['models', 'create', 'shape', '--base-model', 'trainyard/spark'])
    const path = join(home.path, 'one.jsonl')
    writeFileSync(
      path,
      JSON.stringify({
        messages: [
          { role: 'user', content: 'q' },
          { role: 'assistant', content: 'a' },
        ],
      }),
    )
    const job = await json<{ id: string }>(['train', 'sft', 'shape', '--file', path])
    await run(['jobs', 'wait', job.id])
    const outputs: readonly (readonly [ZodType, readonly string[]])[] = [
      [modelListSchema, ['models', 'list']],
      [modelSchema, ['models', 'get', 'shape']],
      [checkpointListSchema, ['checkpoints', 'list', 'shape']],
      [trainingJobListSchema, ['jobs', 'list']],
      [trainingJobSchema, ['jobs', 'get', job.id]],
      [trainingEventListSchema, ['jobs', 'events', job.id]],
      [chatResponseSchema, ['chat', 'shape', 'q', '--max-tokens', '2']],
    ]
    for (const [schema, argv] of outputs) expect(schema.parse(await json(argv)), argv.join(' ')).toBeTruthy()
  })
})

describe('processes', () => {
  test('a reader that has enough ends the command quietly', async () => {
    const child = startCli(['help', 'environment'], { home: home.path })
    child.child.stdout.destroy()
    expect(await child.finished).toMatchObject({ stderr: '', exitCode: 0 })
  })
  test('Ctrl-C while watching detaches with 130 and leaves the job running', async () => {
    await run(['models', 'create', 'watched', '--base-model', 'trainyard/spark'])
    const row = JSON.stringify({
      messages: [
        { role: 'user', content: 'q' },
        { role: 'assistant', content: 'long '.repeat(40) },
      ],
    })
    const path = join(home.path, 'many.jsonl')
    writeFileSync(path, Array(4000).fill(row).join('\n'))
    const watching = startCli(['train', 'sft', 'watched', '--file', path, '--batch-size', '1', '--watch'], {
      home: home.path,
      env: { TRAINYARD_URL: url },
    })
    const text = await watching.waitForStdout(/Submitted job/)
    const id = /job (\S+)/.exec(text)?.[1] ?? ''
    watching.child.kill('SIGINT')
    const end = await watching.finished
    expect(end.exitCode).toBe(130)
    expect(end.stderr).toContain(`Detached from job ${id}; it keeps running.`)
    expect(await json(['jobs', 'get', id])).not.toMatchObject({ status: 'cancelled' })
    expect((await run(['jobs', 'cancel', id, '--yes'])).exitCode).toBe(0)
    expect((await run(['jobs', 'events', id, '--follow'])).exitCode).toBe(7)
  })
  test('system-check passes on a healthy machine', async () => {
    const { stdout, stderr, exitCode } = await run(['system-check', '--json'])
    expect(exitCode, stdout + stderr).toBe(0)
    expect(JSON.parse(stdout)).toMatchObject({ ok: true })
  })
  test.each(['SIGTERM', 'SIGHUP'] as const)('serve stops cleanly on %s and its record goes with it', async (name) => {
    server.child.kill(name)
    expect(await server.finished).toMatchObject({ exitCode: 0 })
    expect((await run(['models', 'list'])).exitCode).toBe(6)
    await startServer(new URL(url).port)
    expect((await run(['models', 'list', '-q'])).exitCode).toBe(0)
    expect(readFileSync(ready.api_key_file, 'utf8').trim().length).toBeGreaterThanOrEqual(40)
    expect(ready.api_key, 'only the first start tells it').toBeNull()
  })
})

describe('stopping', () => {
  test('a restart loses nothing: the job goes on, and who follows it sees its end', async () => {
    await run(['models', 'create', 'long', '--base-model', 'trainyard/spark'])
    const row = JSON.stringify({
      messages: [
        { role: 'user', content: 'q' },
        { role: 'assistant', content: 'long '.repeat(40) },
      ],
    })
    const path = join(home.path, 'long.jsonl')
    let isStopped = false
    // a machine that holds this process up may let a job end before the server is stopped: then one that takes longer is tried
    for (let count = 60; !isStopped && count < 1000; count *= 2) {
      writeFileSync(path, Array(count).fill(row).join('\n'))
      const submitted = await run(['train', 'sft', 'long', '--file', path, '--batch-size', '1', '-q'])
      const id = submitted.stdout.trim()
      const follower = startCli(['jobs', 'events', id, '--follow', '--json'], {
        home: home.path,
        env: { TRAINYARD_URL: url },
      })
      await follower.waitForStdout(/training_started/)
      server.child.kill('SIGINT')
      expect(await server.finished).toMatchObject({ exitCode: 0 })
      await startServer(new URL(url).port)
      const { attempt, status } = await json<{ attempt: number; status: string }>(['jobs', 'get', id])
      isStopped = attempt > 1 || status !== 'completed'
      const { stdout, exitCode } = await follower.finished
      expect(exitCode).toBe(0)
      const lines = stdout
        .trimEnd()
        .split('\n')
        .map((line) => JSON.parse(line) as { id: string; type?: string; status?: string })
      expect(new Set(lines.map((line) => line.id)).size).toBe(lines.length)
      expect(lines.filter((line) => line.type === 'training_ended')).toHaveLength(1)
      expect(lines.at(-1)).toMatchObject({ id, status: 'completed' })
    }
    // it did not wait for the end of the job
    expect(isStopped).toBe(true)
  })
})

describe('speed', () => {
  test('help loads what it needs: processor time, best of twenty', async () => {
    const count = 'process.on("exit", () => process._rawDebug(JSON.stringify(process.cpuUsage())))'
    const NODE_OPTIONS = `--import data:text/javascript,${encodeURIComponent(count)}`
    let leastMs = Number.POSITIVE_INFINITY
    for (let i = 0; i < 20 && leastMs >= MOST_HELP_MS; i += 1) {
      const { stderr } = await cli(['--help'], { home: home.path, env: { NODE_OPTIONS } })
      const { user, system } = JSON.parse(stderr.trim()) as NodeJS.CpuUsage
      leastMs = Math.min(leastMs, (user + system) / 1000)
    }
    expect(leastMs).toBeLessThan(MOST_HELP_MS)
  })
})

test.skipIf(!existsSync('/dev/full'))('an output that cannot be written is said', () => {
  const full = openSync('/dev/full', 'w')
  const binary = join(import.meta.dirname, '../../bin/trainyard.js')
  const { status, stderr } = spawnSync(process.execPath, [binary, 'version'], { stdio: ['ignore', full, 'pipe'] })
  closeSync(full)
  expect([status, String(stderr)]).toEqual([1, expect.stringContaining('standard output cannot be written: ENOSPC')])
})
