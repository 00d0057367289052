/** `jobs chart` and the figures of `jobs list`: curves on a terminal, rows in a pipe, the answer itself as JSON. */
import { expect, test } from 'vitest'
import type { ModelMetrics } from '#contract/wire/model-metrics.js'
import { type RunOptions, runCli } from '../../../support/service/run-cli.js'
import { JOB, MODEL, page, type Routes, scriptedService } from '../../../support/service/scripted-service.js'

const metrics: ModelMetrics = {
  object: 'model.metrics',
  model_id: MODEL.id,
  steps: [0, 1, 2],
  times: ['2026-11-20T09:00:00.000Z', '2026-11-20T09:01:00.000Z', '2026-11-20T09:02:00.000Z'],
  tokens: [0, 10, 20],
  job_ids: [null, null, null],
  session_ids: [null, null, null],
  series: { 'val/reward': [0.2, 0.5, 0.9], 'loss/train': [null, -1.5, -0.25] },
  keys: [
    { key: 'loss/train', source: 'job', split: 'loss', count: 2 },
    { key: 'val/reward', source: 'log', split: 'val', count: 3 },
  ],
}
const routes: Routes = {
  'GET /v1/preview/models': { body: page([MODEL]) },
  [`GET /v1/preview/models/${MODEL.id}/metrics`]: { body: metrics },
}
const run = (argv: readonly string[], options: RunOptions = {}) =>
  runCli(argv, { ...options, fetch: scriptedService(routes).fetch })

test.each([40, 80, 200])('a terminal of %i columns gets a curve a metric, none wider', async (columns) => {
  const { stdout } = await run(['jobs', 'chart', MODEL.name], { tty: true, columns })
  const lines = stdout.split('\n')
  expect(Math.max(...lines.map((line) => line.length))).toBeLessThanOrEqual(columns)
  expect(stdout).toContain('val/reward  0.2 to 0.9\n  1.00 ┤')
  expect(stdout).toContain('loss/train  -1.5 to -0.25\n  -0.25 ┤')
  expect(stdout.match(/●/g)).toHaveLength(5)
})

test('a pipe gets a row a step, --json the answer of the service', async () => {
  const piped = await run(['jobs', 'chart', MODEL.name])
  expect(piped.stdout).toBe('0\t0.2\t\n1\t0.5\t-1.5\n2\t0.9\t-0.25\n')
  const json = await run(['jobs', 'chart', MODEL.name, '--json'])
  expect(JSON.parse(json.stdout)).toEqual(metrics)
})

test('a metric that no step has is refused with those there are', async () => {
  const { stderr, exitCode } = await run(['jobs', 'chart', MODEL.name, '--metrics', 'val/rewards'])
  expect([exitCode, stderr]).toEqual([2, expect.stringContaining('hint: there are loss/train, val/reward')])
})

test('jobs list shows project, reward and loss', async () => {
  const report = {
    left_out: [],
    tokens: 1,
    trained_tokens: 1,
    seconds: {},
    validation: [],
    kept_gradient_step: null,
    stopped_early: false,
    facts: { reward: { mean: 0.75 }, loss: { mean: -0.125 } },
    remaining_seconds: null,
    warnings: [],
  }
  const service = scriptedService({ ...routes, 'GET /v1/preview/training-jobs': { body: page([{ ...JOB, report }]) } })
  const { stdout } = await runCli(['jobs', 'list'], { fetch: service.fetch, tty: true, columns: 160 })
  const [head, row] = stdout.split('\n')
  expect(head).toMatch(/^STATUS +KIND +PROJECT +MODEL +PROGRESS +REWARD +LOSS +STARTED/)
  expect(row).toMatch(new RegExp(`${MODEL.project} +${MODEL.name} .* 0\\.75 +-0\\.125 `))
})
