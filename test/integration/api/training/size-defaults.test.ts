/**
 * Rates and limits follow the parameters that the server reads from a model's files, through every door, whatever it is called; the
 * record of a job says what it runs with.
 */
import { cp, mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, test } from 'vitest'
import type { TrainingJob } from '#contract/wire/training-jobs.js'
import { sparkDirectory } from '#model/built-in/spark.js'
import { createClient, TrainableModel, Trajectory, TrajectoryGroup } from '../../../../src/rl.js'
import { createTestService, type TestService } from '../../../support/service/create-test-service.js'

const WARNING =
  'a learning rate of 5e-6 hardly moves a base model of 4.5 million parameters: 1e-3 was measured for this size (experimental_config.learning_rate)'

let folder: string
let service: TestService
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'trainyard-test-'))
  await cp(sparkDirectory(), join(folder, 'weights'), { recursive: true })
  // a name that tells another size: it is not asked
  service = await createTestService({ baseModels: [{ name: 'my-model-7b', sourcePath: join(folder, 'weights') }] })
})
afterAll(async () => {
  await service.dispose()
  await rm(folder, { recursive: true, force: true })
})

async function createModel(name: string): Promise<string> {
  const json = { name, project: 'tests', base_model: 'my-model-7b' }
  return (await service.json<{ id: string }>('/v1/preview/models', { json })).body.id
}

const trajectory = (reward: number) => ({
  messages_and_choices: [
    { role: 'user', content: 'q' },
    {
      index: 0,
      finish_reason: 'stop',
      message: { role: 'assistant', content: 'a' },
      prompt_token_ids: [7],
      token_ids: [8],
    },
  ],
  reward,
})
const GROUPS = [{ trajectories: [trajectory(0), trajectory(1)] }]

test('the library sends what was measured for the size, and the record has every option', async () => {
  const client = createClient({ baseUrl: service.url, apiKey: service.apiKey })
  const model = await new TrainableModel(client, { name: 'library', baseModel: 'my-model-7b' }).register()
  const groups = [0, 1].map((reward) => {
    const played = new Trajectory([{ role: 'user', content: 'q' }])
    played.add({ role: 'assistant', content: 'a' })
    played.reward = reward
    return played
  })
  const told: string[] = []
  const { jobId } = await model.train([new TrajectoryGroup(groups)], { onWarning: (text) => void told.push(text) })
  const { body: job } = await service.json<TrainingJob>(`/v1/preview/training-jobs/${jobId}`)
  const sent = { learning_rate: 1e-3, advantage_balance: 1, target_kl: 0.2, tokens_per_step: 384 }
  expect(job.config).toEqual(sent)
  expect(job.resolved_config).toMatchObject({ ...sent, loss_fn: 'cispo', epsilon_high: 4, scale_rewards: true })
  expect(told.join()).not.toContain('learning rate')
})

test('the API keeps its own default, says which rate was measured, and shows what the job runs with', async () => {
  const model_id = await createModel('api')
  const json = { model_id, trajectory_groups: GROUPS }
  const { body: job } = await service.json<TrainingJob>('/v1/preview/training-jobs', { json })
  expect(job.config).toEqual({})
  expect(job.resolved_config).toMatchObject({ learning_rate: 5e-6, target_kl: null, tokens_per_step: null })
  expect(job.warnings).toContain(WARNING)
  expect((await service.waitForJob(job.id)).warnings).toContain(WARNING)
  const { body: list } = await service.json<{ data: TrainingJob[] }>(`/v1/preview/training-jobs?model_id=${model_id}`)
  expect(list.data[0]?.warnings).toContain(WARNING)
})

test('the fine-tuning API multiplies the same rates', async () => {
  for (const [method, row, rate] of [
    ['supervised', { messages: ['user', 'assistant'].map((role) => ({ role, content: role })) }, 2e-3],
    ['dpo', { prompt: 'q', chosen: 'a', rejected: 'b' }, 2e-4],
  ] as const) {
    const form = new FormData()
    form.set('purpose', 'fine-tune')
    form.set('file', new Blob([`${JSON.stringify(row)}\n`]), 'rows.jsonl')
    const file = (await (await service.fetch('/v1/files', { method: 'POST', body: form })).json()) as { id: string }
    const hyperparameters = { learning_rate_multiplier: 2, n_epochs: 1 }
    const json = {
      model: 'my-model-7b',
      training_file: file.id,
      method: { type: method, [method]: { hyperparameters } },
    }
    const { status, body } = await service.json<{ id: string }>('/v1/fine_tuning/jobs', { json })
    expect([status, body]).toMatchObject([200, { object: 'fine_tuning.job' }])
    const { body: jobs } = await service.json<{ data: TrainingJob[] }>('/v1/preview/training-jobs?limit=1')
    expect(jobs.data[0]?.config['learning_rate']).toBe(rate)
    expect(jobs.data[0]?.warnings).toEqual([])
  }
})
