/** `jobs trajectory` and `models evaluations`: flags without effect are refused, what a checkpoint scored is said as the server says it. */
import { expect, test } from 'vitest'
import { runCli } from '../../../support/service/run-cli.js'
import { JOB, MODEL, page, type Routes, scriptedService } from '../../../support/service/scripted-service.js'

async function run(argv: readonly string[], routes: Routes = {}) {
  const { fetch, requests } = scriptedService(routes)
  return { ...(await runCli([...argv], { fetch, env: { TRAINYARD_API_KEY: 'k' } })), requests }
}

test.each([
  [
    ['jobs', 'trajectory', JOB.id, '0', '0', '--sequence', '0'],
    '--sequence chooses whose tokens are shown, and none are asked for',
  ],
  [
    ['models', 'evaluations', 'email-agent', '--show', '9'],
    '--show counts prompts of a comparison, and none is asked for',
  ],
  [
    ['models', 'evaluations', 'email-agent', '--from', '1', '--to', '2', '--all'],
    '--all is for the list, and --from and --to ask for a comparison',
  ],
])('%j is refused before anything is asked', async (argv, message) => {
  const { exitCode, stderr, requests } = await run(argv)
  expect({ exitCode, requests }).toEqual({ exitCode: 2, requests: [] })
  expect(stderr.replaceAll(/\s+/g, ' ')).toContain(message)
})

test('the step that scored is the one of the answer, whatever word asked for it', async () => {
  const at = `GET /v1/preview/training-jobs/${JOB.id}/groups/0/trajectories/1`
  const range = { object: 'odd', group: 0, trajectory: 1, sequence: 2, from: 0, to: 1, length: 1 }
  const empty = { sampler_logprob: [-1], old_logprob: [null], learner_logprob: [-1], ratio: [1], is_clipped: [false] }
  const { stdout, stderr, exitCode, requests } = await run(
    ['jobs', 'trajectory', JOB.id, '0', '1', '--under', 'latest', '--sequence', '2', '--json'],
    {
      [`${at}/tokens`]: {
        body: {
          ...range,
          ...empty,
          gradient_step: 1,
          advantage: 1,
          weight: 1,
          clip: { low: null, high: null },
          ids: [5],
          texts: ['a'],
          bytes: [null],
          is_control: [false],
          is_trained: [true],
          entropy: [0],
          reference_logprob: [null],
        },
      },
      [`${at}/scores`]: { body: { ...range, step: 7, system_fingerprint: null, logprob: [-2] } },
      [`GET /v1/preview/training-jobs/${JOB.id}`]: { body: JOB },
    },
  )
  expect({ exitCode, stderr }).toEqual({ exitCode: 0, stderr: expect.any(String) })
  expect(JSON.parse(stdout)).toMatchObject([{ ids: [5], scores: { step: 7, logprob: [-2] } }])
  expect(requests.filter(({ path }) => /tokens|scores/.test(path)).map(({ query }) => query.get('sequence'))).toEqual([
    '2',
    '2',
  ])
})

test('evaluations are listed page by page', async () => {
  const log = { id: 'log-1', split: 'val', step: 1, metrics: { 'val/reward': 1 }, groups: 1, trajectories: 1 }
  const routes = {
    'GET /v1/preview/models': { body: page([MODEL]) },
    [`GET /v1/preview/models/${MODEL.id}/log`]: { body: page([{ ...log, created_at: MODEL.created_at }], true) },
  }
  const { stdout, stderr, requests } = await run(['models', 'evaluations', 'email-agent', '--limit', '1'], routes)
  expect(stdout).toContain('val')
  expect(stderr).toContain('more: trainyard models evaluations email-agent --limit 1 --after log-1')
  expect(requests.at(-1)?.query.get('limit')).toBe('1')
})
