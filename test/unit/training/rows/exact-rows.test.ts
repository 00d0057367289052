/** Rows of training data keep the numbers of their calls and tools, and every other number is a plain one. */
import { beforeAll, expect, test } from 'vitest'
import { parseExactRow } from '#base/json/exact-json.js'
import { packageRoot } from '#base/util/package-root.js'
import { readPreferenceExamples } from '#formats/rows/examples/preference-example.js'
import { readSftExamples } from '#formats/rows/examples/sft-example.js'
import { parseTrajectoryGroup } from '#formats/rows/parse.js'
import { renderConversation } from '#model/text/render.js'
import { loadTextModel, type TextModel } from '#model/text/text-model.js'

let model: TextModel
beforeAll(async () => {
  model = await loadTextModel(`${packageRoot()}/src/assets/spark`)
})

const MESSAGES =
  '[{"role": "user", "content": "Hi"}, {"role": "assistant", "content": null, "weight": 1.0, "tool_calls": [{"id": "1", "type": ' +
  '"function", "function": {"name": "f", "arguments": "{\\"id\\": 2512292042121000001, \\"p\\": 5.0, \\"r\\": 1e-7}"}}]}, ' +
  '{"role": "tool", "tool_call_id": "1", "content": "ok"}, {"role": "assistant", "content": "ok"}]'
const TOOLS =
  '[{"type": "function", "function": {"name": "f", "parameters": {"type": "object", "properties": {"id": {"type": ' +
  '"integer", "maximum": 9223372036854775807}, "p": {"type": "number", "default": 1.0}}}}}]'
const EXPECTED = [
  '"arguments": {"id": 2512292042121000001, "p": 5.0, "r": 1e-07}}',
  '"maximum": 9223372036854775807}, "p": {"type": "number", "default": 1.0}',
]

async function* bytesOf(text: string): AsyncGenerator<Uint8Array> {
  yield Buffer.from(text)
}

test('a supervised row is rendered as transformers does', async () => {
  for (const messages of [
    MESSAGES,
    MESSAGES.replace(/"(\{\\.*?\})"/, (_, inner: string) => inner.replaceAll('\\"', '"')),
  ]) {
    for await (const example of readSftExamples(bytesOf(`{"messages": ${messages}, "tools": ${TOOLS}}`))) {
      const { text } = renderConversation(model, { messages: example.messages, tools: example.tools })
      for (const part of EXPECTED) expect(text).toContain(part)
    }
  }
})

test('a preference row too', async () => {
  const row = `{"prompt": ${MESSAGES.replace(', {"role": "assistant", "content": "ok"}]', ']')}, "tools": ${TOOLS}, "chosen": "a", "rejected": "b"}`
  for await (const { tools } of readPreferenceExamples(bytesOf(row)))
    expect(JSON.stringify(tools)).toContain('9223372036854775807')
})

test('a trajectory keeps them, and its reward and log-probabilities are numbers', () => {
  const text =
    `{"trajectories": [{"reward": 1.0, "tools": ${TOOLS}, "metrics": {"a": 2.0}, "messages_and_choices": [{"role": "user", "content": "Hi"}, ` +
    '{"finish_reason": "stop", "message": {"role": "assistant", "content": null, "tool_calls": [{"id": "1", "type": "function", "function": ' +
    '{"name": "f", "arguments": {"p": 5.0}}}]}, "logprobs": {"content": [{"token": "token_id:1", "logprob": -0.0}, {"token": "token_id:2", "logprob": -1e0}]}}]}]}'
  const { trajectories } = parseTrajectoryGroup(parseExactRow(text), 'trajectory_groups[0]')
  const [trajectory] = trajectories
  const [history] = trajectory!.histories
  expect(trajectory!.reward).toBe(1)
  expect(history!.items[1]).toMatchObject({ kind: 'choice', logprobs: Float32Array.of(-0, -1) })
  const rendered = renderConversation(model, {
    messages: history!.items.map(({ message }) => message),
    tools: history!.tools,
  })
  expect(rendered.text).toContain('"arguments": {"p": 5.0}}')
  expect(rendered.text).toContain(EXPECTED[1])
})
