/**
 * What a job's data says and nobody reads, and what it does not say: named in the plan and among the job's warnings; what the chat template
 * refuses, before there is a job. Real engine and worker.
 */
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, it } from 'vitest'
import type { JsonObject } from '#base/util/json.js'
import type { TrainingPlan } from '#contract/wire/training/plan.js'
import type { TrainingJob } from '#contract/wire/training-jobs.js'
import { createTestService, type TestService } from '../../../support/service/create-test-service.js'
import { templatedModel } from '../../../support/service/templated-model.js'

const PLAIN = `{%- for m in messages %}{{- '<' + m.role + '>' + m.content }}{%- endfor %}
{%- if add_generation_prompt %}{{- '<assistant>' }}{%- endif %}`

/** As many templates do: turns of the user and the assistant take each other's place. */
const STRICT = `{%- for m in messages %}{%- if (m.role == 'user') != (loop.index0 % 2 == 0) %}{{- raise_exception('Roles must alternate') }}{%- endif %}
{{- '<' + m.role + '>' + m.content }}{%- endfor %}{%- if add_generation_prompt %}{{- '<assistant>' }}{%- endif %}`

let folder: string
let service: TestService
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'trainyard-notes-'))
  const baseModels = [await templatedModel(folder, 'plain', PLAIN), await templatedModel(folder, 'strict', STRICT)]
  service = await createTestService({ scripted: false, threads: 1, baseModels })
})
afterAll(async () => {
  await service.dispose()
  await rm(folder, { recursive: true, force: true })
})

const address = (rows: readonly JsonObject[]): string =>
  `data:application/jsonl;base64,${Buffer.from(rows.map((row) => JSON.stringify(row)).join('\n')).toString('base64')}`
const user = { role: 'user', content: 'Hi' }
const answer = (content: string | null, more: JsonObject = {}): JsonObject => ({ role: 'assistant', content, ...more })
const config = { batch_size: 1, epochs: 1 }
const group = (more: JsonObject): JsonObject => ({
  trajectories: [1, 0].map((reward) => ({ messages_and_choices: [user, answer('Hello')], reward, ...more })),
})

/** The route, the body, what the plan and the job say, and what of it the answer to the request says: null is all. */
const kinds: readonly (readonly [string, JsonObject, readonly string[], readonly string[] | null])[] = [
  [
    'sft-training-jobs',
    {
      training_data_url: address([
        { messages: [user, answer('Hello', { reasoning_content: 'polite' })], source: 'web' },
        { messages: [user, answer(null, { refusal: 'No.' })] },
      ]),
      validation_data_url: address([{ messages: [user, answer('Hello')], source: 'web' }]),
      config,
    },
    [
      'fields that nothing reads: source (line 1), messages[].reasoning_content (line 1)',
      'older forms were converted: refusal as content (line 2)',
      'validation rows: fields that nothing reads: source (line 1)',
    ],
    [
      'fields that nothing reads: source (line 1)',
      'older forms were converted: refusal as content (line 2)',
      'validation rows: fields that nothing reads: source (line 1)',
    ],
  ],
  [
    'dpo-training-jobs',
    { training_data_url: address([{ prompt: 'Hi', chosen: 'Hello', rejected: 'no', score_chosen: 8.5 }]), config },
    ['fields that nothing reads: score_chosen (line 1)'],
    null,
  ],
  [
    'training-jobs',
    {
      trajectory_groups: [group({ mood: 'good', metadata: { half: '\ud83d' } })],
      experimental_config: { allow_training_without_logprobs: true },
    },
    [
      'fields that nothing reads: trajectories[].mood (2 times, first trajectory_groups[0].trajectories[0])',
      '1 text has half of a surrogate pair (an escape such as \\ud83d alone), which is read as U+FFFD (trajectory_groups[0])',
    ],
    null,
  ],
]
it.each(kinds)('%s', async (route, body, sentences, atOnce) => {
  const made = await service.json<{ id: string }>('/v1/preview/models', {
    json: { project: 'tests', name: route, base_model: 'plain' },
  })
  const json = { model_id: made.body.id, ...body }
  const plan = await service.json<TrainingPlan>(`/v1/preview/${route}?plan=true`, { json })
  expect(plan.body.warnings).toEqual(expect.arrayContaining([...sentences]))
  const created = await service.json<TrainingJob>(`/v1/preview/${route}`, { json })
  expect(created.body.warnings).toEqual(expect.arrayContaining([...(atOnce ?? sentences)]))
  const job = await service.waitForJob(created.body.id)
  expect(job.status).toBe('completed')
  expect(job.warnings).toEqual(expect.arrayContaining([...sentences]))
  expect(new Set(job.warnings).size).toBe(job.warnings.length)
})

it.each([
  ['sft-training-jobs', { messages: [user, answer('a')] }, { messages: [user, user, answer('a')] }, {}],
  [
    'dpo-training-jobs',
    { prompt: 'q', chosen: 'a', rejected: 'b' },
    { prompt: [user, user], chosen: 'a', rejected: 'b' },
    {},
  ],
  [
    'dpo-training-jobs',
    { prompt: 'q', completion: 'a', label: 1 },
    { prompt: [user, user], completion: [answer('a')], label: 0 },
    { loss_type: 'kto', batch_size: 2 },
  ],
])('what the chat template refuses is said before there is a job: %s', async (route, good, bad, more) => {
  const created = await service.json<{ id: string }>('/v1/preview/models', {
    json: { project: 'tests', name: `strict-${route}-${Object.keys(more).length}`, base_model: 'strict' },
  })
  const model_id = created.body.id
  const ask = (train: readonly JsonObject[], validate: readonly JsonObject[]) =>
    service.json<TrainingJob & { error?: { code: string; message: string } }>(`/v1/preview/${route}`, {
      json: {
        model_id,
        training_data_url: address(train),
        validation_data_url: address(validate),
        config: { ...config, ...more },
      },
    })
  const refused = await ask([bad, bad], [good])
  expect([refused.status, refused.body.error?.code]).toEqual([400, 'unrenderable_example'])
  expect(refused.body.error?.message).toMatch(/^Line 1 cannot be rendered by the chat template: .*Roles must alternate/)
  const validation = await ask([good], [bad])
  expect(validation.body.error?.message).toMatch(/^validation_data_url: Line 1 cannot be rendered/)
  const jobs = await service.json<{ data: unknown[] }>(`/v1/preview/training-jobs?model_id=${model_id}`)
  expect(jobs.body.data).toEqual([])
  // what the job does without is said, too
  const { body } = await ask([good, bad, good], [good, good])
  expect(body.warnings).toEqual(
    expect.arrayContaining([expect.stringMatching(/^1 of 3 rows will be left out: Line 2 /)]),
  )
  expect((await service.waitForJob(body.id)).status).toBe('completed')
})
