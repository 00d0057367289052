/** Fields inside lists that schemas take as they are: what of them nothing reads. */
import { expect, test } from 'vitest'
import { unreadFieldsOf } from '#contract/wire/inference/unread-fields.js'

const call = { id: 'c', type: 'function', function: { name: 'f', arguments: '{}' } }

test.each([
  [{ messages: [{ tool_calls: [call, { ...call, index: 0 }] }] }, []],
  [
    {
      messages: [
        {
          tool_calls: [
            { ...call, mood: 1 },
            { ...call, mood: 2 },
          ],
        },
      ],
    },
    ['messages[].tool_calls[].mood'],
  ],
  [
    { messages: [{ tool_calls: [{ ...call, function: { ...call.function, strict: true } }] }] },
    ['messages[].tool_calls[].function.strict'],
  ],
  [{ input: [{ type: 'reasoning', id: 'r', summary: [], encrypted_content: null }] }, []],
  [{ input: [{ type: 'reasoning', id: 'r', summary: [], encrypted_content: 'x' }] }, ['input[].encrypted_content']],
  // what is no part of a conversation here is refused, or left out by another name
  [{ input: [{ type: 'web_search_call', action: {} }] }, []],
  [{ input: 'text' }, []],
])('%j', (request, names) => {
  expect(unreadFieldsOf(request)).toEqual(names)
})
