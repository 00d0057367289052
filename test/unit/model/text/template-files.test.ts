/** Chat templates as files come: line ends of Windows, and what the renderer lacks is found when a model is added. */
import { describe, expect, it } from 'vitest'
import { createChatTemplate } from '#model/text/chat-template.js'
import { checkTemplate } from '#model/text/check-template.js'

const template = (source: string) => createChatTemplate(source, { controlTokens: [], tokenVariables: {} })
const messages = [
  { role: 'user', content: 'x' },
  { role: 'assistant', content: 'y' },
]

it.each(['\n', '\r\n', '\r'])('line ends %j mean the same', (end) => {
  const source = [
    '{% for m in messages %}',
    '  {%- if true %}',
    '{{ m.role }}: {{ m.content }}',
    '{% endif %}',
    '{% endfor %}',
    '',
  ]
  const { text } = template(source.join(end)).render({ messages, addGenerationPrompt: false })
  expect(text).toBe('user: x\nassistant: y\n')
})

describe('a template that cannot be rendered', () => {
  it.each([
    ['a statement', 'a\n{# {% no %} #}\r\n{% include "x" %}', 'line 3: {% include "x" %}'],
    ['an expression', '{{ "}}" }}\n{{ messages[0].content if }}', 'line 2: {{ messages[0].content if }}'],
    ['a condition', '{% if true %}\n{%- elif messages[ -%}\n{% endif %}', 'line 2: {%- elif messages[ -%}'],
  ])('names line and construct of %s when it is parsed', (_, source, place) => {
    expect(() => template(source)).toThrow(
      expect.objectContaining({ code: 'invalid_chat_template', message: expect.stringContaining(place) }),
    )
  })

  it.each([
    [
      'a filter of plain chat',
      '{{ messages[0].role }}\n{{ messages[0].content | frobnicate }}',
      'line 2: {{ messages[0].content | frobnicate }}',
    ],
    ['a test', '\n\n{% if messages is frobbed %}{% endif %}', 'line 3: {% if messages is frobbed %}'],
    [
      'a filter of tools',
      '{% for m in messages %}{{ m.content }}{% endfor %}\n{% if tools %}{{ tools | frob }}{% endif %}',
      'line 2: {{ tools | frob }}',
    ],
    [
      'a function of plain chat',
      'a\n{{ frobnicate() }}',
      'not a function, and cannot be called, line 2: {{ frobnicate() }}',
    ],
  ])('names line and construct of %s when the model is added', (_, source, place) => {
    expect(() => checkTemplate(template(source))).toThrow(
      expect.objectContaining({ code: 'unsupported_chat_template', message: expect.stringContaining(place) }),
    )
  })

  it('is not one that refuses a conversation, or fails on one it does not expect', () => {
    const source = `{% if messages[0].role == 'system' %}{{ raise_exception('no system') }}{% endif %}
      {%- for m in messages %}{{ m.content }}{% if tools %}{{ tools.missing.function() }}{% endif %}{% endfor %}`
    expect(() => checkTemplate(template(source))).not.toThrow()
  })
})
