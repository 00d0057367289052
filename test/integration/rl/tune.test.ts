/** `trainyard tune` against a real service and the built-in model: forks are tried and deleted, the best rate is trained on the model. */
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { createLogger } from '../../../src/base/logging/logger.js'
import { systemClock } from '../../../src/base/util/clock.js'
import { type LocalService, startLocal, TrainableModel } from '../../../src/rl.js'
import { runCli } from '../../support/service/run-cli.js'

let local: LocalService
let folder: string
beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), 'trainyard-tune-'))
  local = await startLocal({ baseModels: ['trainyard/spark'], logger: createLogger({ level: 'silent' }) })
})
afterAll(async () => {
  await local.close()
  rmSync(folder, { recursive: true, force: true })
})

async function tune(name: string, reward: string, ...more: readonly string[]) {
  const { baseURL, apiKey } = local.client.connection()
  const env = { TRAINYARD_URL: baseURL.replace(/\/v1$/, ''), TRAINYARD_API_KEY: apiKey ?? '' }
  const [prompts, module] = [join(folder, `${name}.jsonl`), join(folder, `${name}.mjs`)]
  const mails = Array.from({ length: 16 }, (_, i) => {
    const prompt = `Hello, where is order ${11 + i}? Regards, Tom. Which number is the order?`
    return `${JSON.stringify({ prompt, answer: String(11 + i) })}\n`
  })
  writeFileSync(prompts, mails.join(''))
  writeFileSync(module, `export const reward = (answer, row) => ${reward}\n`)
  await new TrainableModel(local.client, { name, baseModel: 'trainyard/spark' }).register()
  const line = ['tune', name, '--prompts', prompts, '--reward', module, '--max-tokens', '12', '--seed', '1', '--json']
  const result = await runCli([...line, ...more], { env, fetch: globalThis.fetch })
  const models = (await local.client.models.list({})).data.map((model) => model.name)
  const lines = result.stdout.trim().split('\n').filter(Boolean)
  const [model] = (await local.client.models.list({ name })).data
  return { ...result, objects: lines.map((each) => JSON.parse(each)), models, step: model?.step }
}

test('the best of three rates is trained on the model, and forks are gone', async () => {
  const isThere = '(answer.trim() === row.answer ? 1 : answer.includes(row.answer) ? 0.4 : 0)'
  const { objects, exitCode, models, step, stderr } = await tune('orders', isThere)
  expect({ exitCode, stderr }).toEqual({ exitCode: 0, stderr: expect.any(String) })
  const result = objects.at(-1)
  expect(objects.slice(0, -1).map(({ object, rate }) => [object, rate])).toEqual(
    [1e-3, 3e-4, 3e-3].map((rate) => ['tuning.trial', rate]),
  )
  const best = Math.max(...result.trials.map((each: { reward: number }) => each.reward))
  expect(result).toMatchObject({ object: 'tuning', start_step: 0, step: 1, kept: { reward: best } })
  expect(best).toBeGreaterThan(result.reward_before)
  expect(result.said).toContain(`${result.kept.rate.toExponential()} is best`)
  expect([models, step]).toEqual([['orders'], 1])
})

test('forks of a run that was killed are named, and never deleted, however old they are', async () => {
  const names = ['022f', '0230'].map((end) => `left-tune-01a221c1-4941-73f5-847b-a93dbaf6${end}`)
  for (const name of names) await new TrainableModel(local.client, { name, baseModel: 'trainyard/spark' }).register()
  const recent = await tune('left', '0')
  expect(recent.stderr).toContain('2 forks of another tuning of left')
  for (const name of names) expect(recent.stderr).toMatch(new RegExp(`trainyard models delete .*/${name}`))
  // a clock of the client that is far ahead
  const later = { ...systemClock, nowMs: () => Date.now() + 25 * 3_600_000 }
  const { baseURL, apiKey } = local.client.connection()
  const env = { TRAINYARD_URL: baseURL.replace(/\/v1$/, ''), TRAINYARD_API_KEY: apiKey ?? '' }
  const line = ['tune', 'left', '--prompts', join(folder, 'left.jsonl'), '--reward', join(folder, 'left.mjs')]
  const old = await runCli([...line, '--max-tokens', '2'], { env, fetch: globalThis.fetch, clock: later })
  expect(old.stderr).toContain('2 forks of another tuning of left')
  const models = (await local.client.models.list({})).data.map((model) => model.name)
  expect(models).toEqual(expect.arrayContaining(names))
})

test('where no job helps the model stays as it is', async () => {
  // the same for everybody on held-out prompts: nothing can be better
  const { objects, step } = await tune(
    'nowhere',
    'Number(row.answer) % 4 === 2 ? 1 : answer.length % 2',
    ...['--learning-rate', '1e-5'],
  )
  const result = objects.at(-1)
  expect(result).toMatchObject({ kept: null, start_step: 0, step: 0 })
  expect(result.said).toMatch(/^no rate is better than no job: held-out reward 1 before, 1e-5 reached 1/)
  expect(step).toBe(0)
})

test('answers that all earn the same are no ground for a choice', async () => {
  const { exitCode, stderr, step } = await tune('alike', '0')
  expect({ exitCode, stderr }).toEqual({
    exitCode: 2,
    stderr: expect.stringContaining('nothing to compare rates with'),
  })
  expect(step).toBe(0)
})

test('what does not end in time says so, and leaves neither forks nor a step', async () => {
  // a tenth of a minute is too short for answers that take a second each to be scored, one after the other
  const slow = 'new Promise((done) => setTimeout(done, 1000, answer.length))'
  const { exitCode, stderr, step, models } = await tune('late', slow, '--minutes', '0.1', '--concurrency', '1')
  expect({ exitCode, stderr }).toEqual({
    exitCode: 2,
    stderr: expect.stringContaining('tuning did not end within 0.1 minutes'),
  })
  expect([step, models.filter((name) => name.startsWith('late'))]).toEqual([0, ['late']])
})
