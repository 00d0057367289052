/**
 * `chat_template_kwargs` of a job: what trains begins as the prompt of a chat with them, the checkpoint keeps them, and chats with it
 * have them through every door. Real processes on a random model with a thinking mode.
 */
import { mkdtemp, readFile, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, test } from 'vitest'
import type { JsonObject } from '#base/util/json.js'
import type { Checkpoint } from '#contract/wire/checkpoints.js'
import type { TrainingPlan } from '#contract/wire/training/plan.js'
import type { TrainingJob } from '#contract/wire/training-jobs.js'
import { createTestService, type TestService } from '../../../support/service/create-test-service.js'
import { templatedModel } from '../../../support/service/templated-model.js'

const ROUTES = {
  rl: '/v1/preview/training-jobs',
  sft: '/v1/preview/sft-training-jobs',
  dpo: '/v1/preview/dpo-training-jobs',
}
type Kind = keyof typeof ROUTES
interface Failure {
  readonly error?: { readonly code: string; readonly message: string; readonly param: string }
}

const QUESTION = { role: 'user', content: 'Why?' }
const OFF = { enable_thinking: false }
/** What the template writes where thinking is switched off. */
const EMPTY_BLOCK = '<think>\n\n</think>\n\n'

let folder: string
let service: TestService
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'trainyard-test-'))
  const template = await readFile(join(import.meta.dirname, '../../../fixtures/thinking.jinja'), 'utf8')
  const base = await templatedModel(folder, 'thinker', template)
  service = await createTestService({ scripted: false, baseModels: [base], threads: 1 })
})
afterAll(async () => {
  await service.dispose()
  await rm(folder, { recursive: true, force: true })
})

async function post<T>(path: string, json: JsonObject): Promise<T> {
  const { status, body } = await service.json<T & Failure>(path, { json })
  expect([status, body.error ?? null]).toEqual([200, null])
  return body
}

const createModel = async (name: string, json: JsonObject = { base_model: 'thinker' }): Promise<string> =>
  (await post<{ id: string }>('/v1/preview/models', { project: 'tests', name, ...json })).id

const address = (row: JsonObject): string => `data:application/jsonl,${encodeURIComponent(JSON.stringify(row))}`
const DATA: Readonly<Record<Kind, JsonObject>> = {
  rl: {
    trajectory_groups: [
      {
        trajectories: [0, 1].map((reward) => ({
          messages_and_choices: [QUESTION, { role: 'assistant', content: `No ${reward}.` }],
          reward,
        })),
      },
    ],
  },
  sft: { training_data_url: address({ messages: [QUESTION, { role: 'assistant', content: 'So.' }] }) },
  dpo: { training_data_url: address({ prompt: 'Why?', chosen: 'So.', rejected: 'No.' }) },
}
const requestOf = (kind: Kind, model_id: string, options: JsonObject): JsonObject => ({
  model_id,
  ...DATA[kind],
  [kind === 'rl' ? 'experimental_config' : 'config']: options,
})

const plan = (kind: Kind, modelId: string, options: JsonObject): Promise<TrainingPlan> =>
  post(`${ROUTES[kind]}?plan=true`, requestOf(kind, modelId, options))

async function train(kind: Kind, modelId: string, options: JsonObject): Promise<void> {
  const { id } = await post<TrainingJob>(ROUTES[kind], requestOf(kind, modelId, options))
  const job = await service.waitForJob(id)
  expect([job.status, job.error_message]).toEqual(['completed', null])
}

async function checkpoints(modelId: string): Promise<Checkpoint[]> {
  return (await service.json<{ data: Checkpoint[] }>(`/v1/preview/models/${modelId}/checkpoints`)).body.data
}

/** The prompt of a chat. */
const promptOf = async (model: string, kwargs?: JsonObject): Promise<string> => {
  const own = kwargs === undefined ? {} : { chat_template_kwargs: kwargs }
  return (await post<{ prompt: string }>('/apply-template', { model, messages: [QUESTION], ...own })).prompt
}

/** What stands before the first trained token, and the trained text. */
const textsOf = ({ sequences: [first] }: TrainingPlan): (string | undefined)[] => [
  first?.spans.find((span) => !span.is_trained)?.text,
  first?.spans.find((span) => span.is_trained)?.text,
]

