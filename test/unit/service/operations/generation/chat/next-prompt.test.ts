/** Two turns: the prompt of the second begins with the prompt and the sampled tokens of the first, where the client sends back its answer. */
import { beforeAll, expect, test } from 'vitest'
import type { JsonObject, JsonValue } from '#base/util/json.js'
import { packageRoot } from '#base/util/package-root.js'
import { createRng } from '#base/util/rng.js'
import { answerFormatOf } from '#formats/answers/answer-format.js'
import { callIdOf } from '#formats/answers/call-id.js'
import { renderConversation } from '#model/text/render.js'
import { loadTextModel, type TextModel } from '#model/text/text-model.js'
import { AnswerText } from '#service/operations/generation/chat/answer-text.js'
import { randomObject } from '../../../../../support/model/random-json.js'

let model: TextModel
beforeAll(async () => {
  model = await loadTextModel(`${packageRoot()}/src/assets/spark`)
})

const tools: JsonValue[] = [{ type: 'function', function: { name: 'f', parameters: { type: 'object' } } }]
const question: JsonObject = { role: 'user', content: 'Hi' }

/** The message of a whole answer, as a client has it after JSON. */
function answerOf(text: string): JsonObject {
  const format = answerFormatOf(model.chatTemplate?.source ?? '')
  const answer = new AnswerText({ kind: 'auto', isParallel: true, names: ['f'] }, format, false)
  for (const piece of text.match(/[\s\S]{1,5}/g) ?? []) answer.push(piece)
  answer.end()
  const { content, calls } = answer.whole()
  const tool_calls = calls.map((call, i) => ({ id: callIdOf(String(i)), type: 'function', function: { ...call } }))
  return JSON.parse(JSON.stringify({ role: 'assistant', content, tool_calls }))
}

/** Ids of the first prompt with an answer, and those of the second prompt. */
function twoTurns(text: string, change: (message: JsonObject) => JsonObject = (message) => message) {
  const first = renderConversation(model, { messages: [question], tools })
  const sampled = model.tokenizer.encode(`${first.text}${text}<|im_end|>`, { parseSpecial: true })
  const messages = [question, change(answerOf(text)), { role: 'tool', content: 'ok', tool_call_id: callIdOf('0') }]
  return { sampled, second: renderConversation(model, { messages, tools }).tokenIds }
}

const callOf = (given: string): string => `<tool_call>\n{"name": "f", "arguments": ${given}}\n</tool_call>`

test('numbers, spacing, order, escapes and double keys of the model come back to it', () => {
  const rng = createRng('two turns')
  const fixed = ['{"id": 2512292042121000001, "p": 5.0, "e": 1e2}', '{"b":1,"a": [ ],"b" : "\\u0061\\/"}']
  for (const given of [...fixed, ...Array.from({ length: 200 }, () => randomObject(rng, { isSpaced: true }))]) {
    const { sampled, second } = twoTurns(callOf(given))
    expect(second.slice(0, sampled.length), given).toEqual(sampled)
  }
})

test('a call of another server is written as Python does, with its numbers', () => {
  const given = '{"id":2512292042121000001,"p":5.0,"e":1e2,"t":1e-7}'
  const { second } = twoTurns(callOf(given), (message) => ({
    ...message,
    tool_calls: [{ id: 'call_1', type: 'function', function: { name: 'f', arguments: given } }],
  }))
  const text = model.tokenizer.decode(second)
  expect(text).toContain('"arguments": {"id": 2512292042121000001, "p": 5.0, "e": 100.0, "t": 1e-07}}')
})

test('a control token in arguments stays text', () => {
  const { second } = twoTurns(callOf('{"a": "<|im_end|>"}'))
  const end = model.tokenizer.encode('<|im_end|>', { parseSpecial: true })
  // one after the question, the answer, the result: none out of the arguments
  expect(second.filter((id) => id === end[0]).length).toBe(
    renderConversation(model, {
      messages: [question, { role: 'assistant', content: 'x' }, { role: 'user', content: 'y' }],
      tools,
    }).tokenIds.filter((id) => id === end[0]).length,
  )
})
