/**
 * The published request fields one by one: each is read, so that a value of another type is refused by its name, and null is "not
 * given"; each stands in the pages or is OpenAI's own. What the fields do is tested beside this file.
 */
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { packageRoot } from '#base/util/package-root.js'
import { chatRequestSchema } from '#contract/wire/chat-completions.js'
import { createTestService, type TestService } from '../../../support/service/create-test-service.js'

/** By type: a value that none of these fields takes. */
const WRONG = {
  number: ['x', []],
  boolean: ['maybe', 7],
  text: [7, {}],
  object: ['x', 7],
  list: [7, { a: 1 }],
} as const

const PUBLISHED: Readonly<Record<keyof typeof WRONG, readonly string[]>> = {
  number: [
    'frequency_penalty',
    'presence_penalty',
    'top_logprobs',
    'max_tokens',
    'max_completion_tokens',
    'n',
    'seed',
    'temperature',
    'top_p',
    'top_k',
    'min_p',
    'repetition_penalty',
    'length_penalty',
    'min_tokens',
    'truncate_prompt_tokens',
    'prompt_logprobs',
    'priority',
  ],
  boolean: [
    'logprobs',
    'stream',
    'include_reasoning',
    'parallel_tool_calls',
    'use_beam_search',
    'include_stop_str_in_output',
    'ignore_eos',
    'skip_special_tokens',
    'spaces_between_special_tokens',
    'echo',
    'add_generation_prompt',
    'continue_final_message',
    'add_special_tokens',
    'return_tokens_as_token_ids',
    'return_token_ids',
  ],
  text: ['model', 'reasoning_effort', 'user', 'chat_template', 'request_id', 'cache_salt'],
  object: [
    'response_format',
    'stream_options',
    'chat_template_kwargs',
    'mm_processor_kwargs',
    'structured_outputs',
    'kv_transfer_params',
    'engine_xargs',
    'repetition_detection',
  ],
  list: ['messages', 'tools', 'stop_token_ids', 'allowed_token_ids', 'bad_words', 'documents'],
}
/** Of two types. */
const OTHERS: Readonly<Record<string, readonly unknown[]>> = {
  stop: [7, {}],
  tool_choice: [7, []],
  logit_bias: ['x', 7],
}

const cases: readonly (readonly [string, readonly unknown[]])[] = [
  ...Object.entries(PUBLISHED).flatMap(([type, names]) =>
    names.map((name) => [name, WRONG[type as keyof typeof WRONG]] as const),
  ),
  ...Object.entries(OTHERS),
]

let service: TestService
beforeAll(async () => {
  service = await createTestService({ baseModels: ['trainyard/spark'] })
})
afterAll(() => service.dispose())

const messages = [{ role: 'user', content: 'hi' }]
const ask = (json: object) =>
  service.json<{ error: { message: string; param: string | null } }>('/v1/chat/completions', { json })

describe('every published field', () => {
  it.each(cases)('%s', async (name, wrong) => {
    for (const value of wrong) {
      for (const stream of name === 'stream' ? [{}] : [{}, { stream: true }]) {
        const { status, body } = await ask({ messages, max_tokens: 2, ...stream, [name]: value })
        expect(status, JSON.stringify(value)).toBe(400)
        expect(`${body.error.param} ${body.error.message}`).toContain(name)
      }
    }
    if (name === 'messages') return
    const { status, body } = await ask({ messages, max_tokens: 2, [name]: null })
    expect(status, JSON.stringify(body)).toBe(200)
  })
})

it('SageMaker’s name for the route answers the same', async () => {
  const given = { messages, max_tokens: 4, seed: 1, request_id: 'one' }
  const [chat, other] = await Promise.all(
    ['/v1/chat/completions', '/invocations'].map((path) =>
      service.json<{ id: string; choices: unknown }>(path, { json: given }),
    ),
  )
  expect([other?.status, other?.body.id, other?.body.choices]).toEqual([200, 'chatcmpl-one', chat?.body.choices])
})

it('no field of the request is without a word in the pages', () => {
  const pages = readFileSync(join(packageRoot(), 'src/docs/reference/api.md'), 'utf8')
  const published = new Set(cases.map(([name]) => name))
  const silent = Object.keys(chatRequestSchema.shape).filter((name) => !published.has(name) && !pages.includes(name))
  expect(silent).toEqual([])
})
