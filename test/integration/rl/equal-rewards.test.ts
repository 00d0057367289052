/** Groups in which no reward differs: what is said leads to rewards that teach, not to a job that cannot learn. */
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { createTestService, type TestService } from '../../support/service/create-test-service.js'
import { runCli } from '../../support/service/run-cli.js'

let folder: string
let service: TestService
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'trainyard-equal-'))
  service = await createTestService()
  await service.createModel('equal')
  await writeFile(join(folder, 'prompts.jsonl'), '{"prompt":"a","answer":"b"}\n')
  await writeFile(join(folder, 'equal.mjs'), 'export const reward = () => 0.5\n')
  await writeFile(join(folder, 'different.mjs'), 'let n = 0\nexport const reward = () => n++\n')
})
afterAll(async () => {
  await service.dispose()
  await rm(folder, { recursive: true, force: true, maxRetries: 20 })
})

const cli = (argv: readonly string[], tty = true) =>
  runCli(argv, { fetch, env: { TRAINYARD_URL: service.url, TRAINYARD_API_KEY: service.apiKey }, tty, columns: 300 })

test.each([
  [
    'equal',
    'warning: reward variance zero in 100% of groups (1 of 1, mean reward 0.5): they teach nothing; every one of 2 answers to one prompt is "base:a", worth 0.5; say what an answer can earn at most (--reward-range,',
  ],
  ['different', 'hint: trainyard train rl equal --file'],
])('a rollout with %s rewards', async (name, hint) => {
  const out = join(folder, `${name}.jsonl`)
  const prompts = join(folder, 'prompts.jsonl')
  const reward = join(folder, `${name}.mjs`)
  const argv = ['rollout', 'equal', '--prompts', prompts, '--reward', reward, '-n', '2', '--max-tokens', '64']
  const { stderr, exitCode } = await cli([...argv, '--out', out])
  expect([exitCode, stderr]).toEqual([0, expect.stringContaining(hint)])
})

test('a rollout whose answers are all cut off names the limit first', async () => {
  const argv = ['rollout', 'equal', '--prompts', join(folder, 'prompts.jsonl'), '-n', '2', '--max-tokens', '2']
  const { stderr } = await cli([...argv, '--reward', join(folder, 'equal.mjs'), '--out', join(folder, 'cut.jsonl')])
  expect(stderr).toContain(
    '2 of 2 answers were cut off at the length limit (mean reward 0.5); raise the limit (--max-tokens',
  )
})

test('train rl says what to change, also where --allow-empty makes it a warning', async () => {
  const argv = ['train', 'rl', 'equal', '--file', join(folder, 'equal.jsonl')]
  const refused = await cli(argv, false)
  const advice =
    'is "base:a", worth 0.5; say what an answer can earn at most (--reward-range, max_reward of a group), and this says whether that is all'
  expect([refused.exitCode, refused.stderr]).toEqual([2, expect.stringContaining(advice)])
  const allowed = await cli([...argv, '--allow-empty'])
  expect([allowed.exitCode, allowed.stderr]).toEqual([0, expect.stringContaining(advice)])
})
