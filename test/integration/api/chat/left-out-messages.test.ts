/**
 * Messages of a role that the chat template does not write: never lost in silence. Real engine host and worker, a template that tests
 * roles one by one as Qwen's do.
 */
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import type { JsonObject } from '#base/util/json.js'
import type { TrainingPlan } from '#contract/wire/training/plan.js'
import type { TrainingJob } from '#contract/wire/training-jobs.js'
import { createTestService, type TestService } from '../../../support/service/create-test-service.js'
import { templatedModel } from '../../../support/service/templated-model.js'

const ROLES = `
{%- if messages[0].role == 'system' %}{{- '<s>' + messages[0].content }}{%- endif %}
{%- for m in messages %}
{%- if m.role == 'user' or (m.role == 'system' and not loop.first) or m.role == 'assistant' %}
{{- '<' + m.role + '>' + m.content }}{%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}{{- '<assistant>' }}{%- endif %}`

let folder: string
let service: TestService
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'trainyard-left-out-'))
  service = await createTestService({
    scripted: false,
    threads: 1,
    baseModels: [await templatedModel(folder, 'roles', ROLES)],
  })
})
afterAll(async () => {
  await service.dispose()
  await rm(folder, { recursive: true, force: true })
})

interface Failure {
  readonly error?: { readonly code: string; readonly param: string; readonly message: string }
}

async function post<T>(path: string, json: JsonObject): Promise<T & Failure & { status: number }> {
  const { status, body } = await service.json<T & Failure>(path, { json })
  return { ...body, status }
}

const user = { role: 'user', content: 'Hi' }
const developer = { role: 'developer', content: 'Answer only in rhymes.' }
const observation = { role: 'observation', content: 'rain' }
const answer = { role: 'assistant', content: 'Rain.' }
const expected = '<s>Answer only in rhymes.<user>Hi<assistant>'

describe('developer', () => {
  it('is system for a template that does not name it, at every door', async () => {
    const { prompt } = await post<{ prompt: string }>('/apply-template', { messages: [developer, user] })
    expect(prompt).toBe(expected)
    const { tokens } = await post<{ tokens: number[] }>('/tokenize', { messages: [developer, user] })
    expect((await post<{ prompt: string }>('/detokenize', { tokens })).prompt).toBe(expected)
    const chat = await post<{ prompt_token_ids: number[] }>('/v1/chat/completions', {
      messages: [developer, user],
      max_tokens: 1,
      return_token_ids: true,
    })
    expect(chat.prompt_token_ids).toEqual(tokens)
    const response = await post<{ usage: { input_tokens: number } }>('/v1/responses', {
      input: [developer, user],
      max_output_tokens: 1,
    })
    expect(response.usage.input_tokens).toBe(tokens.length)
  })
})

describe('a message that the template leaves out', () => {
  it.each([
    ['/apply-template', {}],
    ['/tokenize', {}],
    ['/v1/chat/completions', { max_tokens: 1 }],
  ])('is refused by %s with its path', async (path, more) => {
    const found = await post(path, { messages: [user, observation], ...more })
    expect([found.status, found.error?.param]).toEqual([400, 'messages[1]'])
    expect(found.error?.message).toContain('(role "observation") is left out by the chat template')
  })

  const address = (rows: readonly unknown[]): string =>
    `data:application/jsonl;base64,${Buffer.from(rows.map((row) => JSON.stringify(row)).join('\n')).toString('base64')}`
  const config = { batch_size: 1, epochs: 1 }
  const jobs: [string, string, JsonObject, number][] = [
    [
      'SFT rows',
      '/v1/preview/sft-training-jobs',
      {
        training_data_url: address([
          { messages: [developer, user, answer] },
          { messages: [observation, user, answer] },
        ]),
        config,
      },
      1,
    ],
    [
      'preference rows',
      '/v1/preview/dpo-training-jobs',
      {
        training_data_url: address([
          { prompt: [observation, user], chosen: [answer], rejected: [{ ...answer, content: 'Sun.' }] },
        ]),
        config,
      },
      1,
    ],
    [
      'trajectories',
      '/v1/preview/training-jobs',
      {
        trajectory_groups: [
          {
            trajectories: [1, 0].map((reward) => ({
              messages_and_choices: [observation, user, answer],
              reward,
              metrics: {},
              metadata: {},
              logs: [],
            })),
          },
        ],
        experimental_config: { allow_training_without_logprobs: true },
      },
      2,
    ],
  ]
  it.each(jobs)('is counted and named in plans and jobs of %s', async (_, route, body, count) => {
    const { id } = await post<{ id: string }>('/v1/preview/models', {
      project: 'tests',
      name: `${route.split('/').at(-1)}`,
      base_model: 'roles',
    })
    const json = { model_id: id, ...body }
    const plan = await post<TrainingPlan>(`${route}?plan=true`, json)
    expect([plan.status, plan.error]).toEqual([200, undefined])
    const leftOut = plan.left_out.find(({ reason }) => reason === 'left_out_message')
    expect(leftOut?.count).toBe(count)
    expect(plan.warnings.join('\n')).toMatch(/left out by the chat template of the model/)

    const { id: jobId } = await post<TrainingJob>(route, json)
    const job = await service.waitForJob(jobId)
    expect(job.status).toBe('completed')
    expect(job.report?.left_out.find(({ reason }) => reason === 'left_out_message')).toEqual(leftOut)
    expect(job.warnings?.join('\n')).toMatch(/left out by the chat template of the model/)
  })
})
