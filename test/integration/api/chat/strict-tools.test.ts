/**
 * Strict tools of a model's own accord, with the built-in model and over all three APIs: it talks as it does without them, and where it
 * calls, its arguments are the schema's; whole and streamed, with several choices and log-probabilities. What cannot be held is said.
 */
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Ajv } from 'ajv'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { chatAnswers } from '../../../support/service/chat-answers.js'
import { createTestService, type TestService } from '../../../support/service/create-test-service.js'
import { templatedModel } from '../../../support/service/templated-model.js'

const SPARK = 'trainyard/spark'
const IGNORED = 'x-trainyard-ignored-fields'
const CODER =
  "{% if tools %}{{ tools | tojson }}{% endif %}{{ '<tool_call><function=><parameter='[:0] }}{% for m in messages %}{{ m.content }}{% endfor %}"

let service: TestService
let folder: string
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'trainyard-test-'))
  const coder = await templatedModel(folder, 'coder', CODER)
  service = await createTestService({ scripted: false, threads: 1, trainWorkers: 0, baseModels: [SPARK, coder] })
})
afterAll(async () => {
  await service.dispose()
  await rm(folder, { recursive: true, force: true, maxRetries: 20 })
})

/** Not what the model learned: left to itself it writes the city that it is asked for, and no unit. */
const SCHEMA = {
  type: 'object',
  properties: { city: { enum: ['Oslo', 'Lima'] }, unit: { enum: ['c', 'f'] } },
  required: ['city', 'unit'],
  additionalProperties: false,
}
const isValid = new Ajv().compile(SCHEMA)
const tool = (more: object = { strict: true }, parameters: object = SCHEMA) => ({
  type: 'function',
  function: { name: 'get_weather', description: 'Weather of a city', parameters, ...more },
})
const QUESTION = 'What is the weather in Paris?'
const asking = (content: string) => [{ role: 'user', content }]
const { both, plain } = chatAnswers(() => service, {
  model: SPARK,
  messages: asking(QUESTION),
  tools: [tool()],
  temperature: 0,
  max_tokens: 100,
})

describe('over chat', () => {
  it('arguments are those of the schema, which the model left to itself violates', async () => {
    const [free] = (await plain({ tools: [tool({})] })).choices
    expect(free?.message.tool_calls.map((call) => JSON.parse(call.function.arguments))).toEqual([{ city: 'Paris' }])
    const [choice] = (await both({})).choices
    expect(choice).toMatchObject({ finish_reason: 'tool_calls', message: { content: null } })
    expect(choice?.message.tool_calls).toHaveLength(1)
    const { name, arguments: given } = choice?.message.tool_calls[0]?.function ?? { name: '', arguments: '' }
    expect(name).toBe('get_weather')
    expect(isValid(JSON.parse(given)), given).toBe(true)
  })

  it('an answer without a call is token for token the one without strict, log-probabilities too', async () => {
    const talk = {
      messages: asking('Hello there! How are you?'),
      logprobs: true,
      top_logprobs: 2,
      return_token_ids: true,
    }
    // the prompt shows tools as they are sent, so they are sent alike: one choice calls, and none may
    const strict = await both(talk)
    const loose = await plain({ ...talk, tool_choice: 'none' })
    expect(strict.choices[0]?.message.tool_calls).toEqual([])
    expect(strict.choices[0]?.message.content).toBe(loose.choices[0]?.message.content)
    expect(strict.choices[0]?.token_ids).toEqual(loose.choices[0]?.token_ids)
    for (const [i, entry] of (strict.choices[0]?.logprobs?.content ?? []).entries()) {
      expect(Math.abs((loose.choices[0]?.logprobs?.content?.[i]?.logprob ?? 0) - entry.logprob)).toBeLessThan(1e-3)
    }
  })

  it('several choices, at temperature 1, with log-probabilities', async () => {
    const { choices } = await both({ n: 6, temperature: 1, seed: 5, logprobs: true, top_logprobs: 3 })
    const calls = choices.flatMap(({ message }) => message.tool_calls)
    expect(calls.length).toBeGreaterThan(2)
    for (const { function: called } of calls) {
      expect(called.name).toBe('get_weather')
      expect(isValid(JSON.parse(called.arguments)), called.arguments).toBe(true)
    }
    for (const { logprobs } of choices) {
      for (const { logprob } of logprobs?.content ?? []) expect(logprob).toBeLessThanOrEqual(0)
    }
  })

  it('a budget that ends inside a call leaves no call', async () => {
    const [choice] = (await plain({ max_tokens: 12 })).choices
    expect(choice).toMatchObject({ finish_reason: 'length', message: { tool_calls: [] } })
  })

  it('a schema that cannot be held as a whole is refused, as where a call is required', async () => {
    const tools = [tool({ strict: true }, { type: 'object', properties: { days: { type: 'integer', multipleOf: 7 } } })]
    for (const tool_choice of ['auto', 'required']) {
      const { status, body } = await service.json<{ error: { message: string } }>('/v1/chat/completions', {
        json: { model: SPARK, messages: asking(QUESTION), tools, tool_choice },
      })
      expect(status).toBe(400)
      expect(body.error).toMatchObject({ param: 'tools' })
      expect(body.error.message).toContain('multipleOf')
    }
  })

  it('beside a strict tool what others are not held to is named, and checked at the end', async () => {
    const other = {
      name: 'plan',
      parameters: { type: 'object', properties: { days: { type: 'integer', multipleOf: 7 } } },
    }
    const json = { model: SPARK, messages: asking(QUESTION), tools: [tool(), { type: 'function', function: other }] }
    const response = await service.fetch('/v1/chat/completions', { json: { ...json, temperature: 0, max_tokens: 100 } })
    expect(response.status).toBe(200)
    expect(response.headers.get(IGNORED)).toBe('tools.multipleOf')
    const body = (await response.json()) as { choices: readonly object[] }
    expect(body.choices[0]).toMatchObject({ 'x-trainyard-schema-violations': [] })
  })

  it.each([
    ['a form whose arguments are not written as JSON', { model: 'coder' }],
    ['beams', { model: SPARK, use_beam_search: true, n: 2 }],
    ['another constraint', { model: SPARK, structured_outputs: { choice: ['yes'] } }],
  ])('strict is said to be ignored: %s', async (_, more) => {
    const json = { messages: asking(QUESTION), tools: [tool()], max_tokens: 3, temperature: 0, ...more }
    const response = await service.fetch('/v1/chat/completions', { json })
    expect(response.status, await response.clone().text()).toBe(200)
    expect(response.headers.get(IGNORED)).toBe('tools.strict')
  })
})

