/** Numbers over HTTP with the real engine: from the body through threads and processes to prompt, grammar and answer, and back. */
import { afterAll, beforeAll, expect, it } from 'vitest'
import type { ChatChunk, ChatResponse } from '#contract/wire/chat-completions.js'
import { createTestService, type TestService } from '../../../support/service/create-test-service.js'

let service: TestService
beforeAll(async () => {
  service = await createTestService({ scripted: false, baseModels: ['trainyard/spark'], threads: 1 })
})
afterAll(() => service.dispose())

const GIVEN = '{"id": 2512292042121000001, "p": 5.0}'
const TOOLS =
  '[{"type": "function", "function": {"name": "f", "parameters": {"type": "object", "properties": {"id": {"type": "integer", ' +
  '"maximum": 9223372036854775807}, "p": {"type": "number", "default": 1.0}}}}}]'

async function post(path: string, body: string): Promise<Response> {
  return await service.fetch(path, { method: 'POST', body, headers: { 'content-type': 'application/json' } })
}

/** A request whose answer can only be this text. */
const forced = (text: string, more = ''): string =>
  `{"messages": [{"role": "user", "content": "Hi"}], "tools": ${TOOLS}, "max_tokens": 90, "temperature": 0, ${more}` +
  `"structured_outputs": {"choice": [${JSON.stringify(text)}]}}`
const CALL = `<tool_call>\n{"name": "f", "arguments": ${GIVEN}}\n</tool_call>`

it('the arguments of a call are those the model wrote, streamed or not', async () => {
  const whole = (await (await post('/v1/chat/completions', forced(CALL))).json()) as ChatResponse
  expect(whole.choices[0]).toMatchObject({
    finish_reason: 'tool_calls',
    message: { content: null, tool_calls: [{ function: { name: 'f', arguments: GIVEN } }] },
  })
  const stream = await (await post('/v1/chat/completions', forced(CALL, '"stream": true, '))).text()
  const chunks = stream
    .split('\n\n')
    .filter((line) => line.startsWith('data: {'))
    .map((line) => JSON.parse(line.slice(6)) as ChatChunk)
  const calls = chunks.flatMap((chunk) => chunk.choices[0]?.delta.tool_calls ?? [])
  expect(calls.map((call) => call.function.arguments ?? '').join('')).toBe(GIVEN)
})

it.each([
  '<tool_call>\n{"name": "At", "arguments": {"a": 1}}\n</tool_call>',
  '<tool_call>\n{"name": "f", "arguments": {city: Oslo}}\n</tool_call>',
  '<tool_call>\n{"name": "f"',
])('what is no call is text, streamed or not: %s', async (text) => {
  const whole = (await (await post('/v1/chat/completions', forced(text))).json()) as ChatResponse
  expect(whole.choices[0]).toMatchObject({ finish_reason: 'stop', message: { content: text, tool_calls: [] } })
  const stream = await (await post('/v1/chat/completions', forced(text, '"stream": true, '))).text()
  const chunks = stream
    .split('\n\n')
    .filter((line) => line.startsWith('data: {'))
    .map((line) => JSON.parse(line.slice(6)) as ChatChunk)
  expect(chunks.map((chunk) => chunk.choices[0]?.delta.content ?? '').join('')).toBe(text)
  expect(chunks.at(-1)?.choices[0]?.finish_reason).toBe('stop')
  expect(stream).not.toContain('tool_calls')
})

// a body of megabytes is read in a thread, and its prompt made in another
it.each([2, 2_000_000])('tools and history keep their numbers up to the prompt (%i characters)', async (length) => {
  const history =
    `{"role": "assistant", "content": null, "tool_calls": [{"id": "1", "type": "function", "function": {"name": "f", "arguments": ` +
    `"{\\"id\\":2512292042121000001,\\"p\\":5.0,\\"r\\":1e-7,\\"e\\":1e2}"}}, {"id": "2", "type": "function", "function": {"name": "f", ` +
    `"arguments": {"id": 2512292042121000001, "p": 5.0}}}]}`
  const body = `{"messages": [{"role": "user", "content": "${'x'.repeat(length)}"}, ${history}, {"role": "tool", "content": "ok"}], "tools": ${TOOLS}}`
  const { prompt } = (await (await post('/apply-template', body)).json()) as { prompt: string }
  expect(prompt).toContain('"arguments": {"id": 2512292042121000001, "p": 5.0, "r": 1e-07, "e": 100.0}}')
  expect(prompt).toContain(`"arguments": ${GIVEN}}`)
  expect(prompt).toContain('"maximum": 9223372036854775807}, "p": {"type": "number", "default": 1.0}')
})

it('an answer has the constants of its schema as they were written', async () => {
  const schema = '{"enum": [{"id": 2512292042121000001, "p": 5.0}]}'
  for (const constraint of [
    `"response_format": {"type": "json_schema", "json_schema": {"name": "x", "schema": ${schema}}}`,
    `"structured_outputs": {"json": ${JSON.stringify(schema)}}`,
    `"response_format": {"type": "structural_tag", "format": {"type": "json_schema", "json_schema": ${schema}}}`,
  ]) {
    const body = `{"messages": [{"role": "user", "content": "Hi"}], "max_tokens": 90, "temperature": 1.0, ${constraint}}`
    const answer = (await (await post('/v1/chat/completions', body)).json()) as ChatResponse
    expect(answer.choices[0]?.message.content, constraint).toBe('{"id":2512292042121000001,"p":5.0}')
  }
})

it('a response sends its tools and its format back with their numbers', async () => {
  const parameters =
    '{"type":"object","properties":{"a":{"type":"integer","maximum":9223372036854775807,"default":1.0}}}'
  const format = '{"type":"json_schema","name":"x","schema":{"const":5.0}}'
  const response = await post(
    '/v1/responses',
    `{"input": "Hi", "max_output_tokens": 20, "tool_choice": "none", "tools": [{"type": "function", "name": "f", "parameters": ${parameters}}], "text": {"format": ${format}}}`,
  )
  const text = await response.text()
  const { id } = JSON.parse(text) as { id: string }
  for (const sent of [text, await (await service.fetch(`/v1/responses/${id}`)).text()]) {
    expect(sent).toContain(`"parameters":${parameters}`)
    expect(sent).toContain(`"format":${format}`)
    expect(sent).toContain('"text":"5.0"')
  }
})

it('Anthropic’s messages have them too: tools, inputs that come back, inputs of an answer', async () => {
  const history =
    '{"role": "assistant", "content": [{"type": "tool_use", "id": "toolu_1", "name": "f", "input": {"id": 2512292042121000001, "p": 5.0}}]}, ' +
    '{"role": "user", "content": [{"type": "tool_result", "tool_use_id": "toolu_1", "content": "ok"}]}'
  const tools =
    '[{"name": "f", "input_schema": {"type": "object", "properties": {"p": {"const": 5.0}, "id": {"const": 2512292042121000001}}, "required": ["p", "id"], "additionalProperties": false}}]'
  const body = `{"model": "trainyard/spark", "max_tokens": 200, "temperature": 0, "messages": [{"role": "user", "content": "Hi"}, ${history}], "tools": ${tools}, "tool_choice": {"type": "tool", "name": "f"}}`
  const text = await (await post('/v1/messages', body)).text()
  expect(text).toContain('"input":{"p":5.0,"id":2512292042121000001}')
})
