/** Templates against Python's Jinja (`test/support/model/make-template-goldens.py`). */
import { readFileSync } from 'node:fs'
import { expect, test } from 'vitest'
import type { JsonObject, JsonValue } from '#base/util/json.js'
import { createChatTemplate } from '#model/text/chat-template.js'

interface Golden {
  readonly template?: string
  readonly source?: string
  readonly title: string
  readonly conversation: JsonObject & { readonly messages: readonly JsonValue[] }
  readonly expected: string
}

const fixture = (name: string): string => readFileSync(new URL(`../../../fixtures/${name}`, import.meta.url), 'utf8')
const goldens: readonly Golden[] = JSON.parse(fixture('template-goldens.json'))

test.each(goldens)('template goldens: $template$source ($title)', ({ template, source, conversation, expected }) => {
  const { messages, tools, add_generation_prompt: addGenerationPrompt, ...kwargs } = conversation
  const compiled = createChatTemplate(source ?? fixture(template ?? ''), {
    controlTokens: [],
    tokenVariables: { bos_token: '<s>' },
  })
  const { text } = compiled.render({
    messages,
    tools: Array.isArray(tools) ? tools : null,
    addGenerationPrompt: addGenerationPrompt !== false,
    kwargs: { date_string: 'today', ...kwargs },
  })
  expect(text).toBe(expected)
})

test('a template in the form of Gemma’s refuses turns that do not alternate', () => {
  const compiled = createChatTemplate(fixture('gemma.jinja'), {
    controlTokens: [],
    tokenVariables: { bos_token: '<bos>' },
  })
  const messages = ['a', 'b'].map((content) => ({ role: 'user', content }))
  expect(() => compiled.render({ messages })).toThrow(/must alternate/)
})
