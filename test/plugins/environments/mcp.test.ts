/** MCP servers made with the SDK, over both transports: calls, rewards, and every way in which a server fails. */
import { type ChildProcess, spawn } from 'node:child_process'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, expect, test } from 'vitest'
import { type EnvironmentOptions, openEnvironment } from '#plugins/environments/open.js'
import { splitWords } from '#plugins/environments/sources/words.js'
import { until } from '../../support/until.js'
import { episodesOf } from './support/episodes.js'
import { type Said, scriptedModel } from './support/scripted-model.js'

const server = join(import.meta.dirname, 'support', 'mcp-server.js')
const folder = mkdtempSync(join(tmpdir(), 'trainyard-mcp-'))
const tasksFile = join(folder, 'asks.jsonl')
const call = { name: 'add', arguments: { a: 2, b: 3 } }
writeFileSync(tasksFile, ['2+3?', 'add 2 and 3'].map((prompt) => `${JSON.stringify({ prompt, call })}\n`).join(''))
const started: ChildProcess[] = []
afterAll(() => {
  for (const child of started) child.kill('SIGKILL')
  rmSync(folder, { recursive: true, force: true })
})

const stdio = `mcp:"${process.execPath}" "${server}"`
const open = (options: EnvironmentOptions = {}, address = stdio) =>
  openEnvironment(address, { tasksFile, stepTimeoutMs: 20_000, ...options })

/** Calls first, and then says so. */
const calls = (first: Said, then: Said = 'five') => scriptedModel((_asked, turn) => (turn === 0 ? first : then))

async function playOnce(model: ReturnType<typeof calls>, options: EnvironmentOptions = {}, address = stdio) {
  const source = await open(options, address)
  const { episodes } = await episodesOf(source, model)
  const [task] = await source.tasks('train', 0, 1)
  if (task === undefined) throw new Error('no task')
  return await episodes.play(task, { group: 'g', index: 0 })
}

test('what it is says the server itself, and a digest of its tools and tasks', async () => {
  const description = await (await open()).describe()
  expect(description).toMatchObject({ name: 'mcp:sums', version: '1.2.3', tasks: 2, rewardRange: [0, 1] })
  expect(description.tools).toHaveLength(6)
  const fewer = await (await open({ settings: { tools: 'add,fail' } })).describe()
  expect(fewer.tools.map((tool) => (tool['function'] as { readonly name: string }).name)).toEqual(['add', 'fail'])
  expect(fewer.digest).not.toBe(description.digest)
})

test('the wanted call and an answer after it earn everything, parts of it their share', async () => {
  const right = await playOnce(calls([call]))
  expect(right.messages.map(({ role, content }) => [role, content])).toEqual([
    ['user', '2+3?'],
    ['assistant', ''],
    ['tool', '5'],
    ['assistant', 'five'],
  ])
  expect(right.metrics).toMatchObject({ 'reward/tool': 1, 'reward/arguments': 1, 'reward/answer': 1, 'env/turns': 2 })
  const rewards = [
    right,
    await playOnce(calls([{ name: 'add', arguments: { a: 1, b: 1 } }])),
    await playOnce(calls('five')),
    await playOnce(calls([call], [call]), { maxTurns: 1 }),
  ].map(({ reward }) => Number(reward.toFixed(9)))
  expect(rewards).toEqual([1, 0.6, 0, 0.8])
})

test('an error of a tool is told to the model, a part that is no text is named and left out', async () => {
  const failed = await playOnce(calls([{ name: 'fail', arguments: {} }]))
  expect(failed.messages[2]?.content).toBe('error: no such city')
  expect(failed.metrics['env/tool_errors']).toBe(1)
  const seen = await playOnce(calls([{ name: 'picture', arguments: {} }]))
  expect(seen.messages[2]?.content).toBe('a cat\n[image left out]')
  expect(seen.metrics['env/parts_left_out']).toBe(1)
  expect((await playOnce(calls([{ name: 'nothing', arguments: {} }]))).messages[2]?.content).toBe(
    'error: there is no tool "nothing"',
  )
})

test.each([
  ['die', 'env_crashed', /exited with code 9: out of memory, it says/],
  ['hang', 'env_timeout', /hang: no answer after 4 s/],
  ['large', 'env_error', /answered with 1048576 characters, more than the 262144/],
])('a tool that would %s is a failure of the kind %s', async (name, kind, message) => {
  const model = calls([{ name, arguments: {} }])
  const options = name === 'hang' ? { stepTimeoutMs: 4000 } : {}
  await expect(playOnce(model, options)).rejects.toMatchObject({ kind, message: expect.stringMatching(message) })
})

test('a command that is none, or ends at once, is a start that failed', async () => {
  const source = await open({}, 'mcp:/no/such/program')
  await expect(source.describe()).rejects.toMatchObject({ kind: 'env_crashed', isStart: true })
  const ends = await open({}, `mcp:${process.execPath} -e process.exit(4)`)
  await expect(ends.describe()).rejects.toMatchObject({
    kind: 'env_crashed',
    isStart: true,
    message: expect.stringContaining('code 4'),
  })
})

test('the same over streamable HTTP', async () => {
  const child = spawn(process.execPath, [server, 'http'], { stdio: ['ignore', 'pipe', 'inherit'] })
  started.push(child)
  let port = ''
  child.stdout.on('data', (text) => {
    port += String(text)
  })
  await until(() => port.endsWith('\n'), 'the server listens')
  const address = `mcp:http://127.0.0.1:${port.trim()}/mcp`
  expect((await playOnce(calls([call]), {}, address)).reward).toBeCloseTo(1)
  await expect(open({ isolate: true }, address)).rejects.toMatchObject({ code: 'option_without_effect' })
})

test('rows that say neither what to ask nor what is wanted are refused with their place', async () => {
  writeFileSync(join(folder, 'bad.jsonl'), `${JSON.stringify({ prompt: 'a', call })}\n{"prompt":"b"}\n`)
  const bad = join(folder, 'bad.jsonl')
  await expect(open({ tasksFile: bad })).rejects.toMatchObject({
    code: 'tasks_invalid',
    message: expect.stringContaining('bad.jsonl:2: a task needs "call"'),
  })
  // who judges says what is wanted
  expect((await (await open({ tasksFile: bad, isJudgedElsewhere: true })).describe()).tasks).toBe(2)
  await expect(openEnvironment(stdio)).rejects.toMatchObject({ code: 'tasks_missing' })
  await expect(open({ settings: { speed: 2 } })).rejects.toMatchObject({ code: 'option_without_effect' })
})

test('a command is split as a shell does, and nothing else of a shell is done', () => {
  expect(splitWords(`npx -y "@some/server" '/my data' a\\ b "" $HOME`)).toEqual([
    'npx',
    '-y',
    '@some/server',
    '/my data',
    'a b',
    '',
    '$HOME',
  ])
  expect(() => splitWords('a "b')).toThrow(/not closed/)
})
