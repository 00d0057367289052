/**
 * A run whose command, environment and server are killed in turn, at twenty points of five steps: while it plays, when groups are
 * written, when a job is made, when a step is trained. It goes on each time with the same groups, and trains no step twice.
 */
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { type CliProcess, createHome, startCli } from '../../support/service/cli-process.js'
import {
  childrenOf,
  commandOf,
  type KillableServer,
  startKillableServer,
} from '../../support/service/killable-server.js'
import { until } from '../../support/until.js'

const STEPS = 5
const python = join(import.meta.dirname, 'support', 'fake-python.js')
const folder = mkdtempSync(join(tmpdir(), 'trainyard-env-kills-'))
const [dataDir, out, played] = [join(folder, 'data'), join(folder, 'run'), join(folder, 'played')]
const home = createHome()
let server: KillableServer
let apiKey: string
let run: CliProcess | null = null

const start = async () => {
  server = await startKillableServer({ dataDir, ...(apiKey === undefined ? {} : { apiKey }) })
  apiKey = server.apiKey
}
beforeAll(async () => {
  await start()
  await server.createModel('m')
})
afterAll(async () => {
  run?.child.kill('SIGKILL')
  await server.kill('SIGKILL')
  home.remove()
  rmSync(folder, { recursive: true, force: true, maxRetries: 20 })
})

const args = [
  ...['env', 'train', 'reasoning-gym:lengths', 'm', '--project', 'p', '--python', python, '--out', out, '--json'],
  ...['--env', `FAKE_PLAYED=${played}`, '--steps', String(STEPS), '--tasks-per-step', '3', '-n', '3'],
  ...['--eval-every', '0', '--eval-tasks', '2', '--max-tokens', '8'],
]
const startRun = () => {
  const env = { TRAINYARD_URL: server.url, TRAINYARD_API_KEY: server.apiKey }
  const started = startCli(args, { home: home.path, env })
  void started.finished.then(() => {
    if (run === started) run = null
  })
  run = started
}

const linesIn = (path: string): readonly string[] =>
  existsSync(path) ? readFileSync(path, 'utf8').split('\n').filter(Boolean) : []
const trainedLines = () =>
  linesIn(join(out, 'steps.jsonl'))
    .map((line) => JSON.parse(line) as { object: string; step: number; job: string | null; model_step: number })
    .filter(({ object }) => object === 'trained')
const jobs = async () =>
  (await server.call<{ data: { id: string; status: string }[] }>('/v1/preview/training-jobs?limit=100')).data

/** Until something of a run is so; a run that ended by itself is started again. */
const goOnUntil = (condition: () => boolean | Promise<boolean>, what: string): Promise<unknown> =>
  until(
    async () => {
      if (run === null) startRun()
      return (await condition()) || false
    },
    what,
    200_000,
  )

const KILLS = {
  run: async () => {
    const killed = run
    killed?.child.kill('SIGKILL')
    await killed?.finished
  },
  environment: async () => {
    const children = run?.child.pid === undefined ? [] : childrenOf(run.child.pid)
    for (const pid of children.filter((each) => commandOf(each).includes('fake-python'))) process.kill(pid, 'SIGKILL')
  },
  server: async () => {
    const cut = run
    await server.kill('SIGKILL')
    // it says that nobody answers, and ends
    await cut?.finished
    await start()
  },
} as const

test('groups stay as they were written, and no step is trained twice', { timeout: 1_200_000 }, async () => {
  const groups = new Map<string, string>()
  const keepGroups = () => {
    const written = join(out, 'groups')
    for (const name of existsSync(written) ? readdirSync(written).filter((each) => /^\d+\.jsonl$/.test(each)) : []) {
      const text = readFileSync(join(written, name), 'utf8')
      expect(text, name).toBe(groups.get(name) ?? text)
      groups.set(name, text)
    }
  }
  const kinds = Object.keys(KILLS) as (keyof typeof KILLS)[]
  const done: string[] = []
  for (let step = 1; step <= STEPS; step++) {
    const before = linesIn(played).length
    const points: readonly (readonly [string, () => boolean | Promise<boolean>])[] = [
      ['it plays', () => linesIn(played).length > before],
      ['groups are written', () => existsSync(join(out, 'groups', `${step}.jsonl`))],
      ['a job is made', async () => (await jobs()).length >= step],
      ['the step is trained', () => trainedLines().length >= step],
    ]
    for (const [what, condition] of points) {
      const kind = kinds[done.length % kinds.length] as keyof typeof KILLS
      await goOnUntil(condition, `step ${step}: ${what}`)
      await KILLS[kind]()
      keepGroups()
      done.push(`${kind} when ${what}`)
    }
  }
  expect(done).toHaveLength(20)
  expect(new Set(done).size).toBe(12)
  if (run === null) startRun()
  await goOnUntil(
    () => linesIn(join(out, 'steps.jsonl')).some((line) => line.includes(`"measured","step":${STEPS}`)),
    'its end',
  )
  keepGroups()
  expect(groups.size).toBe(STEPS)
  const trained = trainedLines()
  expect(trained.map(({ step }) => step)).toEqual([1, 2, 3, 4, 5])
  const made = await jobs()
  const used = trained.flatMap(({ job }) => job ?? [])
  expect(new Set(used).size).toBe(used.length)
  expect(made.map(({ id }) => id).toSorted()).toEqual(used.toSorted())
  expect(made.every(({ status }) => status === 'completed')).toBe(true)
})
