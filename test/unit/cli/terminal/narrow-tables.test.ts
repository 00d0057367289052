/** Lists in a terminal of 60 and of 40 columns: nothing runs over the edge but ids in full, and what stays is what is typed. */
import { expect, test } from 'vitest'
import { runCli } from '../../../support/service/run-cli.js'
import { checkpoint, JOB, MODEL, page, scriptedService } from '../../../support/service/scripted-service.js'

const time = '2026-11-20T09:12:44.000Z'
const webhook = {
  id: JOB.id,
  object: 'webhook',
  url: 'https://example.com/hooks/a/long/path/that/goes/on',
  events: ['training_job.completed', 'training_job.failed'],
  project: null,
  created_at: time,
}
const delivery = {
  id: JOB.id,
  type: 'training_job.completed',
  status: 'delivered',
  attempts: 1,
  response_status: 200,
  error: null,
  next_attempt_at: null,
  created_at: time,
}
const key = {
  object: 'api_key',
  id: JOB.id,
  name: 'robot',
  key_prefix: 'ty_e1g4',
  entity: 'local',
  project: 'games',
  scope: 'admin',
  created_at: time,
  expires_at: null,
  last_used_at: time,
  is_current: false,
}
const counts = { requests: 281, prompt_tokens: 8430, cached_tokens: 3840, completion_tokens: 945, training_seconds: 4 }
const used = { day: '2026-11-24', project: 'default', model: 'local/default/orders', ...counts }
const service = scriptedService({
  'GET /v1/preview/models': { body: page([MODEL]) },
  'GET /v1/preview/training-jobs': { body: page([{ ...JOB, status: 'completed' }]) },
  [`GET /v1/preview/models/${MODEL.id}/checkpoints`]: {
    body: page([checkpoint(1, { 'val/reward': 0.5, 'train/reward': 0.256, 'loss/train': -0.136 })]),
  },
  'GET /v1/preview/webhooks': { body: page([webhook]) },
  [`GET /v1/preview/webhooks/${JOB.id}/deliveries`]: { body: page([delivery]) },
  'GET /v1/preview/keys': { body: page([key]) },
  'GET /v1/usage': {
    body: { object: 'usage', from: '2026-11-24', to: '2026-11-24', data: [used], total: counts, is_truncated: false },
  },
})
const shortId = JOB.id.slice(-8)

test.each([
  [60, ['models', 'list'], 'email-agent'],
  [40, ['models', 'list'], 'email-agent'],
  [60, ['jobs', 'list'], shortId],
  [40, ['jobs', 'list'], shortId],
  [60, ['checkpoints', 'list', 'email-agent'], '0.256'],
  [40, ['checkpoints', 'list', 'email-agent'], '0.5'],
  [60, ['webhooks', 'list'], JOB.id],
  [60, ['webhooks', 'deliveries', JOB.id], JOB.id],
  [60, ['keys', 'list'], 'robot'],
  [40, ['keys', 'list'], 'robot'],
  [60, ['usage'], '8430'],
  [40, ['usage'], '8430'],
  [60, ['config', 'list'], 'trust-request-chat-template'],
  [40, ['config', 'list'], 'trust-request-chat-template'],
])('%i columns: %j', async (columns, argv, shown) => {
  const { stdout, stderr, exitCode } = await runCli(argv, { fetch: service.fetch, tty: true, columns })
  expect(exitCode, stderr).toBe(0)
  expect(stdout.split('\n').filter((line) => line.length > columns)).toEqual([])
  expect(stdout).toContain(shown)
})

test('what was left out is said, once, and is there where it fits', async () => {
  const narrow = await runCli(['jobs', 'list'], { fetch: service.fetch, tty: true, columns: 60 })
  expect(narrow.stdout).not.toContain('DURATION')
  expect(narrow.stderr).toContain('left out to fit the terminal')
  const wide = await runCli(['jobs', 'list'], { fetch: service.fetch, tty: true, columns: 120 })
  expect([wide.stdout, wide.stderr]).toEqual([expect.stringContaining('DURATION'), ''])
})

test('the command for the next page stays whole, for copying, and says what this one said', async () => {
  const next = scriptedService({
    'GET /v1/preview/models': { body: page([MODEL]) },
    [`GET /v1/preview/models/${MODEL.id}/checkpoints`]: { body: page([checkpoint(1, {})], true) },
  })
  const project = ['--project', MODEL.project]
  const argv = ['checkpoints', 'list', 'email-agent', '--metrics', 'val/reward', '--limit', '1', ...project]
  const { stderr } = await runCli(argv, { fetch: next.fetch, tty: true, columns: 60 })
  const command = `checkpoints list email-agent --order asc --metrics val/reward --limit 1 ${project.join(' ')} --after`
  expect(stderr).toContain(`more: trainyard ${command} `)
})
