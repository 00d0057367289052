import { expect, test } from 'vitest'
import { createChatTemplate } from '#model/text/chat-template.js'
import { turnEndOf } from '#model/text/text-model.js'

const SPECIAL = ['<|im_start|>', '<|im_end|>', '<|im_end|>x', '<|endoftext|>', '</s>']
const tokenizer = { specialTokens: SPECIAL, tokenToId: (token: string) => SPECIAL.indexOf(token) }
const endOf = (source: string): string | null => {
  const options = { controlTokens: SPECIAL, tokenVariables: { eos_token: '</s>' } }
  const id = turnEndOf(createChatTemplate(source, options), tokenizer)
  return id === null ? null : (SPECIAL[id] ?? '')
}
const loop = (turn: string): string => `{% for m in messages %}${turn}{% endfor %}`

test.each([
  ['ChatML', loop('<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n'), '<|im_end|>'],
  ['a space before it', loop('{{ m.content }} {{ eos_token }}'), '</s>'],
  ['the longest spelling', loop('{{ m.content }}<|im_end|>xy'), '<|im_end|>x'],
  ['no special token', loop('{{ m.role }}: {{ m.content }}\n###'), null],
  // it opens the next turn
  ['nothing behind the last turn', loop('<|im_start|>{{ m.role }}\n{{ m.content }}\n'), null],
  ['an answer that is not written', loop("{% if m.role == 'user' %}{{ m.content }}<|im_end|>{% endif %}"), null],
  ['a template that refuses', "{{ raise_exception('a system message comes first') }}", null],
])('%s', (_, source, expected) => {
  expect(endOf(source)).toBe(expected)
})
