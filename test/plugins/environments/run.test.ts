/**
 * A run in an environment of one's own against a real service: its curve, its folder, and that it goes on after kills with
 * the same groups and no step twice.
 */
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { createLogger } from '#base/logging/logger.js'
import { type LocalService, startLocal, TrainableModel } from '../../../src/rl.js'
import { createHome, startCli } from '../../support/service/cli-process.js'
import { runCli } from '../../support/service/run-cli.js'
import { until } from '../../support/until.js'

const BASE = 'trainyard/tiny-random'
const folder = mkdtempSync(join(tmpdir(), 'trainyard-env-run-'))
const home = createHome()
let local: LocalService
let env: Record<string, string>

/** Random answers have lengths of every kind, so that groups differ. */
const OWN = `import { appendFileSync } from 'node:fs'
const rows = Array.from({ length: 24 }, (_, i) => ({ prompt: 'number ' + i }))
export const environment = {
  name: 'lengths',
  tasks: rows,
  rewardRange: [0, 1],
  reward: (answer, { prompt }) => {
    if (process.env.EPISODES) appendFileSync(process.env.EPISODES, prompt + '\\n')
    return { reward: ([...answer].length % 5) / 4, metrics: { letters: [...answer].length } }
  },
}
`
const own = join(folder, 'lengths.mjs')

beforeAll(async () => {
  writeFileSync(own, OWN)
  local = await startLocal({ baseModels: [BASE], logger: createLogger({ level: 'silent' }) })
  env = { TRAINYARD_URL: local.url, TRAINYARD_API_KEY: local.apiKey }
})
afterAll(async () => {
  await local.close()
  home.remove()
  rmSync(folder, { recursive: true, force: true })
})

const register = (name: string) => new TrainableModel(local.client, { name, baseModel: BASE }).register()
const trainArgs = (model: string, out: string, steps: number) => [
  ...['env', 'train', own, model, '--steps', String(steps), '--tasks-per-step', '3', '-n', '4', '--eval-every', '2'],
  ...['--eval-tasks', '2', '--max-tokens', '8', '--out', out, '--json'],
]
const cli = (args: readonly string[]) => runCli(args, { env, fetch: globalThis.fetch })
const linesOf = (path: string) =>
  readFileSync(path, 'utf8')
    .split('\n')
    .flatMap((line) => (line === '' ? [] : [JSON.parse(line) as Record<string, unknown>]))
const jobsOf = async (model: TrainableModel) =>
  (await local.client.trainingJobs.list({ model_id: model.id, limit: 100 })).data

test('a run measures, trains and measures, and says what came of each step', async () => {
  const model = await register('whole')
  const out = join(folder, 'whole')
  const { exitCode, stderr } = await cli(trainArgs('whole', out, 2))
  expect({ exitCode, stderr }).toMatchObject({ exitCode: 0 })
  const lines = linesOf(join(out, 'steps.jsonl'))
  expect(lines.map(({ object, step }) => [object, step])).toEqual([
    ['measured', 0],
    ['trained', 1],
    ['trained', 2],
    ['measured', 2],
  ])
  expect(lines[1]).toMatchObject({ groups: 3, 'env/turns': 1, episodes: 12, model_step: 1 })
  expect(Number(lines[1]?.['letters'])).toBeGreaterThan(0)
  // what is measured is never trained on
  const trained = [1, 2].flatMap((step) => linesOf(join(out, 'groups', `${step}.jsonl`)))
  const tasks = trained.map(({ metadata }) => (metadata as { readonly task: string }).task)
  expect(new Set(tasks).size).toBe(6)
  const metrics = (await local.client.checkpoints.list(model.id, {})).data.at(-1)?.metrics
  expect(metrics?.['val/reward']).toBeCloseTo(Number(lines[3]?.['reward']))
  // a run that is over measures and trains nothing more
  await cli(trainArgs('whole', out, 2))
  expect(linesOf(join(out, 'steps.jsonl'))).toHaveLength(4)
  expect((await jobsOf(model)).length).toBe(2)
})

test('an environment of one task is played, and not trained in', async () => {
  await register('single')
  const single = join(folder, 'single.mjs')
  writeFileSync(single, OWN.replace('length: 24', 'length: 1'))
  const args = ['env', 'eval', single, 'single', '--max-tokens', '4', '--json']
  expect(JSON.parse((await cli(args)).stdout)).toMatchObject({ groups: 1, exceptions: 0 })
  const train = trainArgs('single', join(folder, 'single'), 1).map((each) => (each === own ? single : each))
  expect((await cli(train)).stderr).toContain('has one task: training and measuring need tasks of their own')
})

test('advantages that compare with a greedy answer get one of each task', async () => {
  const model = await register('greedy')
  const out = join(folder, 'greedy')
  const { exitCode, stderr } = await cli([...trainArgs('greedy', out, 1), '--advantage', 'remax'])
  expect({ exitCode, stderr }).toMatchObject({ exitCode: 0 })
  const groups = linesOf(join(out, 'groups', '1.jsonl')) as unknown as readonly {
    readonly trajectories: readonly Played[]
  }[]
  for (const { trajectories } of groups) {
    expect(trajectories.map(({ messages_and_choices: items }) => items.at(-1)?.sampling?.temperature ?? 1)).toEqual([
      ...[1, 1, 1, 1, 0],
    ])
  }
  const [job] = await jobsOf(model)
  expect(job).toMatchObject({ status: 'completed' })
})

