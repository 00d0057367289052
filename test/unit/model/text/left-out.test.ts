/** Which messages a template leaves out: found by rendering, remembered by kind, at a bounded cost. */
import { describe, expect, it } from 'vitest'
import type { JsonObject } from '#base/util/json.js'
import { createChatTemplate } from '#model/text/chat-template.js'
import { renderConversation } from '#model/text/render.js'
import { createLeftOutFinder } from '#model/text/template/left-out.js'
import { bindText } from '#training/worker/text-binding.js'
import { createTinyTextModel } from '../../../support/model/tiny-tokenizer.js'

const template = (source: string) => createChatTemplate(source, { controlTokens: [], tokenVariables: {} })
const roles = template(
  "{% for m in messages %}{% if m.role in ['system', 'user', 'assistant'] %}<{{ m.role }}>{{ m.content }}{% endif %}{% endfor %}",
)
const message = (role: string, content: string, more: JsonObject = {}): JsonObject => ({ role, content, ...more })
const call = { tool_calls: [{ id: 'c', type: 'function', function: { name: 'f', arguments: '{}' } }] }

describe('messages that a template leaves out', () => {
  it('are found wherever they stand, also when all of their text is written elsewhere', () => {
    const messages = [message('user', 'rain'), message('observation', 'rain'), message('assistant', 'rain')]
    expect(roles.leftOutMessages({ messages })).toEqual([1])
    expect(roles.leftOutMessages({ messages: messages.slice(0, 1) })).toEqual([])
    // seen again, it is found again
    expect(roles.leftOutMessages({ messages })).toEqual([1])
    expect(roles.leftOutMessages({ messages: [message('tool', 'rain')] })).toEqual([0])
  })

  it('are those with calls alone that are not written either', () => {
    const withCalls = template(
      '{% for m in messages %}{% if m.tool_calls %}{{ m.tool_calls[0].function.name }}{% elif m.role != "tool" %}{{ m.content }}{% endif %}{% endfor %}',
    )
    const written = [message('user', 'x'), message('assistant', 'let me see', call)]
    expect(withCalls.leftOutMessages({ messages: written })).toEqual([])
    expect(withCalls.leftOutMessages({ messages: [...written, message('tool', 'y')] })).toEqual([2])
    const without = template('{% for m in messages %}{% if m.role == "user" %}{{ m.content }}{% endif %}{% endfor %}')
    expect(without.leftOutMessages({ messages: written })).toEqual([1])
  })

  it('are not those that say nothing', () => {
    expect(roles.leftOutMessages({ messages: [message('observation', ' \n'), message('user', 'x')] })).toEqual([])
  })

  it('are refused for a prompt, with path and role', () => {
    const model = createTinyTextModel(roles.source)
    expect(() => renderConversation(model, { messages: [message('user', 'x'), message('observation', 'y')] })).toThrow(
      expect.objectContaining({
        code: 'message_left_out',
        param: 'messages[1]',
        message: expect.stringContaining('"observation"'),
      }),
    )
  })

  it('cost renderings only where a kind of message is new', () => {
    let count = 0
    const find = createLeftOutFinder(({ messages }) => {
      count += 1
      return JSON.stringify(messages)
    })
    const chat = (turns: number) =>
      Array.from({ length: turns }, (_, i) => message(i % 2 === 0 ? 'user' : 'assistant', `${i}`))
    const run = (messages: JsonObject[]) => find({ messages, tools: null, documents: null }, messages)
    expect(run(chat(2000))).toEqual([])
    expect(count).toBeLessThan(10)
    count = 0
    expect(run(chat(4000))).toEqual([])
    expect(count).toBe(0)
    // thousands of roles that nobody has seen
    expect(run(chat(2000).map((one, i) => ({ ...one, role: `r${i}` })))).toEqual([])
    expect(count).toBeLessThan(40)
  })
})

describe('developer', () => {
  const messages = [message('developer', 'd'), message('user', 'u')]

  it('is system where the template does not name it', () => {
    expect(roles.render({ messages }).text).toBe('<system>d<user>u')
    expect(template('{% for m in messages %}<{{ m.role }}>{% endfor %}').render({ messages }).text).toBe(
      '<system><user>',
    )
  })

  it('stays itself where the template names it', () => {
    const source =
      "{% for m in messages %}{% if m.role in ['developer', 'user'] %}<{{ m.role }}>{% endif %}{% endfor %}"
    expect(template(source).render({ messages }).text).toBe('<developer><user>')
  })
})

describe('training', () => {
  it('renders prompts without the messages that are left out, and names them', () => {
    const text = bindText(createTinyTextModel(roles.source))
    const messages = [message('observation', 'y'), message('user', 'x')]
    const { renderPrompt, leftOutOf } = text
    expect(text.textOf(Array.from(renderPrompt({ messages, tools: null })))).toBe('<user>x')
    expect(leftOutOf({ messages, tools: null })).toEqual(['messages[0] (role "observation")'])
  })
})
