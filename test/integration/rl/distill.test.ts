/** Distillation against a real service: a student comes nearer to its teacher on its own answers, and the command trains on a teacher's. */
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { openTeacherAnswers } from '#plugins/teacher/teacher-answers.js'
import { createLogger } from '../../../src/base/logging/logger.js'
import { distillOnPolicy, type LocalService, startLocal, TrainableModel } from '../../../src/rl.js'
import { runCli } from '../../support/service/run-cli.js'

const BASE = 'trainyard/tiny-random'
const PROMPTS = ['ab', 'cd'].map((content) => [{ role: 'user', content }])

let local: LocalService
let teacher: TrainableModel
let folder: string
beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), 'trainyard-distill-'))
  local = await startLocal({ baseModels: [BASE, 'trainyard/spark'], logger: createLogger({ level: 'silent' }) })
  teacher = await new TrainableModel(local.client, { name: 'teacher', baseModel: BASE }).register()
  const session = await teacher.session({ seed: 1 })
  for (let step = 0; step < 20; step += 1) {
    const rows = await Promise.all(
      PROMPTS.map(async (each) => ({ prompt: await session.encode(each), tokens: [30, 40, 50] })),
    )
    await Promise.all([session.forwardBackward(rows, 'cross_entropy'), session.optimStep({ learningRate: 0.03 })])
  }
  await session.save()
  await session.close()
})
afterAll(async () => {
  await local.close()
  rmSync(folder, { recursive: true, force: true })
})

const register = (name: string) => new TrainableModel(local.client, { name, baseModel: BASE }).register()
const SHAPE = { promptsPerStep: 2, samples: 16, maxTokens: 3, seed: 7 }

test('the divergence from the teacher falls, and the result is the model’s next checkpoint', async () => {
  const student = await register('student')
  const { steps, step, warnings } = await distillOnPolicy(student, PROMPTS, {
    ...SHAPE,
    teacher: teacher.inferenceName(),
    steps: 12,
    learningRate: 0.02,
  })
  const kls = steps.map(({ kl }) => kl)
  const late = kls.slice(-4).reduce((sum, kl) => sum + kl / 4, 0)
  expect(kls[0]).toBeGreaterThan(0.1)
  expect(late).toBeLessThan((kls[0] as number) / 2)
  expect({ step, known: student.step, warnings }).toEqual({ step: 1, known: 1, warnings: [] })
})

test('a teacher that is the student itself has nothing to say', async () => {
  const student = await register('twin')
  const { steps } = await distillOnPolicy(student, PROMPTS, { ...SHAPE, teacher: BASE, steps: 1, learningRate: 1e-9 })
  // the same weights, read as a prompt and as steps: 1e-3 nats is far above what the two orders of summing differ by
  expect(Math.abs(steps[0]?.kl as number)).toBeLessThan(1e-3)
})

test('a teacher with other tokens is refused before anything is trained', async () => {
  const student = await register('foreign')
  await expect(distillOnPolicy(student, PROMPTS, { teacher: 'trainyard/spark' })).rejects.toMatchObject({
    code: 'tokenizers_differ',
  })
  expect((await local.client.models.get(student.id)).step).toBe(0)
})

test('the command keeps the answers of a teacher of the service, trains on the good ones, and asks for none of them twice', async () => {
  const { baseURL, apiKey } = local.client.connection()
  const env = { TRAINYARD_URL: baseURL.replace(/\/v1$/, ''), TRAINYARD_API_KEY: apiKey ?? '' }
  const cli = (args: readonly string[]) => runCli([...args], { env, fetch: globalThis.fetch })
  const [prompts, answers] = [join(folder, 'prompts.jsonl'), join(folder, 'answers.jsonl')]
  writeFileSync(prompts, 'Is a potato a fruit?\nCan a cat fly?\n')
  writeFileSync(join(folder, 'reward.mjs'), 'export const reward = (answer) => (answer.length > 0 ? 1 : 0)\n')
  await new TrainableModel(local.client, { name: 'pupil', baseModel: 'trainyard/spark' }).register()
  const line = ['train', 'distill', 'pupil', '--prompts', prompts, '--teacher', 'trainyard/spark', '--answers', answers]
  const rest = ['--reward', join(folder, 'reward.mjs'), '--max-tokens', '64', '--epochs', '2', '--watch']
  const first = await cli([...line, ...rest])
  expect({ exit: first.exitCode, said: first.stderr }).toEqual({
    exit: 0,
    said: expect.stringContaining('2 of 2 answers'),
  })
  const kept = readFileSync(answers, 'utf8')
  expect(kept.trim().split('\n')).toHaveLength(2)
  const second = await cli([...line, ...rest])
  expect(second.stderr).toContain(`2 answers of the teacher are in ${answers} already`)
  expect(readFileSync(answers, 'utf8')).toBe(kept)
  expect((await local.client.models.list({ name: 'pupil' })).data[0]?.step).toBe(2)
})

