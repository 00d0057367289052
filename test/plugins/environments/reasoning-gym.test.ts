/** reasoning-gym behind its bridge, a program stands for Python: tasks, scores, and every way in which a child fails. */
import { existsSync, mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, afterEach, expect, test } from 'vitest'
import { systemClock } from '#base/util/clock.js'
import { checkEnvironment } from '#plugins/environments/check.js'
import { type EnvironmentOptions, openEnvironment } from '#plugins/environments/open.js'
import type { EnvironmentSource } from '#plugins/environments/source.js'
import { gather } from '#plugins/rl-library/gather.js'
import { isAlive } from '../../support/service/is-alive.js'
import { until } from '../../support/until.js'
import { episodesOf } from './support/episodes.js'
import { scriptedModel } from './support/scripted-model.js'

const python = join(import.meta.dirname, 'support', 'fake-python.js')
const folder = mkdtempSync(join(tmpdir(), 'trainyard-environments-'))
const opened: EnvironmentSource[] = []
afterEach(async () => {
  for (const source of opened.splice(0)) await source.close()
})
afterAll(() => rmSync(folder, { recursive: true, force: true }))

async function open(task: string, options: EnvironmentOptions = {}): Promise<EnvironmentSource> {
  const source = await openEnvironment(`reasoning-gym:${task}`, { python, ...options })
  opened.push(source)
  return source
}

/** Adds rightly where it is told to. */
const adds = (isRight: boolean) =>
  scriptedModel((asked) => {
    const [a = 0, b = 0] = [...asked.matchAll(/\d/g)].map(([digit]) => Number(digit))
    return String(a + b + (isRight ? 0 : 1))
  })

test('tasks follow from the seed, the two splits have seeds of their own, and an answer earns its score', async () => {
  const source = await open('sums', { seed: 3 })
  const [trained, again, measured] = [
    await source.tasks('train', 0, 20),
    await (await open('sums', { seed: 3 })).tasks('train', 5, 5),
    await source.tasks('eval', 0, 20),
  ]
  expect(again).toEqual(trained.slice(5, 10))
  expect(trained.every(({ seed }) => seed < 2 ** 30)).toBe(true)
  expect(measured.every(({ seed }) => seed >= 2 ** 30)).toBe(true)
  const { episodes, warnings } = await episodesOf(source, adds(true))
  const [task] = trained
  if (task === undefined) throw new Error('no task')
  const right = await episodes.play(task, { group: 'g', index: 0 })
  const wrong = await (await episodesOf(source, adds(false))).episodes.play(task, { group: 'g', index: 0 })
  expect([right.reward, wrong.reward, warnings]).toEqual([1, 0, []])
  expect(right.metrics).toMatchObject({ 'env/turns': 1 })
  expect(right.metadata).toEqual({ environment: 'reasoning-gym:sums', task: task.key })
})

test('a check says that tasks repeat, that splits are apart, and what right and wrong answers earn', async () => {
  const source = await open('sums')
  const { findings } = await checkEnvironment(source, {
    count: 8,
    seed: 0,
    clock: systemClock,
    signal: AbortSignal.timeout(60_000),
  })
  const outcomes = Object.fromEntries(findings.map(({ name, outcome }) => [name, outcome]))
  expect(outcomes).toEqual({
    start: 'ok',
    tasks: 'ok',
    repeats: 'ok',
    splits: 'ok',
    'right answer': 'ok',
    'wrong answer': 'ok',
    "another task's answer": 'ok',
  })
})

test('its process sees PATH, HOME and LANG, and what was named', async () => {
  process.env['TRAINYARD_TEST_SECRET'] = 'no'
  try {
    const { digest } = await (await open('sums', { variables: { FAKE_NAMED: 'yes' } })).describe()
    const other = await (await open('sums')).describe()
    // the description holds the names that the process saw
    expect(digest).not.toBe(other.digest)
    process.env['TRAINYARD_TEST_SECRET_TOO'] = 'no'
    expect((await (await open('sums')).describe()).digest).toBe(other.digest)
  } finally {
    delete process.env['TRAINYARD_TEST_SECRET']
    delete process.env['TRAINYARD_TEST_SECRET_TOO']
  }
})

test.each([
  ['crash', 'env_crashed', /exited with code 3: Traceback: the scorer fell over/],
  ['garbage', 'env_protocol', /a line that is no JSON: "this is no JSON"/],
  ['long', 'env_protocol', /a line of more than 16 MiB/],
  ['stray', 'env_protocol', /answered what nobody asked/],
  ['refuse', 'env_error', /score: ValueError: no such answer/],
  ['nan', 'reward_invalid', /is "nan", no number/],
])('%s is an exception of its group, %s', async (name, type, message) => {
  const source = await open(name)
  const { episodes } = await episodesOf(source, adds(true))
  const groups = await gather(episodes.plans(await source.tasks('train', 0, 1), 1, 'step 1'))
  expect(groups[0]?.exceptions).toMatchObject([{ type, message: expect.stringMatching(message) }])
  // the next question starts it anew
  expect(await source.tasks('train', 0, 1)).toHaveLength(1)
})

test('a time-out kills the whole process group', async () => {
  const pidFile = join(folder, 'grandchild')
  const source = await open('hang', { settings: { pidFile } })
  const { episodes } = await episodesOf(source, adds(true), { episodeTimeoutMs: 400 })
  const [task] = await source.tasks('train', 0, 1)
  if (task === undefined) throw new Error('no task')
  await expect(episodes.play(task, { group: 'g', index: 0 })).rejects.toMatchObject({ kind: 'env_timeout' })
  await until(() => existsSync(pidFile), 'the grandchild runs')
  await source.close()
  const pid = Number(readFileSync(pidFile, 'utf8'))
  await until(() => !isAlive(pid), 'the grandchild has ended')
})

test('three starts that fail end the run, with what the process said', async () => {
  const fine = await open('sums')
  const tasks = await fine.tasks('train', 0, 6)
  const broken = await open('sums', { variables: { FAKE_START: 'crash' } })
  const description = await fine.describe()
  const { episodes } = await episodesOf({ ...broken, describe: async () => description }, adds(true))
  await expect(
    gather(episodes.plans(tasks, 2, 'step 1'), { concurrency: 1, signal: episodes.signal }),
  ).rejects.toMatchObject({
    kind: 'env_crashed',
    message: expect.stringContaining('ImportError: half an installation'),
  })
})

test('a reward outside of its range is said with its task, and stays', async () => {
  const source = await open('over')
  const { episodes, warnings } = await episodesOf(source, adds(true))
  const [task] = await source.tasks('train', 0, 1)
  if (task === undefined) throw new Error('no task')
  expect((await episodes.play(task, { group: 'g', index: 0 })).reward).toBe(7)
  expect(warnings).toEqual([`the reward 7 of task ${task.key} lies outside of its range, 0 to 1`])
})

test('without the package nothing is fetched, and the error says what would fetch it', async () => {
  await expect(openEnvironment('reasoning-gym:sums', { python: '/bin/false' })).rejects.toMatchObject({
    code: 'python_package_missing',
    hint: expect.stringContaining('--install'),
  })
})
