/** A call whose arguments are no JSON, as messages and responses show it: whole where the model ended it, left out or incomplete where it was cut. */
import { expect, test } from 'vitest'
import type { ChatChunk } from '#contract/wire/chat-completions.js'
import { toChatMessages } from '#plugins/messages/message-input.js'
import { createMessageBuilder } from '#plugins/messages/message-stream.js'
import { createResponseBuilder } from '#plugins/responses/response-stream.js'
import type { Response } from '#plugins/responses/wire.js'

function chunk(delta: ChatChunk['choices'][number]['delta'], finishReason: string | null = null): ChatChunk {
  const choice = { index: 0, delta, logprobs: null, finish_reason: finishReason }
  return { id: 'x', object: 'chat.completion.chunk', created: 1, model: 'm', choices: [choice] }
}

function chunksOf(given: string, finishReason: string): ChatChunk[] {
  const begun = { index: 0, id: 'call', type: 'function' as const, function: { name: 'f', arguments: given } }
  return [
    chunk({ role: 'assistant', content: '' }),
    chunk({ tool_calls: [begun] }),
    chunk({ content: '' }, finishReason),
  ]
}

function messageOf(given: string, finishReason: string) {
  const builder = createMessageBuilder({ id: 'x', model: 'm' }, { createId: (prefix) => prefix, hasTokens: false })
  for (const each of chunksOf(given, finishReason)) builder.add(each)
  builder.end()
  return builder.message()
}

function itemOf(given: string, finishReason: string) {
  const options = { hasLogprobs: false, hasTokens: false, createId: (prefix: string) => prefix }
  const builder = createResponseBuilder({ output: [] as unknown } as Response, options)
  const events = chunksOf(given, finishReason).flatMap((each) => builder.add(each))
  events.push(...builder.end(1))
  return { item: builder.response().output[0], types: events.map(({ type }) => type) }
}

const DONE = 'response.function_call_arguments.done'

test.each(['{"a": 1,}', '{"a":', '{"a": "b\nc"}'])('%j, ended by the model', (given) => {
  const message = messageOf(given, 'tool_calls')
  expect(message.stop_reason).toBe('tool_use')
  expect(message.content).toMatchObject([{ type: 'tool_use', name: 'f', input: { INVALID_JSON: given } }])
  // and back
  const [back] = toChatMessages([{ role: 'assistant', content: message.content }])
  expect(back?.tool_calls).toEqual([{ id: 'call', type: 'function', function: { name: 'f', arguments: given } }])
  const { item, types } = itemOf(given, 'tool_calls')
  expect(item).toMatchObject({ type: 'function_call', arguments: given, status: 'completed' })
  expect(types).toContain(DONE)
})

test.each(['{"a":', ''])(
  'one that was cut off (%j) is no input of a message, and an incomplete item of a response',
  (given) => {
    expect(messageOf(given, 'length')).toMatchObject({
      stop_reason: 'max_tokens',
      content: [{ type: 'tool_use', name: 'f', input: { INVALID_JSON: given } }],
    })
    const { item, types } = itemOf(given, 'length')
    expect(item).toMatchObject({ status: 'incomplete' })
    expect(types).not.toContain(DONE)
  },
)

test('input that only looks so stays an object', () => {
  for (const input of [{ INVALID_JSON: 5 }, { INVALID_JSON: 'x', more: 1 }, {}]) {
    const [back] = toChatMessages([{ role: 'assistant', content: [{ type: 'tool_use', id: 'c', name: 'f', input }] }])
    expect(back?.tool_calls?.[0]).toMatchObject({ function: { arguments: input } })
  }
})
