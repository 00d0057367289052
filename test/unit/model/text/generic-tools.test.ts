/** Tools on templates that show none: told in words, with calls and results as text of ordinary turns; in chat and in training alike. */
import { readFileSync } from 'node:fs'
import { describe, expect, it } from 'vitest'
import { answerFormatOf } from '#formats/answers/answer-format.js'
import { callIdOf } from '#formats/answers/call-id.js'
import { checkTemplate } from '#model/text/check-template.js'
import { renderConversation } from '#model/text/render.js'
import { renderTurns } from '#model/text/render-with-mask.js'
import { createTinyTextModel } from '../../../support/model/tiny-tokenizer.js'

const fixture = (name: string): string => readFileSync(new URL(`../../../fixtures/${name}`, import.meta.url), 'utf8')
const chatml =
  "{% for m in messages %}{{ '<|im_start|>' + m.role + '\n' + m.content + '<|im_end|>\n' }}{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
const parts = `{% for m in messages %}<|im_start|>{{ m.role }}
{% for part in m.content %}{{ part.text }}{% endfor %}<|im_end|>
{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant
{% endif %}`

const tool = {
  type: 'function',
  function: { name: 'weather', parameters: { type: 'object', properties: { city: { type: 'string' } } } },
}
const user = (content: string) => ({ role: 'user', content })
const call = (id: string, city: string) => ({
  id,
  type: 'function',
  function: { name: 'weather', arguments: `{"city":"${city}", "n": 1.0}` },
})
const agent = [
  user('Rome and Oslo?'),
  { role: 'assistant', content: null, tool_calls: [call('other', 'Rome'), call(callIdOf('0'.repeat(32)), 'Oslo')] },
  { role: 'tool', tool_call_id: 'other', content: 'clear' },
  { role: 'tool', tool_call_id: callIdOf('0'.repeat(32)), content: 'rain' },
  user('And now?'),
  { role: 'assistant', content: 'It rains in Oslo.' },
]
const CALLS =
  '<tool_call>\n{"name": "weather", "arguments": {"city": "Rome", "n": 1.0}}\n</tool_call>\n' +
  '<tool_call>\n{"name": "weather", "arguments": {"city":"Oslo", "n": 1.0}}\n</tool_call>'
const RESULTS = '<tool_response>\nclear\n</tool_response>\n<tool_response>\nrain\n</tool_response>\nAnd now?'

describe.each([
  ['ChatML', chatml],
  ['parts', parts],
])('%s without tools', (_, template) => {
  const model = createTinyTextModel(template)

  it('has the tools behind the instructions, calls and results as turns', () => {
    const messages = [{ role: 'system', content: 'Be brief.' }, ...agent]
    const { text } = renderConversation(model, { messages, tools: [tool], addGenerationPrompt: false })
    const turns = text.split('<|im_start|>').slice(1)
    expect(turns.map((turn) => turn.split('\n')[0])).toEqual(['system', 'user', 'assistant', 'user', 'assistant'])
    expect(turns[0]).toMatch(/^system\nBe brief\.\n\nYou can call functions\./)
    expect(turns[0]).toContain(
      '{"name": "weather", "parameters": {"type": "object", "properties": {"city": {"type": "string"}}}}',
    )
    expect(turns[2]).toBe(`assistant\n${CALLS}<|im_end|>\n`)
    expect(turns[3]).toBe(`user\n${RESULTS}<|im_end|>\n`)
  })

  it('has a system message for them where there is none', () => {
    const { text } = renderConversation(model, { messages: [user('Hi')], tools: [tool] })
    expect(text).toMatch(
      /^<\|im_start\|>system\nYou can call functions\.[\s\S]*<\|im_start\|>user\nHi<\|im_end\|>\n<\|im_start\|>assistant\n$/,
    )
  })

  it('is left alone without tools', () => {
    expect(renderConversation(model, { messages: [user('Hi')] }).text).toBe(
      '<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n',
    )
  })

  it('trains calls and answers, as they are asked for', () => {
    const { sequences, leftOut } = renderTurns(model, { messages: agent, tools: [tool] })
    expect(leftOut).toEqual([])
    expect(sequences).toHaveLength(1)
    const { tokenIds = [], mask = new Uint8Array() } = sequences[0] ?? {}
    const trained = model.tokenizer.decode(tokenIds.filter((_id, i) => mask[i] === 1))
    expect(trained).toBe(`${CALLS}<|im_end|>It rains in Oslo.<|im_end|>`)
    const prompt = renderConversation(model, { messages: agent.slice(0, 5), tools: [tool] })
    expect(tokenIds.slice(0, prompt.tokenIds.length)).toEqual(prompt.tokenIds)
  })

  it('is read in the form that it was told', () => {
    expect(answerFormatOf(template).toolFormat).toBe('hermes')
    expect(() => checkTemplate(model.chatTemplate!)).not.toThrow()
  })
})

it('a template in the form of Gemma’s, which takes no system message and turns that alternate, has them in the first turn', () => {
  const model = createTinyTextModel(fixture('gemma.jinja'), {
    controlTokens: ['<start_of_turn>', '<end_of_turn>'],
    ends: ['<end_of_turn>'],
  })
  const { text } = renderConversation(model, { messages: agent.slice(0, 5), tools: [tool] })
  const turns = text.split('<start_of_turn>').slice(1)
  expect(turns.map((turn) => turn.split('\n')[0])).toEqual(['user', 'model', 'user', 'model'])
  expect(turns[0]).toMatch(/^user\nYou can call functions\.[\s\S]*\n\nRome and Oslo\?<end_of_turn>\n$/)
  expect(turns[1]).toContain(CALLS)
  expect(turns[2]).toContain(RESULTS)
})
