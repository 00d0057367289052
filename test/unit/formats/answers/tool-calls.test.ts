/** Tool calls of Hermes and Qwen output. */
import { expect, test } from 'vitest'
import { parseToolCalls, toPythonJson } from '#formats/answers/tool-calls.js'
import { leastCpuMs } from '../../../support/process-cost.js'

const parse = (text: string) => {
  let next = 0
  const { content, toolCalls } = parseToolCalls(text, () => `id-${next++}`)
  return { content, calls: toolCalls.map(({ id, function: f }) => [id, f.name, f.arguments]) }
}

test('tool calls: text without calls is content', () => {
  expect(parse('Hello <tool>')).toEqual({ content: 'Hello <tool>', calls: [] })
})

test('tool calls: several calls, text before them is content', () => {
  const text =
    'Let me see.\n<tool_call>\n{"name": "f", "arguments": {"a":1,"b":["ä",null]}}\n</tool_call>\n<tool_call>{"name":"g"}</tool_call>'
  expect(parse(text)).toEqual({
    content: 'Let me see.\n',
    calls: [
      ['id-0', 'f', '{"a": 1, "b": ["ä", null]}'],
      ['id-1', 'g', '{}'],
    ],
  })
})

test('tool calls: white space before the first call is no content; the last call may be unclosed', () => {
  expect(parse('\n <tool_call>{"name":"f","arguments":{}}')).toEqual({ content: null, calls: [['id-0', 'f', '{}']] })
})

test.each([
  '<tool_call>{"name":"f","arguments":{}</tool_call>',
  '<tool_call>{"name":"f"}</tool_call><tool_call>oops</tool_call>',
  '<tool_call>{"arguments":{}}</tool_call>',
  '<tool_call>["f"]</tool_call>',
  '<tool_call>{"name":"f","arguments":"{}"}</tool_call>',
  '<tool_call>',
])('tool calls: %s is malformed, so all is content', (text) => {
  expect(parse(text)).toEqual({ content: text, calls: [] })
})

test('tool calls: a tag inside a string of the arguments is data', () => {
  expect(parse('<tool_call>{"name":"f","arguments":{"x":"<tool_call>"}}</tool_call>').calls).toEqual([
    ['id-0', 'f', '{"x": "<tool_call>"}'],
  ])
})

test('tool calls: a hundred thousand open tags do not hang', () => {
  const text = '<tool_call>'.repeat(100_000)
  // time that grows with the square of the length would be minutes
  expect(leastCpuMs(1, () => expect(parse(text).content).toBe(text))).toBeLessThan(10_000)
})

test('toPythonJson: spacing of json.dumps', () => {
  expect(toPythonJson({ a: [1, 'x"', { b: true }], c: {} })).toBe('{"a": [1, "x\\"", {"b": true}], "c": {}}')
})