test('neither --dry-run nor --plan asks the teacher: they go by the answers that are there', async () => {
  const { baseURL, apiKey } = local.client.connection()
  const env = { TRAINYARD_URL: baseURL.replace(/\/v1$/, ''), TRAINYARD_API_KEY: apiKey ?? '' }
  let asked = 0
  const server = createServer((_, response) => {
    asked += 1
    response.end('{}')
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const teacher = `http://127.0.0.1:${(server.address() as AddressInfo).port}/v1`
  const [prompts, path] = [join(folder, 'three.txt'), join(folder, 'three.jsonl')]
  writeFileSync(prompts, 'q0\nq1\nq1\n')
  await register('planned')
  const line = ['train', 'distill', 'planned', '--prompts', prompts, '--teacher', teacher, '--teacher-model', 'big']
  const cli = (...args: string[]) =>
    runCli([...line, '--answers', path, '--max-tokens', '64', '--json', ...args], { env, fetch: globalThis.fetch })
  try {
    const counts = { dry_run: true, prompts: 3, samples: 2 }
    const dry = await cli('--dry-run', '--samples', '2')
    expect(JSON.parse(dry.stdout)).toMatchObject({ ...counts, answers_there: 0, answers_to_ask: 6 })
    const early = await cli('--plan')
    expect({ exit: early.exitCode, said: early.stderr }).toEqual({
      exit: 2,
      said: expect.stringContaining('asks the teacher first'),
    })
    const messages = ['q0', 'q1', 'q1'].map((content) => [{ role: 'user', content }])
    const manner = { teacher: `big at ${teacher}`, options: { max_completion_tokens: 64 } }
    const answers = await openTeacherAnswers(path, messages, manner)
    for (const prompt of [0, 2]) await answers.add({ prompt, sample: 0, text: 'ab', isCut: false })
    const again = await cli('--dry-run', '--samples', '2')
    expect(JSON.parse(again.stdout)).toMatchObject({ ...counts, answers_there: 2, answers_to_ask: 4 })
    const plan = await cli('--plan', '--epochs', '1')
    expect({ exit: plan.exitCode, said: plan.stderr }).toEqual({
      exit: 0,
      said: expect.stringContaining('the plan is for 2 of 3 answers'),
    })
    expect(JSON.parse(plan.stdout)).toMatchObject({ object: 'training_plan', num_rows: 2 })
    expect(asked).toBe(0)
  } finally {
    await new Promise((resolve) => server.close(resolve))
  }
})

test('an address without the name of a model is refused', async () => {
  const prompts = join(folder, 'asked.txt')
  writeFileSync(prompts, 'q\n')
  const line = ['train', 'distill', 'pupil', '--prompts', prompts, '--teacher', 'http://127.0.0.1:1/v1']
  const { exitCode, stderr } = await runCli(line)
  expect(exitCode).toBe(2)
  expect(stderr).toContain('--teacher-model with the name of a model at the address is required')
})

test.each([
  [['--on-policy', '--reward', 'exact'], '--reward has no effect with --on-policy'],
  [['--on-policy', '--epochs', '3'], '--epochs has no effect with --on-policy'],
  [['--steps', '3'], '--steps counts updates of --on-policy, which is not given'],
  [['--teacher-model', 'm'], '--teacher-model is for an address, and --teacher "teacher" is none'],
  [['--min-reward', '1'], '--min-reward needs --reward'],
])('%j is refused by name', async (flags, message) => {
  const prompts = join(folder, 'refused.jsonl')
  writeFileSync(prompts, '{"prompt":"q","answer":"a"}\n')
  const { exitCode, stderr } = await runCli([
    'train',
    'distill',
    'pupil',
    '--prompts',
    prompts,
    '--teacher',
    'teacher',
    ...flags,
  ])
  expect({ exitCode, stderr }).toEqual({ exitCode: 2, stderr: expect.stringContaining(message) })
})