/** An episode as it is written, with what these tests read. */
interface Played {
  readonly reward: number
  readonly messages_and_choices: readonly {
    readonly reward?: number
    readonly sampling?: { readonly temperature: number }
  }[]
}

test('turns say what they earned where that is asked for', async () => {
  await register('turns')
  const steps = join(folder, 'steps.mjs')
  writeFileSync(
    steps,
    `export const environment = {
  tasks: Array.from({ length: 24 }, (_, i) => ({ prompt: 'number ' + i })),
  create: ({ prompt }) => {
    let turn = 0
    return {
      reset: () => ({ messages: [{ role: 'user', content: prompt }] }),
      step: ({ content }) => ({ reward: [...content].length % 3, isDone: ++turn === 2, messages: [{ role: 'user', content: 'more' }] }),
    }
  },
}
`,
  )
  const out = join(folder, 'turns')
  const args = trainArgs('turns', out, 1).map((each) => (each === own ? steps : each))
  expect(await cli([...args, '--turn-rewards'])).toMatchObject({ exitCode: 0 })
  const groups = linesOf(join(out, 'groups', '1.jsonl')) as unknown as readonly {
    readonly trajectories: readonly Played[]
  }[]
  for (const { reward, messages_and_choices: items } of groups.flatMap(({ trajectories }) => trajectories)) {
    const earned = items.flatMap((item) => (item.reward === undefined ? [] : [item.reward]))
    expect(earned).toHaveLength(2)
    expect(earned[0]! + earned[1]!).toBe(reward)
  }
  const refused = await cli([...args, '--turn-rewards', '--reward', 'exact'])
  expect(refused.stderr).toContain('--turn-rewards')
})

test('another environment, model or option does not go on with a run', async () => {
  await register('other')
  const out = join(folder, 'whole')
  const { exitCode, stderr } = await cli([...trainArgs('whole', out, 2), '--temperature', '0.5'])
  expect({ exitCode, stderr }).toMatchObject({ exitCode: 5, stderr: expect.stringContaining('options.temperature') })
  expect((await cli(trainArgs('other', out, 2))).stderr).toContain('another model')
})

test('a run that is killed goes on with the groups on the disk, and no step comes twice', {
  timeout: 600_000,
}, async () => {
  const model = await register('killed')
  const out = join(folder, 'killed')
  const episodes = join(folder, 'episodes')
  const start = () => startCli(trainArgs('killed', out, 3), { home: home.path, env: { ...env, EPISODES: episodes } })
  const groupsOf = (step: number) => join(out, 'groups', `${step}.jsonl`)
  const kept = new Map<number, string>()
  const killWhen = async (condition: () => boolean | Promise<boolean>, what: string) => {
    const running = start()
    await until(condition, what)
    running.child.kill('SIGKILL')
    await running.finished
    for (const name of existsSync(join(out, 'groups')) ? readdirSync(join(out, 'groups')) : []) {
      const step = Number(name.replace('.jsonl', ''))
      if (!Number.isSafeInteger(step)) continue
      const text = readFileSync(groupsOf(step), 'utf8')
      // what was written stays as it is
      expect(text).toBe(kept.get(step) ?? text)
      kept.set(step, text)
    }
  }
  await killWhen(() => existsSync(episodes), 'it plays')
  await killWhen(() => existsSync(groupsOf(1)), 'the first groups are written')
  await killWhen(async () => (await jobsOf(model)).length >= 1, 'the first job is made')
  await killWhen(() => existsSync(groupsOf(2)), 'the second groups are written')
  await killWhen(async () => (await jobsOf(model)).length >= 2, 'the second job is made')
  const last = await start().finished
  expect(last).toMatchObject({ exitCode: 0 })
  for (const [step, text] of kept) expect(readFileSync(groupsOf(step), 'utf8')).toBe(text)
  const trained = linesOf(join(out, 'steps.jsonl')).filter(({ object }) => object === 'trained')
  expect(trained.map(({ step, model_step: at }) => [step, at])).toEqual([
    [1, 1],
    [2, 2],
    [3, 3],
  ])
  const jobs = await jobsOf(model)
  expect(jobs.map(({ status }) => status)).toEqual(['completed', 'completed', 'completed'])
  expect(trained.map(({ job }) => job).sort()).toEqual(jobs.map(({ id }) => id).sort())
})

test('a run whose environment fails half of the time stops, and says how', async () => {
  await register('failing')
  const broken = join(folder, 'broken.mjs')
  writeFileSync(
    broken,
    OWN.replace('return { reward', "if (prompt.length > 7) throw new Error('no such number')\n    return { reward"),
  )
  const args = trainArgs('failing', join(folder, 'failing'), 1).map((each) => (each === own ? broken : each))
  const { exitCode, stderr } = await cli(args)
  expect(exitCode).toBe(1)
  expect(stderr).toMatch(/rollouts failed \(\d+ env_error\), the first: no such number/)
})

test('a reward of one’s own judges in place of the environment, and is measured as another', async () => {
  await register('judged')
  const reward = join(folder, 'reward.mjs')
  writeFileSync(reward, 'export const range = [0, 2]\nexport const reward = () => 2\n')
  const args = ['env', 'eval', own, 'judged', '--tasks', '2', '--max-tokens', '4', '--json']
  expect(JSON.parse((await cli([...args, '--reward', reward])).stdout)).toMatchObject({ reward: 2, is_stored: true })
  const again = await cli(args)
  expect(JSON.parse(again.stdout)).toMatchObject({ is_stored: false })
  expect(again.stderr).toContain('not stored')
})