describe('over the other APIs', () => {
  const { description, name } = tool().function

  it('responses', async () => {
    const tools = [{ type: 'function', name, description, parameters: SCHEMA, strict: true }]
    const json = { model: SPARK, input: QUESTION, tools, temperature: 0, max_output_tokens: 100 }
    const { status, body } = await service.json<{ output: readonly { type: string; arguments: string }[] }>(
      '/v1/responses',
      { json },
    )
    expect(status, JSON.stringify(body)).toBe(200)
    const [call] = body.output.filter(({ type }) => type === 'function_call')
    expect(isValid(JSON.parse(call?.arguments ?? '{}')), JSON.stringify(body.output)).toBe(true)
  })

  it('messages', async () => {
    const tools = [{ name, description, input_schema: SCHEMA, strict: true }]
    const json = { model: SPARK, messages: asking(QUESTION), tools, temperature: 0, max_tokens: 100 }
    const response = await service.fetch('/v1/messages', { json })
    expect(response.status).toBe(200)
    expect(response.headers.get(IGNORED)).toBeNull()
    const body = (await response.json()) as { content: readonly { type: string; input: object }[] }
    const [call] = body.content.filter(({ type }) => type === 'tool_use')
    expect(isValid(call?.input), JSON.stringify(body.content)).toBe(true)
  })

  it('neither shows strict to the template', async () => {
    const count = async (path: string, json: object, field: string) =>
      (await service.json<Record<string, number>>(path, { json })).body[field]
    const messages = (strict: object) => ({
      model: SPARK,
      messages: asking(QUESTION),
      tools: [{ name, description, input_schema: SCHEMA, ...strict }],
    })
    const responses = (strict: object) => ({
      model: SPARK,
      input: QUESTION,
      tools: [{ type: 'function', name, description, parameters: SCHEMA, ...strict }],
    })
    for (const [path, body] of [
      ['/v1/messages/count_tokens', messages],
      ['/v1/responses/input_tokens', responses],
    ] as const) {
      const counts = await Promise.all(
        [{}, { strict: true }].map((strict) => count(path, body(strict), 'input_tokens')),
      )
      expect(counts[0], path).toBeGreaterThan(0)
      expect(counts[1], path).toBe(counts[0])
    }
  })
})
