/**
 * `train rl --prompts`: what excludes what, before anything is asked, and a loop that ends at once where everything is earned.
 */
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { runCli } from '../../../../support/service/run-cli.js'
import { MODEL, page, type Routes, scriptedService } from '../../../../support/service/scripted-service.js'

let folder = ''
const here = process.cwd()
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'trainyard-loop-'))
  process.chdir(folder)
  writeFileSync('p.jsonl', '{"prompt":"2+2?","answer":"4"}\n'.repeat(8))
  writeFileSync('held.jsonl', '{"prompt":"1+3?","answer":"4"}\n')
})
afterEach(() => {
  process.chdir(here)
  rmSync(folder, { recursive: true, force: true, maxRetries: 20 })
})

test.each([
  [[], '--file with trajectory groups is required, or --prompts'],
  [['--file', 'g.jsonl', '--prompts', 'p.jsonl'], '--file trains on groups that are there, --prompts samples them'],
  [['--file', 'g.jsonl', '--jobs', '3'], '--jobs is for --prompts only'],
  [['--file', 'g.jsonl', '--reward', 'exact'], '--reward is for --prompts only'],
  [['--prompts', 'p.jsonl', '--watch'], '--watch is for --file only'],
  [['--prompts', 'p.jsonl', '--allow-empty'], '--allow-empty is for --file only'],
])('%j is exit 2 before anything is asked', async (flags, message) => {
  const service = scriptedService({})
  const { stderr, exitCode } = await runCli(['train', 'rl', 'email-agent', ...flags], { fetch: service.fetch })
  expect([exitCode, service.requests]).toEqual([2, []])
  expect(stderr).toContain(message)
})

test('a loop measures, ends where everything is earned, and says so again without asking', async () => {
  const message = { role: 'assistant', content: '4', tool_calls: [] }
  const routes: Routes = {
    'GET /v1/preview/models': { body: page([MODEL]) },
    'GET /v1/preview/training-jobs': { body: page([]) },
    'POST /v1/preview/models': { body: MODEL },
    'POST /v1/chat/completions': {
      body: { choices: [{ index: 0, message, finish_reason: 'stop', token_ids: [9] }], prompt_token_ids: [1] },
    },
    [`POST /v1/preview/models/${MODEL.id}/log`]: { body: { metrics: { 'val/reward': 1 } } },
  }
  const argv = ['train', 'rl', 'email-agent', '--prompts', 'p.jsonl', '--held-out', 'held.jsonl']
  const first = scriptedService(routes)
  const { stdout, stderr, exitCode } = await runCli(argv, { fetch: first.fetch })
  expect([exitCode, stderr.includes('error')], stderr).toEqual([0, false])
  expect(stdout).toContain('Held-out reward 1 after 0 jobs; ended: held-out prompts earn all there is, nearly.')
  const logged = first.requests.find(({ path }) => path.endsWith('/log'))?.body as { measurement: string }
  expect(logged.measurement).toMatch(/^[0-9a-f]{32}$/)
  expect(JSON.parse(readFileSync('train-rl-email-agent.json', 'utf8'))).toMatchObject({ points: [{ reward: 1 }] })
  const second = scriptedService(routes)
  await runCli(argv, { fetch: second.fetch })
  expect(second.requests.some(({ path }) => path.endsWith('/completions'))).toBe(false)
})