test('what trains stands behind the prompt of a chat with the variables, and without any behind that of a default chat', async () => {
  const model = await createModel('planned')
  const [plain, off] = [await promptOf(model), await promptOf(model, OFF)]
  expect(off).toBe(plain + EMPTY_BLOCK)
  for (const kind of ['sft', 'dpo'] as const) {
    const silent = await plan(kind, model, { chat_template_kwargs: OFF })
    expect(silent).toMatchObject({ chat_template_kwargs: OFF, resolved_config: { chat_template_kwargs: OFF } })
    expect(textsOf(silent)).toEqual([off, 'So.<|im_end|>'])
    const thinking = await plan(kind, model, {})
    expect(thinking.chat_template_kwargs).toEqual({})
    expect(textsOf(thinking)).toEqual([plain, `${EMPTY_BLOCK}So.<|im_end|>`])
  }
})

test('chats with the checkpoint have its variables through every door, and say otherwise by name', async () => {
  const model = await createModel('silent')
  const before = await promptOf(model)
  const off = await promptOf(model, OFF)
  await train('sft', model, { chat_template_kwargs: OFF })
  expect((await checkpoints(model)).map((each) => each.chat_template_kwargs)).toEqual([OFF])
  expect(await promptOf(model)).toBe(off)
  expect(await promptOf(`${model}:step0`)).toBe(before)
  expect(await promptOf(model, { enable_thinking: true })).toBe(before)
  expect(await promptOf(model, { style: 'dry' })).toBe(off)

  const messages = [QUESTION]
  const { tokens } = await post<{ tokens: number[] }>('/tokenize', { model, messages })
  const chat = await post<{ prompt_token_ids: number[] }>('/v1/chat/completions', { model, messages, max_tokens: 1 })
  expect(chat.prompt_token_ids).toEqual(tokens)
  expect((await post<{ prompt: string }>('/detokenize', { model, tokens })).prompt).toBe(off)
  const { usage } = await post<{ usage: JsonObject }>('/v1/responses', { model, input: 'Why?', max_output_tokens: 1 })
  expect(usage['input_tokens']).toBe(tokens.length)
  const counted = await post<JsonObject>('/v1/messages/count_tokens', { model, messages })
  expect(counted['input_tokens']).toBe(tokens.length)
  const asked = await post<JsonObject>('/v1/messages/count_tokens', { model, messages, thinking: { type: 'enabled' } })
  expect(asked['input_tokens']).toBe((await post<{ count: number }>('/tokenize', { model: 'thinker', messages })).count)
})

test('jobs go on with the variables of the checkpoint that they begin from, unless they say otherwise; so does a fork', async () => {
  const model = await createModel('going-on')
  await train('dpo', model, { chat_template_kwargs: OFF })
  const off = await promptOf(model)
  const options = { allow_training_without_logprobs: true }
  const planned = await plan('rl', model, options)
  expect(planned.chat_template_kwargs).toEqual(OFF)
  expect(textsOf(planned)[0]).toBe(off)
  await train('rl', model, options)
  await train('sft', model, {})
  await train('sft', model, { chat_template_kwargs: {} })
  expect((await checkpoints(model)).map((each) => each.chat_template_kwargs)).toEqual([OFF, OFF, OFF, {}])
  const fork = await createModel('forked', { from_checkpoint: `${model}:step2` })
  expect((await checkpoints(fork)).map((each) => each.chat_template_kwargs)).toEqual([OFF])
  expect(await promptOf(fork)).toBe(off)
})

test('a variable that the template does not read is refused, in the plan and before the job is there, and so is one that is taken', async () => {
  const model_id = await createModel('refused')
  const options = { chat_template_kwargs: { enable_thinkng: false } }
  const message =
    'config.chat_template_kwargs.enable_thinkng is set, but the chat template of thinker does not read it: it reads enable_thinking'
  const json = requestOf('sft', model_id, options)
  const planned = await service.json<Failure>(`${ROUTES.sft}?plan=true`, { json })
  expect(planned).toMatchObject({ status: 422, body: { error: { code: 'unread_template_kwarg', message } } })
  const created = await service.json<Failure>(ROUTES.sft, { json })
  expect(created).toMatchObject({ status: 422, body: { error: { code: 'unread_template_kwarg', message } } })
  const taken = { json: requestOf('sft', model_id, { chat_template_kwargs: { messages: [] } }) }
  const { status, body } = await service.json<Failure>(ROUTES.sft, taken)
  expect([status, body.error?.code]).toEqual([422, 'invalid_value'])
  expect(body.error?.message).toContain('config.chat_template_kwargs.messages')
})
