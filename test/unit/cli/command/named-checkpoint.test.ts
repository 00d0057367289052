/** A checkpoint named where only a model has a meaning is refused; passed over, it let `models delete m:step3` delete all of m. */
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, expect, test } from 'vitest'
import { runCli } from '../../../support/service/run-cli.js'
import { checkpoint, MODEL, page, type Routes, scriptedService } from '../../../support/service/scripted-service.js'

const folder = mkdtempSync(join(tmpdir(), 'trainyard-named-checkpoint-'))
const rows = (name: string, row: unknown) => {
  writeFileSync(join(folder, name), `${JSON.stringify(row)}\n`)
  return join(folder, name)
}
const answer = { role: 'assistant', content: 'a' }
const conversation = rows('sft.jsonl', { messages: [{ role: 'user', content: 'q' }, answer] })
const pair = rows('dpo.jsonl', { prompt: 'q', chosen: 'a', rejected: 'b' })
const trajectories = [1, 0].map((reward) => ({
  messages_and_choices: [
    { role: 'user', content: 'q' },
    { index: 0, finish_reason: 'stop', message: answer, logprobs: { content: [] }, token_ids: [] },
  ],
  reward,
}))
const groups = rows('rl.jsonl', { trajectories })
afterAll(() => rmSync(folder, { recursive: true, force: true, maxRetries: 20 }))

const routes: Routes = {
  'GET /v1/preview/models': { body: page([MODEL]) },
  [`GET /v1/preview/models/${MODEL.id}`]: { body: MODEL },
  [`GET /v1/preview/models/${MODEL.id}/checkpoints`]: { body: page([checkpoint(1), checkpoint(2)]) },
  [`DELETE /v1/preview/models/${MODEL.id}`]: {
    body: { model_id: MODEL.id, deleted_checkpoints: 2, deleted_run: false },
  },
}
async function run(argv: readonly string[]) {
  const service = scriptedService(routes)
  const result = await runCli(argv, { fetch: service.fetch })
  return { ...result, asked: service.requests.filter(({ method }) => method !== 'GET') }
}

const NAME = 'email-agent'
test.each([
  ['models', 'delete', `${NAME}:step1`, '--yes'],
  ['models', 'delete', `${NAME}:latest`, '--yes'],
  ['models', 'delete', NAME, `${MODEL.id}:v1`, '--yes'],
  ['models', 'get', `${NAME}:step1`],
  ['checkpoints', 'list', `${NAME}:step1`],
  ['checkpoints', 'delete', `${NAME}:step1`, '--steps', '2', '--yes'],
  ['jobs', 'list', '--model', `${NAME}:step1`],
  ['log', `${NAME}:step1`, '--file', groups],
  ['train', 'rl', `${NAME}:step1`, '--file', groups, '--dry-run'],
  ['train', 'sft', `${NAME}:step1`, '--file', conversation, '--dry-run'],
  ['train', 'dpo', `${NAME}:step1`, '--file', pair, '--dry-run'],
])('%j %j %j is refused, and changes nothing', async (...argv) => {
  const { stderr, exitCode, asked } = await run(argv)
  expect(stderr).toMatch(/names a checkpoint; expected a model/)
  expect(exitCode).toBe(2)
  expect(asked).toEqual([])
})

test('training goes on from the latest checkpoint, so its name may be said', async () => {
  const { stderr, exitCode } = await run(['train', 'sft', `${NAME}:latest`, '--file', conversation, '--dry-run'])
  expect({ stderr, exitCode }).toMatchObject({ exitCode: 0 })
})

test.each([
  [['chat', `${NAME}:step1`, 'hi', '--step', '2'], 'both name a checkpoint'],
  [['checkpoints', 'download', `${NAME}:step1`, '--step', '2'], 'both name a checkpoint'],
  [['chat', NAME, 'hi', '-n', '2', '--stream'], '--stream and -n exclude each other'],
])('%j contradicts itself', async (argv, message) => {
  const { stderr, exitCode } = await run(argv)
  expect(stderr).toContain(message)
  expect(exitCode).toBe(2)
})
